#include "base/line_log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_file.h"
#include "base/mem.h"

enum { PENDING_MAX = 65536 };

/* What decides how it is written without blocking. */
enum sink { SINK_FILE, SINK_SOCKET, SINK_OTHER };

struct line_log {
    const char *what; /* how messages call it */
    char *path;       /* NULL: a descriptor that was there */
    bool may_be_planted;
    int fd;
    enum sink sink;
    struct buf line;    /* the one being made */
    struct buf pending; /* whole lines, but for the first when `torn` */
    bool torn;          /* the start of the first pending line is written already */
    int failure;        /* errno of the last write, 0 when it went well */
    uint64_t dropped;
    uint64_t reported; /* of them, told to the operator when writing worked again */
    bool warned;       /* since writing last worked */
};

static enum sink sink_of(int fd)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return SINK_OTHER;
    if (S_ISSOCK(st.st_mode))
        return SINK_SOCKET;
    return S_ISREG(st.st_mode) ? SINK_FILE : SINK_OTHER;
}

struct line_log *line_log_open(const char *what, const char *path, int standard,
                               bool may_be_planted, struct buf *error)
{
    bool named = strcmp(path, "-") != 0;
    int fd = named ? log_file_open(what, path, may_be_planted, error) : standard;

    if (fd < 0)
        return NULL;
    struct line_log *log = mem_alloc(sizeof *log);
    log->what = what;
    log->path = named ? mem_dup(path) : NULL;
    log->may_be_planted = may_be_planted;
    log->fd = fd;
    log->sink = sink_of(fd);
    buf_init(&log->line, LINE_LOG_LINE_MAX);
    buf_init(&log->pending, PENDING_MAX);
    return log;
}

void line_log_close(struct line_log *log)
{
    if (log == NULL)
        return;
    line_log_flush(log);
    if (log->path != NULL)
        close(log->fd);
    free(log->path);
    buf_free(&log->line);
    buf_free(&log->pending);
    free(log);
}

/* The rest of a line whose start went elsewhere would only spoil the next file. */
static void drop_torn(struct line_log *log)
{
    if (!log->torn)
        return;
    const uint8_t *end = memchr(buf_data(&log->pending), '\n', buf_len(&log->pending));
    buf_consume(&log->pending, end != NULL ? (size_t)(end + 1 - buf_data(&log->pending)) : 0);
    log->torn = false;
    log->dropped++;
}

bool line_log_reopen(struct line_log *log, struct buf *error)
{
    if (log == NULL || log->path == NULL)
        return true;
    int fd = log_file_open(log->what, log->path, log->may_be_planted, error);
    if (fd < 0)
        return false;
    line_log_flush(log);
    drop_torn(log);
    close(log->fd);
    log->fd = fd;
    log->sink = sink_of(fd);
    return true;
}

/* One write that does not block. A standard descriptor is shared with other programs, so its flags
 * stay as they are: up to PIPE_BUF bytes go into a pipe that polls as writable without waiting. */
static ssize_t write_some(const struct line_log *log, const void *p, size_t n)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};

    switch (log->sink) {
    case SINK_SOCKET:
        return send(log->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case SINK_FILE:
        return write(log->fd, p, n);
    case SINK_OTHER:
        break;
    }
    if (poll(&ready, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(log->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
}

static void note_success(struct line_log *log)
{
    if (log->warned && log->dropped != log->reported)
        log_warning("%s: %llu lines were dropped", log->what,
                    (unsigned long long)(log->dropped - log->reported));
    log->reported = log->dropped;
    log->warned = false;
    log->failure = 0;
}

bool line_log_flush(struct line_log *log)
{
    if (log == NULL)
        return false;
    while (buf_len(&log->pending) != 0) {
        ssize_t n = write_some(log, buf_data(&log->pending), buf_len(&log->pending));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            log->failure = n < 0 ? errno : ENOSPC;
            return true;
        }
        log->torn = buf_data(&log->pending)[n - 1] != '\n';
        buf_consume(&log->pending, (size_t)n);
    }
    note_success(log);
    return false;
}

static void drop(struct line_log *log)
{
    log->dropped++;
    if (log->warned)
        return;
    log->warned = true;
    log_warning("%s: lines are being dropped: %s", log->what, strerror(log->failure));
}

struct buf *line_log_line(struct line_log *log)
{
    if (log == NULL)
        return NULL;
    buf_clear(&log->line);
    return &log->line;
}

void line_log_put(struct line_log *log)
{
    if (log == NULL)
        return;
    if (buf_len(&log->line) > buf_room(&log->pending))
        line_log_flush(log);
    if (!buf_append(&log->pending, buf_data(&log->line), buf_len(&log->line)))
        drop(log);
}

uint64_t line_log_dropped(const struct line_log *log)
{
    return log == NULL ? 0 : log->dropped;
}
