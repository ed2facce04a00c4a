#include "launcher/temporary.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static const char place[] = "/tmp/claude";

void temporary_prepare(struct temporary *t)
{
    struct stat st;

    *t = (struct temporary){.path = place};
    if (mkdir(place, 0700) != 0 && errno != EEXIST) {
        t->path = "/dev/shm";
        return;
    }
    if (lstat(place, &st) != 0 || !S_ISDIR(st.st_mode)) {
        log_warning("%s is no directory: TMPDIR is /dev/shm", place);
        t->path = "/dev/shm";
    } else if (st.st_uid != geteuid()) {
        t->private = place;
    }
}
