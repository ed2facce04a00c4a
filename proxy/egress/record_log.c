/* Where the lines of the decision log go: a bounded buffer in front of a file that may fail. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_file.h"
#include "base/mem.h"
#include "proxy/egress/record.h"

/* Every field of a record is cut, so that a line always fits LINE_ROOM. */
enum { LINE_ROOM = 16384, PENDING_MAX = 65536 };

/* What decides how it is written without blocking. */
enum sink { SINK_FILE, SINK_SOCKET, SINK_OTHER };

struct record_log {
    char *path; /* NULL: standard output */
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

struct record_log *record_log_open(const char *path, bool may_be_planted, struct buf *error)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDOUT_FILENO : log_file_open("decision log", path, may_be_planted, error);

    if (fd < 0)
        return NULL;
    struct record_log *log = mem_alloc(sizeof *log);
    log->path = standard ? NULL : mem_dup(path);
    log->may_be_planted = may_be_planted;
    log->fd = fd;
    log->sink = sink_of(fd);
    buf_init(&log->line, LINE_ROOM);
    buf_init(&log->pending, PENDING_MAX);
    return log;
}

void record_log_close(struct record_log *log)
{
    if (log == NULL)
        return;
    record_log_flush(log);
    if (log->path != NULL)
        close(log->fd);
    free(log->path);
    buf_free(&log->line);
    buf_free(&log->pending);
    free(log);
}

/* The rest of a line whose start went elsewhere would only spoil the next file. */
static void drop_torn(struct record_log *log)
{
    if (!log->torn)
        return;
    const uint8_t *end = memchr(buf_data(&log->pending), '\n', buf_len(&log->pending));
    buf_consume(&log->pending, end != NULL ? (size_t)(end + 1 - buf_data(&log->pending)) : 0);
    log->torn = false;
    log->dropped++;
}

bool record_log_reopen(struct record_log *log, struct buf *error)
{
    if (log == NULL || log->path == NULL)
        return true;
    int fd = log_file_open("decision log", log->path, log->may_be_planted, error);
    if (fd < 0)
        return false;
    record_log_flush(log);
    drop_torn(log);
    close(log->fd);
    log->fd = fd;
    log->sink = sink_of(fd);
    return true;
}

/* One write that does not block. Standard output is shared with other programs, so its flags stay
 * as they are: up to PIPE_BUF bytes go into a pipe that polls as writable without waiting. */
static ssize_t write_some(const struct record_log *log, const void *p, size_t n)
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

static void note_success(struct record_log *log)
{
    if (log->warned && log->dropped != log->reported)
        log_warning("decision log: %llu lines were dropped",
                    (unsigned long long)(log->dropped - log->reported));
    log->reported = log->dropped;
    log->warned = false;
    log->failure = 0;
}

bool record_log_flush(struct record_log *log)
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

static void drop(struct record_log *log)
{
    log->dropped++;
    if (log->warned)
        return;
    log->warned = true;
    log_warning("decision log: lines are being dropped: %s", strerror(log->failure));
}

void record_log_write(struct record_log *log, const struct record *r, double now)
{
    if (log == NULL)
        return;
    buf_clear(&log->line);
    record_format(&log->line, r, now);
    if (buf_len(&log->line) > buf_room(&log->pending))
        record_log_flush(log);
    if (!buf_append(&log->pending, buf_data(&log->line), buf_len(&log->line)))
        drop(log);
}

uint64_t record_log_dropped(const struct record_log *log)
{
    return log == NULL ? 0 : log->dropped;
}
