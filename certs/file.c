#include "certs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The errno for what a file is, or 0 with *room: how much more than all of it is. */
static int judge(int fd, size_t max, bool regular, size_t *room)
{
    struct stat st;

    *room = max + 1;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : regular ? EINVAL : 0;
    if ((uintmax_t)st.st_size > max)
        return EFBIG;
    if (st.st_size > 0)
        *room = (size_t)st.st_size + 1;
    return 0;
}

int file_read(const char *path, size_t max, bool regular, struct buf *content)
{
    size_t room;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular ? O_NONBLOCK : 0));

    buf_init(content, 0);
    if (fd < 0)
        return errno;
    int number = judge(fd, max, regular, &room);
    /* Reserved at once: a key must not stay in memory that was grown out of. */
    if (number == 0)
        buf_init(content, room);
    while (number == 0) {
        room = buf_room(content);
        ssize_t got = room != 0 ? read(fd, buf_reserve(content, room), room) : 0;
        if (got > 0)
            buf_commit(content, (size_t)got);
        else if (room == 0)
            number = EFBIG;
        else if (got == 0)
            break;
        else if (errno != EINTR)
            number = errno;
    }
    close(fd);
    return number;
}
