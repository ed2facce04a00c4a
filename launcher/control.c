/*
 * The descriptor is somebody else's too: its flags are left as they are, and it is read only when
 * poll() says that a read does not block. libev calls a descriptor that epoll does not take (a
 * regular file) ready in each turn, which is right for one that is read to its end.
 */
#include "launcher/control.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"

enum {
    CHUNK = 65536,   /* most bytes of one read; a datagram may be longer */
    POLL_READS = 512 /* that control_poll() makes: some writers never rest */
};

struct control {
    struct ev_loop *loop;
    ev_io watcher;
    int fd; /* -1: closed, at the end or after an error */
    int shown_number;
    struct control_events events;
    struct buf line;   /* what has come of the line that goes on */
    bool skipping;     /* the line that goes on is too long, and reported */
    bool after_return; /* the last byte was \r: a \n now belongs to it */
    bool any_line;     /* one that is not blank has come */
    bool packets;      /* a socket that keeps messages apart */
    bool delivering;   /* in a callback */
    bool freed;        /* ... which let go of us */
};

bool control_usable(int fd, struct buf *error)
{
    char none;
    ssize_t n;
    do
        n = read(fd, &none, 0);
    while (n < 0 && errno == EINTR);
    if (n >= 0 || errno == EAGAIN)
        return true;
    buf_printf(error,
               "Error: --control-fd %d is not usable: %s. Refusing to run the command without the "
               "control channel it asks for.",
               fd, strerror(errno));
    return false;
}

/* --- lines --------------------------------------------------------------------------------- */

/* Like the log's lines: never waits for whoever reads stderr. */
static void report_invalid(const struct control *c)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct buf line;

    buf_init(&line, 128);
    buf_printf(&line, "Invalid config on control fd %d: ignored, previous config still in force\n",
               c->shown_number);
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0)
        while (write(STDERR_FILENO, buf_data(&line), buf_len(&line)) < 0 && errno == EINTR)
            continue;
    buf_free(&line);
}

static json_t *parse(const char *text, size_t n)
{
    struct buf why;
    struct issues issues = {0};

    buf_init(&why, 1024);
    json_t *document = settings_parse(text, n, &why);
    bool valid = document != NULL && schema_validate(document, SETTINGS_SANDBOX, &issues);
    if (document != NULL && !valid && issues.count != 0)
        buf_printf(&why, "%.200s: %.600s", issues.list[0].path, issues.list[0].message);
    if (!valid) {
        log_debug("control: %s", buf_cstr(&why));
        json_decref(document);
        document = NULL;
    }
    issues_free(&issues);
    buf_free(&why);
    return document;
}

static void line_ended(struct control *c)
{
    const char *text = buf_cstr(&c->line);
    size_t n = buf_len(&c->line);

    if (c->skipping || settings_blank(text, n)) {
        c->skipping = false;
        buf_clear(&c->line);
        return;
    }
    c->any_line = true;
    json_t *document = parse(text, n);
    if (document == NULL) {
        log_debug("control: the line was %.*s", n < CHUNK ? (int)n : CHUNK, text);
        report_invalid(c);
    }
    buf_free(&c->line);
    if (document == NULL)
        return;
    c->delivering = true;
    c->events.document(c->events.ctx, document);
    c->delivering = false;
    json_decref(document);
}

static void line_goes_on(struct control *c, const uint8_t *p, size_t n)
{
    if (c->skipping || buf_append(&c->line, p, n))
        return;
    log_debug("control: a line is longer than %d bytes", SETTINGS_FILE_MAX);
    report_invalid(c);
    buf_free(&c->line);
    c->any_line = true;
    c->skipping = true;
}

/* Ends a line at \n, \r\n or \r. */
static void take_in(struct control *c, const uint8_t *p, size_t n)
{
    size_t at = 0;
    while (at < n && !c->freed) {
        bool second = c->after_return && p[at] == '\n';
        c->after_return = false;
        if (second) {
            at++;
            continue;
        }
        size_t end = at;
        while (end < n && p[end] != '\n' && p[end] != '\r')
            end++;
        line_goes_on(c, p + at, end - at);
        if (end < n) {
            c->after_return = p[end] == '\r';
            line_ended(c);
        }
        at = end + 1;
    }
}

/* --- reading ------------------------------------------------------------------------------- */

static void stop(struct control *c)
{
    if (c->fd < 0)
        return;
    ev_io_stop(c->loop, &c->watcher);
    close(c->fd);
    c->fd = -1;
}

static void ended(struct control *c)
{
    stop(c);
    if (buf_len(&c->line) != 0)
        line_ended(c);
}

static void failed(struct control *c, int number)
{
    struct buf message;

    stop(c);
    buf_init(&message, 512);
    if (c->any_line)
        buf_printf(&message,
                   "Error reading control fd %d: %s. The control channel is closed; no further "
                   "updates will be applied.",
                   c->shown_number, strerror(number));
    else
        buf_printf(&message,
                   "Error: control fd %d failed before delivering an update: %s. Refusing to run "
                   "the command without the control channel it asks for.",
                   c->shown_number, strerror(number));
    c->delivering = true;
    c->events.failed(c->events.ctx, !c->any_line, buf_cstr(&message));
    c->delivering = false;
    buf_free(&message);
}

/* The size of the next message, so that none of it is lost; any size for other descriptors. */
static size_t next_size(const struct control *c)
{
    ssize_t n = c->packets ? recv(c->fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT) : 0;
    return n > CHUNK ? (size_t)n : CHUNK;
}

/* No bytes: the end, unless it was an empty message, or what was there is gone. */
static bool is_end(const struct control *c, int revents, bool empty)
{
    int left = 0;
    if (!c->packets)
        return empty;
    return (revents & (POLLRDHUP | POLLHUP)) != 0 && ioctl(c->fd, FIONREAD, &left) == 0 &&
           left == 0;
}

/* Reads once, if that does not block. False when there was nothing, or nothing more will come. */
static bool read_once(struct control *c)
{
    struct pollfd ready = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    bool more = true;

    if (poll(&ready, 1, 0) != 1)
        return false;
    size_t room = next_size(c);
    uint8_t *chunk = mem_array(room, 1);
    ssize_t n = c->packets ? recv(c->fd, chunk, room, MSG_DONTWAIT) : read(c->fd, chunk, room);
    int number = n < 0 ? errno : 0;
    if (n > 0)
        take_in(c, chunk, (size_t)n);
    else if ((n == 0 || number == EAGAIN) && is_end(c, ready.revents, n == 0))
        ended(c);
    else if (number == EAGAIN)
        more = false;
    else if (number != 0 && number != EINTR)
        failed(c, number);
    explicit_bzero(chunk, n > 0 ? (size_t)n : 0);
    free(chunk);
    return more && c->fd >= 0;
}

static void release(struct control *c)
{
    buf_wipe(&c->line);
    free(c);
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int revents)
{
    struct control *c = watcher->data;
    (void)loop;
    (void)revents;
    (void)read_once(c);
    if (c->freed)
        release(c);
}

struct control *control_new(struct ev_loop *loop, int fd, int shown_number,
                            const struct control_events *events)
{
    struct control *c = mem_alloc(sizeof *c);
    int type = 0;
    socklen_t size = sizeof type;

    *c = (struct control){.loop = loop, .fd = fd, .shown_number = shown_number, .events = *events};
    buf_init(&c->line, SETTINGS_FILE_MAX);
    c->packets = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type != SOCK_STREAM;
    ev_io_init(&c->watcher, on_readable, fd, EV_READ);
    c->watcher.data = c;
    ev_io_start(loop, &c->watcher);
    return c;
}

void control_poll(struct control *c)
{
    if (c->delivering || c->fd < 0)
        return;
    for (int i = 0; i < POLL_READS && read_once(c); i++)
        continue;
    if (c->freed)
        release(c);
}

void control_free(struct control *c)
{
    if (c == NULL)
        return;
    stop(c);
    c->freed = true;
    if (!c->delivering)
        release(c);
}
