#include "decider/reference/decision_log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_file.h"
#include "base/mem.h"
#include "base/text.h"

/* Every text of a line is cut, and grows at most sixfold by its escapes. */
enum { LINE_ROOM = 16384, PENDING_MAX = 262144, FLUSH_AT = PENDING_MAX - LINE_ROOM };

struct decision_log {
    char *path; /* NULL: standard error */
    int fd;
    bool regular;       /* writing to it never has to wait for a reader */
    struct buf pending; /* whole lines, but for the first when `torn` */
    bool torn;          /* the start of the first pending line is written already */
    int failure;        /* errno of the last write, 0 when it went well */
    uint64_t dropped;   /* since it last went well */
};

static bool is_regular(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

struct decision_log *decision_log_open(const char *path, struct buf *error)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDERR_FILENO : log_file_open("decision log", path, false, error);
    if (fd < 0)
        return NULL;
    struct decision_log *log = mem_alloc(sizeof *log);
    *log = (struct decision_log){
        .path = standard ? NULL : mem_dup(path), .fd = fd, .regular = is_regular(fd)};
    buf_init(&log->pending, PENDING_MAX);
    return log;
}

/* The rest of a line whose start went elsewhere would only spoil the next file. */
static void drop_torn(struct decision_log *log)
{
    if (!log->torn)
        return;
    const uint8_t *end = memchr(buf_data(&log->pending), '\n', buf_len(&log->pending));
    buf_consume(&log->pending, end != NULL ? (size_t)(end + 1 - buf_data(&log->pending)) : 0);
    log->torn = false;
    log->dropped++;
}

bool decision_log_reopen(struct decision_log *log, struct buf *error)
{
    if (log == NULL || log->path == NULL)
        return true;
    int fd = log_file_open("decision log", log->path, false, error);
    if (fd < 0)
        return false;
    decision_log_flush(log);
    drop_torn(log);
    close(log->fd);
    log->fd = fd;
    log->regular = is_regular(fd);
    return true;
}

void decision_log_close(struct decision_log *log)
{
    if (log == NULL)
        return;
    decision_log_flush(log);
    if (log->path != NULL)
        close(log->fd);
    free(log->path);
    buf_free(&log->pending);
    free(log);
}

/* One write that does not wait. Standard error is shared with other programs, so its flags stay as
 * they are: up to PIPE_BUF bytes go into a pipe that polls as writable without waiting. */
static ssize_t write_some(const struct decision_log *log, const void *p, size_t n)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};

    if (log->regular)
        return write(log->fd, p, n);
    if (poll(&ready, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(log->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
}

bool decision_log_flush(struct decision_log *log)
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
    if (log->dropped != 0)
        log_warning("decision log: %llu lines were dropped", (unsigned long long)log->dropped);
    log->dropped = 0;
    log->failure = 0;
    return false;
}

/* {"time":"2026-01-02T03:04:05.678Z" */
static void put_time(struct buf *out, double now)
{
    int64_t ms = (int64_t)(now * 1000 + 0.5);
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};

    gmtime_r(&seconds, &tm);
    buf_printf(out, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", tm.tm_year + 1900,
               tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

/* key: with its quotes, and what goes before and behind. */
static void put_text(struct buf *out, const char *key, const char *s, size_t n, size_t max)
{
    buf_puts(out, key);
    text_json(out, s, text_cut(s, n, max));
}

static void put_line(struct buf *out, double now, const struct logged_question *q,
                     const struct rule_decision *decision)
{
    bool allow = decision->verdict->action == DECIDER_ALLOW;

    put_time(out, now);
    buf_printf(out, ",\"id\":%lld,\"kind\":\"%s\"", (long long)q->id,
               q->connection ? "connection" : "request");
    put_text(out, q->connection ? ",\"via\":" : ",\"method\":", q->how, strlen(q->how),
             LOGGED_METHOD_MAX);
    put_text(out, ",\"host\":", q->host, strlen(q->host), LOGGED_PATH_MAX);
    buf_printf(out, ",\"port\":%u", q->port);
    if (q->path != NULL) /* a fragment is as private as a query */
        put_text(out, ",\"path\":", q->path, strcspn(q->path, "#"), LOGGED_PATH_MAX);
    buf_puts(out, allow ? ",\"action\":\"allow\"" : ",\"action\":\"deny\"");
    if (!allow)
        buf_printf(out, ",\"status\":%u", decision->verdict->status);
    if (decision->rule >= 0)
        buf_printf(out, ",\"rule\":%ld}\n", decision->rule);
    else
        buf_puts(out, ",\"rule\":null}\n");
}

void decision_log_write(struct decision_log *log, double now, const struct logged_question *q,
                        const struct rule_decision *decision)
{
    if (log == NULL)
        return;
    if (buf_len(&log->pending) > FLUSH_AT && log->failure == 0)
        decision_log_flush(log);
    if (buf_room(&log->pending) >= LINE_ROOM) {
        put_line(&log->pending, now, q, decision);
        return;
    }
    if (log->dropped++ == 0)
        log_warning("decision log: lines are being dropped: %s", strerror(log->failure));
}
