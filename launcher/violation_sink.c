#include "launcher/violation_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/mem.h"

enum sink_kind {
    SINK_FILE,     /* regular: never waits for a reader */
    SINK_SOCKET,   /* asked call by call not to wait */
    SINK_WAITLESS, /* an open file description of our own, non-blocking */
    SINK_SHARED    /* the caller's: its flags are not ours to change, so it is asked before */
};

struct violation_sink {
    struct ev_loop *loop;
    ev_io writable;
    char *target;
    int fd; /* -1: it failed */
    enum sink_kind kind;
    int error;          /* why it failed; 0: it has not */
    size_t written;     /* to a regular file */
    uint64_t lost;      /* lines */
    struct buf pending; /* whole lines, but for the start of the first that is written already */
};

/* -1 when it is none. */
static int descriptor_number(const char *text)
{
    int number = 0;

    if (*text == '\0')
        return -1;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || number > (INT_MAX - 9) / 10)
            return -1;
        number = number * 10 + (*p - '0');
    }
    return number;
}

/* Of a pipe or a terminal there can be a second open file description, with flags of its own. A
 * regular file's would have an offset of its own too, so there the caller's is used. */
static int open_own(int fd)
{
    char name[32];

    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return open(name, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* False with errno. */
static bool take_descriptor(struct violation_sink *s, int number)
{
    struct stat st;
    int flags = fcntl(number, F_GETFL);

    if (flags < 0 || fstat(number, &st) != 0)
        return false;
    if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) != 0) {
        errno = EBADF;
        return false;
    }
    if (number > STDERR_FILENO && !fd_cloexec(number, true))
        return false;
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) {
        s->kind = SINK_WAITLESS;
        s->fd = open_own(number);
        if (s->fd >= 0)
            return true;
    }
    s->kind = S_ISREG(st.st_mode) ? SINK_FILE : S_ISSOCK(st.st_mode) ? SINK_SOCKET : SINK_SHARED;
    s->fd = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return s->fd >= 0;
}

/* False with a line in *error. */
static bool take_given(struct violation_sink *s, struct buf *error)
{
    if (take_descriptor(s, descriptor_number(s->target + 3)))
        return true;
    buf_printf(error, "violations %s: %s", s->target,
               errno == EBADF ? "not open for writing" : strerror(errno));
    return false;
}

/* The command of an earlier run may have been where the file is to be. */
static bool open_file(struct violation_sink *s, struct buf *error)
{
    struct stat st;

    s->fd = log_file_open("violations", s->target, true, error);
    if (s->fd < 0)
        return false;
    s->kind = fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) ? SINK_FILE : SINK_WAITLESS;
    return true;
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events);

struct violation_sink *violation_sink_open(struct ev_loop *loop, const char *target,
                                           struct buf *error)
{
    struct violation_sink *s = mem_alloc(sizeof *s);
    bool given = strncmp(target, "fd:", 3) == 0;

    *s = (struct violation_sink){.loop = loop, .target = mem_dup(target), .fd = -1};
    if (!(given ? take_given(s, error) : open_file(s, error))) {
        free(s->target);
        free(s);
        return NULL;
    }
    buf_init(&s->pending, SINK_PENDING_MAX);
    ev_io_init(&s->writable, on_writable, s->fd, EV_WRITE);
    s->writable.data = s;
    return s;
}

static ssize_t write_some(struct violation_sink *s, const void *p, size_t n)
{
    struct pollfd ready = {.fd = s->fd, .events = POLLOUT};

    if (s->kind == SINK_SOCKET)
        return send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (s->kind != SINK_SHARED)
        return write(s->fd, p, n);
    /* A pipe that polls writable takes this much without waiting. */
    if (poll(&ready, 1, 0) > 0)
        return write(s->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
    errno = EAGAIN;
    return -1;
}

static uint64_t count_lines(const struct buf *b)
{
    const uint8_t *at = buf_data(b);
    size_t left = buf_len(b);
    uint64_t lines = 0;

    while (left != 0) {
        const uint8_t *end = memchr(at, '\n', left);
        if (end == NULL)
            break;
        lines++;
        left -= (size_t)(end + 1 - at);
        at = end + 1;
    }
    return lines;
}

static void give_up(struct violation_sink *s, int number)
{
    ev_io_stop(s->loop, &s->writable);
    close(s->fd);
    s->fd = -1;
    s->error = number;
    s->lost += count_lines(&s->pending);
    buf_free(&s->pending);
}

/* Writes what can be written now; the rest when the loop says so. */
static void flush(struct violation_sink *s)
{
    while (s->fd >= 0 && buf_len(&s->pending) != 0) {
        ssize_t n = write_some(s, buf_data(&s->pending), buf_len(&s->pending));
        if (n > 0) {
            buf_consume(&s->pending, (size_t)n);
            s->written += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            ev_io_start(s->loop, &s->writable);
            return;
        } else if (n == 0 || errno != EINTR) {
            give_up(s, n == 0 ? EIO : errno);
        }
    }
    if (s->fd >= 0)
        ev_io_stop(s->loop, &s->writable);
}

static void on_writable(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)events;
    flush(watcher->data);
}

void violation_sink_write(struct violation_sink *s, const char *line, size_t n)
{
    bool full = s->kind == SINK_FILE && s->written + n > SINK_FILE_MAX;

    if (s->fd < 0 || full || !buf_append(&s->pending, line, n)) {
        s->lost++;
        return;
    }
    flush(s);
}

static int64_t milliseconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void drain(struct violation_sink *s)
{
    int64_t until = milliseconds() + SINK_CLOSE_MS;

    for (;;) {
        struct pollfd ready = {.fd = s->fd, .events = POLLOUT};
        flush(s);
        int64_t left = until - milliseconds();
        if (s->fd < 0 || buf_len(&s->pending) == 0 || left <= 0)
            return;
        (void)poll(&ready, 1, (int)left);
    }
}

void violation_sink_close(struct violation_sink *s)
{
    if (s == NULL)
        return;
    drain(s);
    if (s->fd >= 0)
        give_up(s, 0);
    if (s->lost != 0)
        log_warning("violations %s: %llu lines lost%s%s", s->target, (unsigned long long)s->lost,
                    s->error != 0 ? ": " : "", s->error != 0 ? strerror(s->error) : "");
    free(s->target);
    free(s);
}
