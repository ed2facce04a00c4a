#include "proxy/net/socket_open.h"

#include <sys/socket.h>

#ifdef SOCK_NONBLOCK

int socket_open(int family, int type, int protocol)
{
    return socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
}

#else

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int socket_open(int family, int type, int protocol)
{
    int fd = socket(family, type, protocol);

    if (fd >= 0 && (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

#endif
