#include "proxy/net/system_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

/*
 * Two changes within one tick of the clock that stamps files leave the same
 * times. A file read so soon after its change is read once more later on.
 */
enum { TICK_MS = 50, COARSE_TICK_MS = 2500 };

void system_file_init(struct system_file *f, const char *path)
{
    *f = (struct system_file){.path = mem_dup(path)};
}

void system_file_free(struct system_file *f)
{
    MEM_FREE(f->path);
    f->known = false;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool system_file_changed(const struct system_file *f)
{
    struct stat st;
    bool present = stat(f->path, &st) == 0;

    if (!f->known || present != f->present)
        return true;
    if (!present)
        return false;
    return !f->settled || st.st_dev != f->device || st.st_ino != f->inode ||
           st.st_size != f->size || !same_time(&st.st_mtim, &f->modified) ||
           !same_time(&st.st_ctim, &f->changed);
}

/* Long enough ago that a later change gets another time. A file system that keeps whole seconds
 * needs longer; a time in the future says nothing and counts as old. */
static bool long_ago(const struct timespec *t, const struct timespec *now)
{
    long long slack = t->tv_nsec == 0 ? COARSE_TICK_MS : TICK_MS;
    long long age = ((long long)now->tv_sec - (long long)t->tv_sec) * 1000 +
                    (now->tv_nsec - t->tv_nsec) / 1000000;

    return age > slack || age < -slack;
}

static void read_all(int fd, struct buf *out)
{
    enum { CHUNK = 16384 };

    for (;;) {
        size_t room = buf_room(out);
        if (room == 0)
            return;
        if (room > CHUNK)
            room = CHUNK;
        ssize_t n = read(fd, buf_reserve(out, room), room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        buf_commit(out, (size_t)n);
    }
}

void system_file_read(struct system_file *f, struct buf *out)
{
    struct stat st;
    struct timespec now;
    /* Non-blocking: a FIFO in its place must not stop the loop. */
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    buf_clear(out);
    f->known = true;
    f->present = fd >= 0 && fstat(fd, &st) == 0;
    if (!f->present)
        goto out;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    f->size = st.st_size;
    f->modified = st.st_mtim;
    f->changed = st.st_ctim;
    clock_gettime(CLOCK_REALTIME, &now);
    f->settled = long_ago(&st.st_mtim, &now) && long_ago(&st.st_ctim, &now);
    if (S_ISREG(st.st_mode))
        read_all(fd, out);
out:
    if (fd >= 0)
        close(fd);
}
