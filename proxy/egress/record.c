#include "proxy/egress/record.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/violation.h"

enum { HOST_UNITS = 255, METHOD_UNITS = 32, ENTRY_UNITS = 300, TEXT_ROOM = 65536 };

_Static_assert(sizeof(struct record) <= 160, "an idle tunnel carries one");

static const char *const via_names[] = {
    [VIA_NONE] = NULL,     [VIA_CONNECT] = "connect", [VIA_HTTP] = "http",
    [VIA_HTTPS] = "https", [VIA_SOCKS5] = "socks5",
};

static const char *const verdict_names[] = {
    [RECORD_UNDECIDED] = NULL,
    [RECORD_ALLOW] = "allow",
    [RECORD_DENY] = "deny",
};

static const char *const class_names[ADDRESS_CLASSES] = {
    [ADDRESS_DENY_LISTED] = "deny-listed",
    [ADDRESS_LOOPBACK] = "loopback",
    [ADDRESS_UNSPECIFIED] = "unspecified",
    [ADDRESS_LINK_LOCAL] = "link-local",
    [ADDRESS_MULTICAST] = "multicast",
    [ADDRESS_BROADCAST] = "broadcast",
    [ADDRESS_METADATA] = "metadata",
    [ADDRESS_LISTED] = "listed",
    [ADDRESS_LOCAL] = "local",
    [ADDRESS_NON_LOOPBACK] = "non-loopback",
    [ADDRESS_UNPARSABLE] = "unparsable",
};

void record_init(struct record *r, double now)
{
    *r = (struct record){.started = now, .status = RECORD_NO_STATUS};
}

static void free_request(struct record *r)
{
    MEM_FREE(r->host);
    MEM_FREE(r->method);
    MEM_FREE(r->rule);
    MEM_FREE(r->entry);
    MEM_FREE(r->reason);
}

void record_free(struct record *r)
{
    free_request(r);
    free(r->user);
    record_init(r, 0);
}

void record_next(struct record *r, double now)
{
    struct record old = *r;

    free_request(&old);
    record_init(r, now);
    r->user = old.user;
    r->client = old.client;
    r->client_address = old.client_address;
    r->client_port = old.client_port;
}

void record_set_client(struct record *r, const struct sockaddr_storage *peer)
{
    if (peer->ss_family == AF_UNIX)
        r->client = CLIENT_UNIX;
    else if (address_from_sockaddr((const struct sockaddr *)peer, &r->client_address,
                                   &r->client_port))
        r->client = CLIENT_ADDRESS;
    else
        r->client = CLIENT_LOCAL;
}

/* Replaces *field by the text, cleaned and cut. Cleaning at most triples a byte. */
static void set_text(char **field, const char *s, size_t n, size_t units)
{
    struct buf clean;

    free(*field);
    n = n < TEXT_ROOM / 3 ? n : TEXT_ROOM / 3;
    buf_init(&clean, TEXT_ROOM);
    text_clean(&clean, s, n);
    const char *text = buf_cstr(&clean);
    *field = mem_dup_n(text, text_cut(text, buf_len(&clean), units));
    buf_free(&clean);
}

void record_set_key(struct record *r, const char *key, size_t n)
{
    set_text(&r->user, key, n, KEY_UNITS);
}

void record_set_user(struct record *r, const char *user, size_t n)
{
    struct buf key;
    size_t len = 0;

    MEM_FREE(r->user);
    const char *encoded = attribution_encoded(user, n, &len);
    if (encoded == NULL)
        return;
    buf_init(&key, TEXT_ROOM);
    attribution_decode(&key, encoded, len);
    if (buf_len(&key) != 0)
        record_set_key(r, buf_chars(&key), buf_len(&key));
    buf_free(&key);
}

void record_set_host(struct record *r, const char *host, size_t n)
{
    set_text(&r->host, host, n, HOST_UNITS);
}

void record_set_method(struct record *r, const char *method, size_t n)
{
    set_text(&r->method, method, n, METHOD_UNITS);
}

void record_set_reason(struct record *r, const char *reason)
{
    MEM_FREE(r->reason);
    if (reason != NULL)
        set_text(&r->reason, reason, strlen(reason), REASON_UNITS);
}

void record_set_decision(struct record *r, const struct decision *d)
{
    struct buf rule;

    r->verdict = d->verdict == VERDICT_ALLOW ? RECORD_ALLOW : RECORD_DENY;
    MEM_FREE(r->rule);
    MEM_FREE(r->entry);
    if (d->list != NULL) {
        buf_init(&rule, TEXT_ROOM);
        buf_puts(&rule, d->list);
        if (d->entry != NULL)
            buf_printf(&rule, "[%zu]", d->index);
        r->rule = mem_dup(buf_cstr(&rule));
        buf_free(&rule);
    }
    if (d->entry != NULL)
        set_text(&r->entry, d->entry, strlen(d->entry), ENTRY_UNITS);
    record_set_reason(r, r->verdict == RECORD_DENY ? d->reason : NULL);
}

/* ,"name": */
static void put_name(struct buf *out, const char *name)
{
    buf_puts(out, ",\"");
    buf_puts(out, name);
    buf_puts(out, "\":");
}

static void put_string(struct buf *out, const char *name, const char *value)
{
    put_name(out, name);
    if (value != NULL)
        text_json(out, value, strlen(value));
    else
        buf_puts(out, "null");
}

static void put_optional(struct buf *out, const char *name, const char *value)
{
    if (value != NULL)
        put_string(out, name, value);
}

static void put_number(struct buf *out, const char *name, uint64_t value)
{
    put_name(out, name);
    buf_printf(out, "%llu", (unsigned long long)value);
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

static void put_client(struct buf *out, const struct record *r)
{
    char host[ADDRESS_TEXT_MAX];

    put_name(out, "client");
    if (r->client == CLIENT_ADDRESS) {
        address_format(&r->client_address, host);
        buf_printf(out, r->client_address.family == 6 ? "\"[%s]:%u\"" : "\"%s:%u\"", host,
                   (unsigned)r->client_port);
    } else {
        buf_puts(out, r->client == CLIENT_UNIX ? "\"unix\"" : "\"local\"");
    }
}

static void put_classes(struct buf *out, uint32_t classes)
{
    const char *separator = "";

    classes &= (1U << ADDRESS_CLASSES) - 2; /* ADDRESS_KEPT is none */
    if (classes == 0)
        return;
    put_name(out, "addressClass");
    buf_puts(out, "\"");
    for (unsigned c = 1; c < ADDRESS_CLASSES; c++) {
        if (!(classes & 1U << c))
            continue;
        buf_puts(out, separator);
        buf_puts(out, class_names[c]);
        separator = ",";
    }
    buf_puts(out, "\"");
}

void record_format(struct buf *out, const struct record *r, double now)
{
    double duration = now > r->started ? now - r->started : 0;

    put_time(out, now);
    put_client(out, r);
    put_optional(out, "user", r->user);
    put_string(out, "via", via_names[r->via]);
    put_optional(out, "method", r->method);
    put_string(out, "host", r->host);
    put_number(out, "port", r->port);
    put_string(out, "verdict", verdict_names[r->verdict]);
    put_string(out, "rule", r->rule);
    put_optional(out, "entry", r->entry);
    put_optional(out, "reason", r->reason);
    put_classes(out, r->address_classes);
    if (r->status != RECORD_NO_STATUS)
        put_number(out, "status", (uint64_t)r->status);
    if (r->error != ERR_NONE)
        put_string(out, "error", err_info(r->error)->token);
    put_number(out, "bytesUp", r->bytes_up);
    put_number(out, "bytesDown", r->bytes_down);
    put_number(out, "durationMs", (uint64_t)(duration * 1000 + 0.5));
    put_string(out, "close", err_info(r->close)->token);
    buf_puts(out, "}\n");
}

/* allow connect ok.test:443 (network.allowedDomains[0] "ok.test"): 200, 517 up, 4096 down, 12 ms */
static void describe(const struct record *r, double now)
{
    struct buf why, sent;
    buf_init(&why, 8192);
    buf_init(&sent, 64);
    if (r->rule != NULL)
        buf_puts(&why, r->rule);
    if (r->entry != NULL)
        buf_printf(&why, " \"%s\"", r->entry);
    if (r->rule != NULL && r->reason != NULL)
        buf_puts(&why, ", ");
    if (r->reason != NULL)
        buf_puts(&why, r->reason);
    if (r->status != RECORD_NO_STATUS)
        buf_printf(&sent, "%d, ", r->status);
    log_debug("%s %s %s:%u (%s): %s%llu up, %llu down, %.0f ms, %s",
              r->verdict == RECORD_ALLOW ? "allow" : "deny",
              via_names[r->via] != NULL ? via_names[r->via] : "-", r->host != NULL ? r->host : "-",
              (unsigned)r->port, buf_cstr(&why), buf_cstr(&sent), (unsigned long long)r->bytes_up,
              (unsigned long long)r->bytes_down, (now - r->started) * 1000,
              err_info(r->close)->sentence);
    buf_free(&why);
    buf_free(&sent);
}

void record_log(struct line_log *log, const struct record *r, double now)
{
    struct buf *line = line_log_line(log);
    if (line == NULL)
        return;
    record_format(line, r, now);
    line_log_put(log);
}

void record_finish(struct record *r, struct line_log *log, enum err close, double now)
{
    r->close = (uint8_t)close;
    if (err_is_upstream(close))
        r->error = (uint8_t)close;
    if (log_debug_enabled)
        describe(r, now);
    record_log(log, r, now);
    record_free(r);
}
