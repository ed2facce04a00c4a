#include "proxy/net/stream.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"

static ssize_t plain_read(struct stream *s, void *p, size_t n)
{
    return read(s->fd, p, n);
}

static ssize_t plain_writev(struct stream *s, const struct iovec *iov, int count)
{
    /* sendmsg for MSG_NOSIGNAL: the core also runs inside programs that keep SIGPIPE. */
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)count};
    return sendmsg(s->fd, &m, MSG_NOSIGNAL);
}

static int plain_shutdown(struct stream *s)
{
    return shutdown(s->fd, SHUT_WR);
}

static void plain_want(struct stream *s, int events)
{
    s->wanted = events;
    ev_io_stop(s->loop, &s->io);
    if (events == 0)
        return;
    ev_io_modify(&s->io,
                 ((events & STREAM_READ) ? EV_READ : 0) | ((events & STREAM_WRITE) ? EV_WRITE : 0));
    ev_io_start(s->loop, &s->io);
}

static void plain_close(struct stream *s)
{
    ev_io_stop(s->loop, &s->io);
    close(s->fd);
    free(s);
}

static void plain_ready(struct ev_loop *loop, ev_io *io, int revents)
{
    struct stream *s = io->data;
    int events =
        ((revents & EV_READ) ? STREAM_READ : 0) | ((revents & EV_WRITE) ? STREAM_WRITE : 0);
    (void)loop;
    events &= s->wanted;
    if (events != 0)
        s->handler(s->ctx, s, events);
}

static const struct stream_ops plain_ops = {
    .read = plain_read,
    .writev = plain_writev,
    .shutdown = plain_shutdown,
    .want = plain_want,
    .close = plain_close,
    .close_ends = true,
};

struct stream *stream_plain(struct ev_loop *loop, int fd)
{
    struct stream *s = mem_alloc(sizeof *s);
    s->ops = &plain_ops;
    s->loop = loop;
    s->fd = fd;
    ev_io_init(&s->io, plain_ready, fd, EV_READ);
    s->io.data = s;
    return s;
}

int stream_raw_fd(const struct stream *s)
{
    return s->ops == &plain_ops ? s->fd : -1;
}

size_t stream_unsent(const struct stream *s)
{
    int n = 0;
    return ioctl(s->fd, TIOCOUTQ, &n) == 0 && n > 0 ? (size_t)n : 0;
}

int stream_release(struct stream *s)
{
    if (s->ops != &plain_ops)
        return -1;
    int fd = s->fd;
    if (s->quiet_link != NULL)
        stream_set_quiet(s, false);
    ev_io_stop(s->loop, &s->io);
    free(s);
    return fd;
}

void stream_reset(struct stream **s)
{
    if (*s == NULL)
        return;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt((*s)->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    stream_close(s);
}
