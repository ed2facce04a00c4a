#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool fd_cloexec(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFD);

    return flags >= 0 && fcntl(fd, F_SETFD, on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC) == 0;
}

bool fd_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0;
}

bool fd_write_all(int fd, const void *p, size_t n)
{
    const uint8_t *from = p;

    while (n != 0) {
        ssize_t done = write(fd, from, n);
        if (done >= 0) {
            from += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            if (poll(&wait, 1, -1) < 0 && errno != EINTR)
                return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool fd_is_socket(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Room for the descriptors of one message, aligned as a control message has to be. */
union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
};

bool fd_send(int sock, const void *p, size_t n, const int *fds, size_t count)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;
    ssize_t sent;

    if (count > FD_PASS_MAX || n == 0) {
        errno = EINVAL;
        return false;
    }
    if (count != 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    do
        sent = sendmsg(sock, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return false;
    /* The descriptors went with the first byte; the rest of the data is an ordinary write. */
    return (size_t)sent == n || fd_write_all(sock, (const uint8_t *)p + sent, n - (size_t)sent);
}

/* Takes the descriptors of one control message; those that do not fit are closed. False then. */
static bool take_descriptors(struct cmsghdr *c, int *fds, size_t max, size_t *count)
{
    const unsigned char *data = CMSG_DATA(c);
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    bool fit = true;

    for (size_t i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, data + i * sizeof fd, sizeof fd);
        if (*count < max) {
            fds[(*count)++] = fd;
        } else {
            close(fd);
            fit = false;
        }
    }
    return fit;
}

ssize_t fd_receive(int sock, void *p, size_t n, int *fds, size_t max, size_t *count)
{
    struct iovec iov = {.iov_base = p, .iov_len = n};
    union control control;
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    ssize_t got;

    *count = 0;
    do
        got = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    bool fit = (message.msg_flags & MSG_CTRUNC) == 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            fit = take_descriptors(c, fds, max, count) && fit;
    if (fit)
        return got;
    while (*count != 0)
        close(fds[--*count]);
    errno = EMSGSIZE;
    return -1;
}
