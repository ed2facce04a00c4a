#include "proxy/policy/violation.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum {
    STORE_MAX = 100 /* records kept */
};

/* Appends bytes a client sent. A NUL would end the line where it is read as a string; U+0001 is
 * cleaned the same way (section 8.3, rule 1). */
static void append_client_bytes(struct buf *out, const char *s, size_t n)
{
    while (n != 0) {
        const char *nul = memchr(s, 0, n);
        size_t len = nul != NULL ? (size_t)(nul - s) : n;
        buf_append(out, s, len);
        if (nul == NULL)
            return;
        buf_append(out, "\x01", 1);
        s += len + 1;
        n -= len + 1;
    }
}

static void append_host_port(struct buf *out, const char *host, size_t n, uint16_t port)
{
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    append_client_bytes(out, host, n);
    buf_printf(out, ":%u", (unsigned)port);
}

void violation_network(struct buf *out, const char *host, size_t n, uint16_t port,
                       const char *reason)
{
    buf_puts(out, "deny network-outbound ");
    append_host_port(out, host, n, port);
    buf_printf(out, " (%s)", reason);
}

void violation_request(struct buf *out, const char *method, size_t n, const char *url,
                       const char *reason)
{
    buf_puts(out, "deny http-request ");
    append_client_bytes(out, method, n);
    buf_printf(out, " %s (%s)", url, reason);
}

void violation_url(struct buf *out, const char *scheme, const char *authority, const char *target,
                   size_t n)
{
    size_t shown = 0;

    while (shown < n && target[shown] != '?' && target[shown] != '#')
        shown++;
    buf_printf(out, "%s://%s", scheme, authority);
    append_client_bytes(out, target, shown < n ? shown + 1 : n);
    if (shown < n)
        buf_puts(out, "\xE2\x80\xA6");
}

void violation_socks(struct buf *out, const char *host, size_t n, uint16_t port)
{
    buf_puts(out, "deny socks-tunnel ");
    append_host_port(out, host, n, port);
    buf_puts(out, " (refuseOpaqueTunnels)");
}

struct suppression {
    char *command; /* "*": any, also none */
    char *text;
};

struct violation_filter {
    struct suppression *list;
    size_t count, room;
};

struct violation_filter *violation_filter_new(void)
{
    return mem_alloc(sizeof(struct violation_filter));
}

void violation_filter_add(struct violation_filter *f, const char *command, const char *text)
{
    if (f->count == f->room) {
        f->room = f->room != 0 ? 2 * f->room : 8;
        f->list = mem_resize(f->list, f->room, sizeof *f->list);
    }
    f->list[f->count++] = (struct suppression){mem_dup(command), mem_dup(text)};
}

void violation_filter_free(struct violation_filter *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++) {
        free(f->list[i].command);
        free(f->list[i].text);
    }
    free(f->list);
    free(f);
}

bool violation_suppressed(const struct violation_filter *f, const char *line, const char *command)
{
    if (f == NULL)
        return false;
    for (size_t i = 0; i < f->count; i++) {
        const struct suppression *s = &f->list[i];
        bool applies = strcmp(s->command, "*") == 0 ||
                       (command != NULL && strstr(command, s->command) != NULL);
        if (applies && strstr(line, s->text) != NULL)
            return true;
    }
    return false;
}

struct subscription {
    violation_subscriber *fn;
    void *ctx;
};

struct violation_store {
    struct violation *records[STORE_MAX]; /* oldest first */
    size_t count;
    uint64_t total;
    struct subscription *subscribers;
    size_t subscriber_count;
};

struct violation_store *violation_store_new(void)
{
    return mem_alloc(sizeof(struct violation_store));
}

static void free_record(struct violation *v)
{
    free(v->line);
    free(v->encoded_command);
    free(v->command);
    free(v);
}

void violation_store_free(struct violation_store *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->count; i++)
        free_record(s->records[i]);
    free(s->subscribers);
    free(s);
}

static void notify(struct violation_store *s, const struct subscription *to)
{
    to->fn(to->ctx, (const struct violation *const *)s->records, s->count);
}

static void notify_all(struct violation_store *s)
{
    for (size_t i = 0; i < s->subscriber_count; i++)
        notify(s, &s->subscribers[i]);
}

static struct violation *make_record(const char *line, const char *encoded_command,
                                     const char *command, double time)
{
    struct violation *v = mem_alloc(sizeof *v);
    size_t n = strlen(line);
    struct buf cleaned;

    buf_init(&cleaned, 3 * n + 1);
    text_clean(&cleaned, line, n);
    v->line = mem_dup(buf_cstr(&cleaned));
    buf_free(&cleaned);
    v->encoded_command = encoded_command != NULL ? mem_dup(encoded_command) : NULL;
    v->command = command != NULL ? mem_dup(command) : NULL;
    v->time = time;
    return v;
}

void violation_store_add(struct violation_store *s, const struct violation_filter *f,
                         const char *line, const char *encoded_command, const char *command,
                         double time)
{
    if (violation_suppressed(f, line, command))
        return;
    if (s->count == STORE_MAX) {
        free_record(s->records[0]);
        s->count--;
        for (size_t i = 0; i < s->count; i++)
            s->records[i] = s->records[i + 1];
    }
    s->records[s->count++] = make_record(line, encoded_command, command, time);
    s->total++;
    notify_all(s);
}

void violation_store_clear(struct violation_store *s)
{
    for (size_t i = 0; i < s->count; i++)
        free_record(s->records[i]);
    s->count = 0;
    notify_all(s);
}

uint64_t violation_store_total(const struct violation_store *s)
{
    return s->total;
}

void violation_store_subscribe(struct violation_store *s, violation_subscriber *fn, void *ctx)
{
    s->subscribers = mem_resize(s->subscribers, s->subscriber_count + 1, sizeof *s->subscribers);
    s->subscribers[s->subscriber_count] = (struct subscription){fn, ctx};
    notify(s, &s->subscribers[s->subscriber_count++]);
}

void violation_store_unsubscribe(struct violation_store *s, violation_subscriber *fn, void *ctx)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->subscriber_count; i++)
        if (s->subscribers[i].fn != fn || s->subscribers[i].ctx != ctx)
            s->subscribers[kept++] = s->subscribers[i];
    s->subscriber_count = kept;
}
