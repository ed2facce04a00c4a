#include "launcher/violations.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/violation_advice.h"
#include "launcher/violation_record.h"
#include "launcher/violation_sink.h"
#include "seccomp/notify.h"

enum {
    LINES_MAX = 100,                  /* kept for the block; a line that repeats the one before it
                                         counts once there, while --violations gets each */
    LINE_BYTES = 65536,               /* of a network line: bounded by the request head */
    BLOCK_BYTES = LINES_MAX * 262144, /* all lines and the advice */
};

struct violations {
    struct violations_options options;
    char *command;
    struct violation_sink *sink; /* NULL: no --violations */
    struct notify *notify;       /* NULL: no box yet */
    char *lines[LINES_MAX];      /* the last ones, in a ring */
    size_t line_count;           /* in all */
    uint64_t seen;               /* of the store's total */
    struct violation_advice advice;
};

static void keep_line(struct violations *v, const char *line)
{
    const char *before = v->line_count != 0 ? v->lines[(v->line_count - 1) % LINES_MAX] : NULL;

    if (before != NULL && strcmp(before, line) == 0)
        return;
    char **place = &v->lines[v->line_count++ % LINES_MAX];
    free(*place);
    *place = mem_dup(line);
}

static void report(struct violations *v, const struct violation_record *r)
{
    struct buf json;

    if (v->options.annotate)
        keep_line(v, r->line);
    if (v->sink == NULL)
        return;
    buf_init(&json, VIOLATION_JSON_MAX);
    violation_record_json(r, &json);
    violation_sink_write(v->sink, buf_chars(&json), buf_len(&json));
    buf_free(&json);
}

/* The store hands over all it has; those past what was seen are new. */
static void on_network(void *ctx, const struct violation *const *list, size_t count)
{
    struct violations *v = ctx;
    uint64_t total = violation_store_total(v->options.store);
    uint64_t fresh = total - v->seen;

    v->seen = total;
    for (size_t i = fresh < count ? count - (size_t)fresh : 0; i < count; i++) {
        struct violation_record r = {
            .time = list[i]->time,
            .line = list[i]->line,
            .command = list[i]->command != NULL ? list[i]->command : v->command,
        };
        violation_record_read(&r, r.line);
        violation_advice_network(&v->advice, &r);
        report(v, &r);
    }
}

/* `.` and `..` of an absolute path, and slashes too many, folded in the text. */
static char *fold(const char *path)
{
    size_t end = 0;
    char *out = mem_alloc(strlen(path) + 2);

    for (const char *at = path; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            while (end != 0 && out[--end] != '/')
                ;
        } else if (n != 0 && !(n == 1 && at[0] == '.')) {
            out[end++] = '/';
            memcpy(out + end, at, n);
            end += n;
        }
        at += n;
        at += *at == '/';
    }
    if (end == 0)
        out[end++] = '/';
    out[end] = '\0';
    return out;
}

enum judgement {
    WRITE_ALLOWED,
    WRITE_OUTSIDE, /* of every allowed path */
    WRITE_DENIED   /* at or under a path that no allow opens */
};

/* `mkdir -p` asks for every directory on the way: one that is there is not refused. */
static bool is_there_already(const char *syscall, const char *path)
{
    struct stat st;
    return strncmp(syscall, "mkdir", 5) == 0 && path_lstat(path, &st) == 0;
}

static enum judgement judge(const struct violations *v, const char *syscall, const char *path)
{
    const struct paths *hidden = v->options.read_hidden;
    if (paths_cover(v->options.write_denied, path))
        return WRITE_DENIED;
    /* The box has a /dev of its own. */
    if (path_within(path, "/dev") || paths_cover(v->options.write_allowed, path) ||
        (hidden != NULL && paths_cover(hidden, path)) || is_there_already(syscall, path))
        return WRITE_ALLOWED;
    return WRITE_OUTSIDE;
}

static void report_write(struct violations *v, const char *line, const char *syscall, pid_t pid,
                         const char *path)
{
    size_t n = strlen(line);
    struct buf clean;

    buf_init(&clean, 3 * n + 16);
    text_clean(&clean, line, n);
    log_debug("%s", buf_cstr(&clean));
    const struct violation_record r = {
        .time = ev_time(),
        .line = buf_cstr(&clean),
        .command = v->command,
        .syscall = syscall,
        .path = path,
        .pid = pid,
    };
    report(v, &r);
    buf_free(&clean);
}

static void on_write(void *ctx, int nr, const char *syscall, pid_t pid, const char *path)
{
    struct violations *v = ctx;
    char *folded = fold(path);
    enum judgement judgement = judge(v, syscall, folded);
    struct buf line;

    (void)nr;
    buf_init(&line, LINE_BYTES);
    buf_printf(&line, "deny %s %s", syscall, folded);
    if (judgement != WRITE_ALLOWED &&
        !violation_suppressed(*v->options.ignore, buf_cstr(&line), v->command)) {
        report_write(v, buf_cstr(&line), syscall, pid, folded);
        if (judgement == WRITE_OUTSIDE)
            violation_advice_write(&v->advice, syscall, folded);
    }
    buf_free(&line);
    free(folded);
}

struct violations *violations_new(const struct violations_options *o, struct buf *error)
{
    struct violations *v = mem_alloc(sizeof *v);

    v->options = *o;
    if (o->target != NULL) {
        v->sink = violation_sink_open(o->loop, o->target, error);
        if (v->sink == NULL) {
            free(v);
            return NULL;
        }
    }
    v->command = mem_dup_n(o->command, o->command_len);
    violation_store_subscribe(o->store, on_network, v);
    return v;
}

void violations_watch(struct violations *v, int listener)
{
    notify_free(v->notify);
    v->notify = notify_new(v->options.loop, listener, on_write, v);
}

/* Section 13 of chapter 50 and section 8.5 of chapter 10; no records, no text. */
static void print_block(struct violations *v)
{
    size_t first = v->line_count > LINES_MAX ? v->line_count - LINES_MAX : 0;
    struct buf block;

    if (v->line_count == 0)
        return;
    buf_init(&block, BLOCK_BYTES);
    buf_puts(&block, "\n<sandbox_violations>\n");
    for (size_t i = first; i < v->line_count; i++) {
        buf_puts(&block, v->lines[i % LINES_MAX]);
        buf_puts(&block, "\n");
    }
    buf_puts(&block, "</sandbox_violations>\n");
    violation_advice_print(&v->advice, &block);
    (void)fwrite(buf_chars(&block), 1, buf_len(&block), stderr);
    (void)fflush(stderr);
    buf_free(&block);
}

void violations_finish(struct violations *v)
{
    if (v->notify != NULL)
        notify_poll(v->notify);
    violation_sink_close(v->sink);
    v->sink = NULL;
    if (v->options.annotate)
        print_block(v);
}

void violations_free(struct violations *v)
{
    if (v == NULL)
        return;
    violation_store_unsubscribe(v->options.store, on_network, v);
    notify_free(v->notify);
    violation_sink_close(v->sink);
    violation_advice_free(&v->advice);
    for (size_t i = 0; i < LINES_MAX; i++)
        free(v->lines[i]);
    free(v->command);
    free(v);
}
