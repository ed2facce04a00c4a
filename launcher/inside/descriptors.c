#include "launcher/inside/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/inside/failure.h"

/* False with ENOSYS before Linux 5.9. */
static bool close_between(unsigned first, unsigned last)
{
    return first > last || close_range(first, last, 0) == 0;
}

/* For kernels without close_range(): what /proc lists. */
static bool close_listed(int a, int b)
{
    DIR *list = opendir("/proc/self/fd");
    const struct dirent *entry;

    if (list == NULL)
        return false;
    while ((entry = readdir(list)) != NULL) {
        char *end;
        long fd = strtol(entry->d_name, &end, 10);
        if (end != entry->d_name && *end == 0 && fd > 2 && fd != a && fd != b && fd != dirfd(list))
            close((int)fd);
    }
    closedir(list);
    return true;
}

bool descriptors_close_others(int a, int b, struct buf *error)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);

    if (close_between(3, low - 1) && close_between(low + 1, high - 1) &&
        close_between(high + 1, UINT_MAX))
        return true;
    return (errno == ENOSYS && close_listed(a, b)) || failure(error, "close_range", NULL);
}

bool descriptors_fill(struct buf *error)
{
    int fd;

    do
        fd = open("/", O_PATH | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd < 0)
        return failure(error, "open", "/");
    close(fd);
    return true;
}

bool descriptors_standard_error(int stderr_fd, struct buf *error)
{
    if (stderr_fd == STDERR_FILENO)
        return true;
    if (dup2(stderr_fd, STDERR_FILENO) < 0)
        return failure(error, "standard error", NULL);
    close(stderr_fd);
    return true;
}

void descriptors_close(int fd)
{
    int why = errno;

    if (fd >= 0)
        close(fd);
    errno = why;
}
