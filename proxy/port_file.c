#include "proxy/port_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

bool port_file_write(const char *path, struct listener *const *listeners, size_t count,
                     struct buf *error)
{
    struct buf text, beside;
    bool ok = false;
    int fd = -1;

    buf_init(&text, 64 * 1024);
    buf_init(&beside, PATH_MAX);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s\n", listeners[i]->address);
    if (!buf_printf(&beside, "%s.%ld", path, (long)getpid())) {
        errno = ENAMETOOLONG;
        goto out;
    }
    fd = open(buf_cstr(&beside), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        goto out;
    ok = fd_write_all(fd, buf_data(&text), buf_len(&text)) && rename(buf_cstr(&beside), path) == 0;
out:
    if (!ok) {
        buf_printf(error, "%s: %s", path, strerror(errno));
        if (fd >= 0)
            unlink(buf_cstr(&beside));
    }
    if (fd >= 0)
        close(fd);
    buf_free(&text);
    buf_free(&beside);
    return ok;
}
