#include "launcher/connect_copy.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

/* One way. */
struct way {
    struct buf held; /* read and not yet written */
    bool ended;      /* nothing more is read */
    bool done;       /* ... and all is written, and the end passed on */
};

struct copy {
    int in, out, sock;
    bool in_is_socket, out_is_socket;
    struct way up, down; /* up: in to sock */
    int number;          /* what broke the connection */
};

/* poll() has said that there is something; a socket may have changed its mind. */
static ssize_t read_some(int fd, bool socket, struct buf *to)
{
    size_t room = buf_room(to);
    uint8_t *p = buf_reserve(to, room);
    ssize_t n = socket ? recv(fd, p, room, MSG_DONTWAIT) : read(fd, p, room);
    if (n > 0)
        buf_commit(to, (size_t)n);
    return n;
}

/* A pipe that has room takes PIPE_BUF bytes without blocking, and no more is promised. */
static ssize_t write_some(int fd, bool socket, struct buf *from)
{
    size_t len = buf_len(from), most = len < PIPE_BUF ? len : PIPE_BUF;
    ssize_t n = socket ? send(fd, buf_data(from), len, MSG_DONTWAIT | MSG_NOSIGNAL)
                       : write(fd, buf_data(from), most);
    if (n > 0)
        buf_consume(from, (size_t)n);
    return n;
}

static bool later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool wants_input(const struct way *w)
{
    return !w->ended && buf_room(&w->held) != 0;
}

static bool has_output(const struct way *w)
{
    return !w->done && buf_len(&w->held) != 0;
}

/* The socket does not take any more, or the connection is gone. */
static void abandon(struct way *w)
{
    buf_clear(&w->held);
    w->ended = w->done = true;
}

static void from_input(struct copy *c)
{
    ssize_t n = read_some(c->in, c->in_is_socket, &c->up.held);
    if (n <= 0 && !later(n))
        c->up.ended = true;
}

static void from_socket(struct copy *c)
{
    ssize_t n = read_some(c->sock, true, &c->down.held);
    if (n > 0 || later(n))
        return;
    c->down.ended = true;
    if (n < 0) {
        c->number = errno;
        abandon(&c->up);
    }
}

static void to_socket(struct copy *c)
{
    ssize_t n = write_some(c->sock, true, &c->up.held);
    if (n < 0 && !later(n))
        abandon(&c->up); /* what the peer sent before is still to be read */
}

/* One descriptor both ways ends by shutdown alone; any other is closed, for a socket that others
 * share must go on. */
static void end_output(const struct copy *c)
{
    struct stat a, b;
    bool same = c->out_is_socket && fstat(c->in, &a) == 0 && fstat(c->out, &b) == 0 &&
                a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if (same)
        (void)shutdown(c->out, SHUT_WR);
    else
        close(c->out);
}

static void pass_ends_on(struct copy *c)
{
    if (c->up.ended && !c->up.done && buf_len(&c->up.held) == 0) {
        (void)shutdown(c->sock, SHUT_WR);
        c->up.done = true;
    }
    if (c->down.ended && !c->down.done && buf_len(&c->down.held) == 0) {
        end_output(c);
        c->down.done = true;
    }
}

/* One wait and what it brought. False with errno when it is over. */
static bool step(struct copy *c)
{
    enum { BROKEN = POLLERR | POLLHUP | POLLNVAL };
    short at_socket =
        (short)((wants_input(&c->down) ? POLLIN : 0) | (has_output(&c->up) ? POLLOUT : 0));
    /* poll() tells of a broken descriptor whether asked or not, so one from which nothing is wanted
     * is left out: it would be told again and again. Asked without events are the output, whose
     * reader may go, and the socket once it has ended, which may be reset. */
    struct pollfd fds[] = {
        {.fd = wants_input(&c->up) ? c->in : -1, .events = POLLIN},
        {.fd = at_socket != 0 || c->down.done ? c->sock : -1, .events = at_socket},
        {.fd = c->down.done ? -1 : c->out, .events = has_output(&c->down) ? POLLOUT : 0},
    };

    if (poll(fds, sizeof fds / sizeof fds[0], -1) < 0)
        return errno == EINTR;
    if (has_output(&c->down) && (fds[2].revents & POLLOUT) != 0) {
        ssize_t n = write_some(c->out, c->out_is_socket, &c->down.held);
        if (n < 0 && !later(n))
            return false;
    } else if ((fds[2].revents & BROKEN) != 0) {
        errno = EPIPE;
        return false;
    }
    if ((fds[1].revents & (POLLOUT | BROKEN)) != 0 && has_output(&c->up))
        to_socket(c);
    if ((fds[1].revents & (POLLIN | BROKEN)) != 0 && wants_input(&c->down))
        from_socket(c);
    else if (c->down.done && (fds[1].revents & BROKEN) != 0)
        abandon(&c->up);
    if (fds[0].revents != 0)
        from_input(c);
    return true;
}

int connect_copy(int in, int out, int sock, struct buf *early)
{
    struct copy c = {
        .in = in,
        .out = out,
        .sock = sock,
        .in_is_socket = fd_is_socket(in),
        .out_is_socket = fd_is_socket(out),
    };
    size_t ahead = buf_len(early);

    buf_init(&c.up.held, RELAY_CHUNK);
    buf_init(&c.down.held, ahead > RELAY_CHUNK ? ahead : RELAY_CHUNK);
    (void)buf_append(&c.down.held, buf_data(early), ahead);
    buf_free(early);
    while (!c.up.done || !c.down.done) {
        if (!step(&c)) {
            c.number = errno;
            break;
        }
        pass_ends_on(&c);
    }
    buf_free(&c.up.held);
    buf_free(&c.down.held);
    return c.number;
}
