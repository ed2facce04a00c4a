#include "decider/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"

static int socket_option(int fd, int name)
{
    int value = -1;
    socklen_t n = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &n) == 0 ? value : -1;
}

/* What is wrong with it, or NULL. */
static const char *fault(int fd, bool is_input, bool is_both)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) != 0)
        return strerror(errno);
    if (S_ISSOCK(st.st_mode)) {
        if (socket_option(fd, SO_TYPE) != SOCK_STREAM)
            return "not a stream socket";
        return socket_option(fd, SO_ACCEPTCONN) == 0 ? NULL : "a listening socket";
    }
    if (!S_ISFIFO(st.st_mode))
        return "neither a stream socket nor a pipe";
    if (is_both)
        return "a pipe, which has one direction only";
    return (flags & O_ACCMODE) != (is_input ? O_WRONLY : O_RDONLY) ? NULL
           : is_input                                              ? "cannot be read from"
                                                                   : "cannot be written to";
}

static bool prepare(int fd, bool is_input, bool is_both, struct buf *error)
{
    const char *wrong = fault(fd, is_input, is_both);

    if (wrong == NULL && (!fd_nonblock(fd, true) || !fd_cloexec(fd, true)))
        wrong = strerror(errno);
    if (wrong != NULL)
        buf_printf(error, "descriptor %d of the decider: %s", fd, wrong);
    return wrong == NULL;
}

bool inherited_prepare(int in, int out, struct buf *error)
{
    bool is_both = in == out;

    return prepare(in, true, is_both, error) && (is_both || prepare(out, false, false, error));
}
