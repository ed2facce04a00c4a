#include "launcher/violation_record.h"

#include <string.h>

#include "base/limits.h"
#include "base/text.h"

static struct span part(const char *at, const char *end)
{
    return (struct span){at, (size_t)(end - at)};
}

/* The last c of [at, end), or NULL. */
static const char *last(const char *at, const char *end, char c)
{
    return at < end ? memrchr(at, c, (size_t)(end - at)) : NULL;
}

/* 1 to 65535 in decimal, else 0. */
static uint16_t read_port(const char *at, const char *end)
{
    unsigned port = 0;

    if (at == end || end - at > 5)
        return 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        port = port * 10 + (unsigned)(*at - '0');
    }
    return port <= UINT16_MAX ? (uint16_t)port : 0;
}

/* host:port, an IPv6 address with brackets or without them; `fallback` where no port is written. */
static void read_destination(struct violation_record *r, const char *at, const char *end,
                             uint16_t fallback)
{
    const char *colon = last(at, end, ':');
    bool bracketed = at < end && *at == '[';
    const char *host_end = end;

    r->port = fallback;
    if (colon != NULL && !(bracketed && end[-1] == ']')) {
        r->port = read_port(colon + 1, end);
        host_end = colon;
    }
    if (bracketed && host_end - at >= 2 && host_end[-1] == ']') {
        at++;
        host_end--;
    }
    r->host = part(at, host_end);
    if (r->host.len == 0 || r->port == 0) {
        r->host.at = NULL;
        r->port = 0;
    }
}

static void read_url(struct violation_record *r, const char *at, const char *end)
{
    static const struct {
        const char *text;
        size_t len;
        uint16_t port;
    } schemes[] = {{"http://", 7, 80}, {"https://", 8, 443}};
    uint16_t port = 0;

    r->url = part(at, end);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if ((size_t)(end - at) > schemes[i].len &&
            memcmp(at, schemes[i].text, schemes[i].len) == 0) {
            at += schemes[i].len;
            port = schemes[i].port;
            break;
        }
    }
    const char *authority_end = at;
    while (authority_end < end && *authority_end != '/' && *authority_end != '?')
        authority_end++;
    read_destination(r, at, authority_end, port);
}

/* The rest of the line after `start`, or NULL. */
static const char *after(const char *line, const char *start)
{
    size_t n = strlen(start);

    return strncmp(line, start, n) == 0 ? line + n : NULL;
}

void violation_record_read(struct violation_record *r, const char *line)
{
    const char *end = line + strlen(line);
    const char *outbound = after(line, "deny network-outbound ");
    const char *tunnel = after(line, "deny socks-tunnel ");
    const char *request = after(line, "deny http-request ");
    const char *at = outbound != NULL ? outbound : tunnel != NULL ? tunnel : request;

    if (at == NULL)
        return;
    /* A reason may hold another " (", and so may a client's host; hosts that do are not valid. */
    const char *open = strstr(at, " (");
    if (open == NULL || end[-1] != ')')
        return;
    r->reason = part(open + 2, end - 1);
    if (request == NULL) {
        r->outbound = outbound != NULL;
        read_destination(r, at, open, 0);
        return;
    }
    const char *space = memchr(at, ' ', (size_t)(open - at));
    if (space == NULL)
        return;
    r->method = part(at, space);
    read_url(r, space + 1, open);
}

static void member(struct buf *out, const char *name, const char *s, size_t n)
{
    buf_printf(out, ",\"%s\":", name);
    text_json(out, s, n);
}

static void member_span(struct buf *out, const char *name, struct span s)
{
    if (s.at != NULL)
        member(out, name, s.at, s.len);
}

/* Not "%f": its decimal point is the locale's. */
static void put_time(struct buf *out, double time)
{
    int64_t ms = time > 0 ? (int64_t)(time * 1000) : 0;

    buf_printf(out, "{\"time\":%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
}

void violation_record_json(const struct violation_record *r, struct buf *out)
{
    bool network = r->syscall == NULL;

    put_time(out, r->time);
    buf_printf(out, ",\"kind\":\"%s\"", network ? "network" : "filesystem");
    member(out, "line", r->line, strlen(r->line));
    if (network) {
        member_span(out, "method", r->method);
        member_span(out, "url", r->url);
        member_span(out, "host", r->host);
        if (r->port != 0)
            buf_printf(out, ",\"port\":%u", (unsigned)r->port);
        member_span(out, "reason", r->reason);
    } else {
        member(out, "syscall", r->syscall, strlen(r->syscall));
        member(out, "path", r->path, strlen(r->path));
        buf_printf(out, ",\"pid\":%d", (int)r->pid);
    }
    if (r->command != NULL)
        member(out, "command", r->command, text_cut(r->command, strlen(r->command), REASON_UNITS));
    buf_puts(out, "}\n");
}
