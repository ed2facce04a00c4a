/* What is asked of a request besides the lists: its target, requireHostMatch, network.rules.
 * Chapter 20 sections 6.2 and 9, chapter 30 section 6. */
#include <string.h>

#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

static struct head_text text_of(const struct http_session *s, const uint8_t *p, size_t path)
{
    const char *head = (const char *)p;
    return (struct head_text){
        .method = head + s->head.method.at,
        .method_len = s->head.method.len,
        .target = head + s->head.target.at + path,
        .target_len = s->head.target.len - path,
    };
}

/* The request's URL as violation lines and refusals show it: without its query. */
static void put_url(struct buf *out, const struct http_session *s, const struct authority *a,
                    const struct head_text *head)
{
    struct buf authority;
    buf_init(&authority, HOST_MAX + 16);
    authority_format(&authority, &s->request.host, s->request.port, a->https ? 443 : 80);
    violation_url(out, a->https ? "https" : "http", buf_cstr(&authority), head->target,
                  head->target_len);
    buf_free(&authority);
}

static void put_refused_by_rule(struct http_session *s, const struct head_text *head,
                                const char *url)
{
    const struct decision *d = &s->request.decision;
    struct buf body, rule, line;
    buf_init(&body, strlen(d->reason) + 64);
    buf_init(&rule, 64);
    buf_init(&line, head->method_len + 3 * strlen(url) + 256);
    buf_printf(&body, "Request blocked by network.rules: %s", d->reason);
    buf_printf(&rule, "%s[%zu]", d->list, d->index);
    refusal_request_line(&line, head->method, head->method_len, url, buf_cstr(&rule));
    session_refuse(s, ERR_POLICY,
                   &(struct refusal){.reason = d->reason,
                                     .body = buf_cstr(&body),
                                     .second_line = buf_cstr(&line)});
    buf_free(&body);
    buf_free(&rule);
    buf_free(&line);
}

/* network.rules. True when the request may go on. */
static bool rules_agree(struct http_session *s, const struct authority *a,
                        const struct head_text *head)
{
    struct request *r = &s->request;
    enum err err = request_judge(r, head->method, head->method_len, head->target, head->target_len);
    if (err == ERR_NONE)
        return true;
    struct buf url;
    buf_init(&url, head->target_len + HOST_MAX + 64);
    put_url(&url, s, a, head);
    request_violation_http(r, s->worker, head->method, head->method_len, buf_cstr(&url),
                           r->decision.reason);
    if (err == ERR_POLICY)
        put_refused_by_rule(s, head, buf_cstr(&url));
    else
        session_refuse(s, err, &(struct refusal){.reason = r->decision.reason});
    buf_free(&url);
    return false;
}

/* What stands between the scheme and the path of an absolute target. */
static void put_authority(struct buf *out, const char *target, size_t path)
{
    const char *slashes = memchr(target, '/', path);
    if (slashes != NULL && (size_t)(slashes - target) + 2 <= path)
        buf_append(out, slashes + 2, path - (size_t)(slashes - target) - 2);
}

static const char *find_mismatch(const struct http_session *s, const struct authority *a,
                                 const uint8_t *p)
{
    const struct request *r = &s->request;
    const struct inside *in = s->inside;
    const char *values[2] = {NULL, NULL};
    size_t lengths[2] = {0, 0};
    struct buf authority;
    for (uint32_t i = 0; i < 2; i++)
        values[i] = head_find(&s->head, p, "host", i, &lengths[i]);
    buf_init(&authority, s->head.target.len + 1);
    if (in != NULL && a->path != 0)
        put_authority(&authority, (const char *)p + s->head.target.at, a->path);
    const char *why = host_mismatch(&(struct host_match){
        .host_headers = values,
        .host_header_lens = lengths,
        .host_header_count = s->head.host_count < 2 ? s->head.host_count : 2,
        .hostname = r->host.text,
        .port = r->port,
        .default_port = a->https ? 443 : 80,
        .server_name_unreadable = in != NULL && in->name_state == HELLO_UNREADABLE,
        .server_name = in != NULL ? in->server_name : NULL,
        .authority = in != NULL && a->path != 0 ? buf_cstr(&authority) : NULL,
    });
    buf_free(&authority);
    return why;
}

/* requireHostMatch. True when the request may go on. */
static bool host_agrees(struct http_session *s, const struct authority *a, const uint8_t *p,
                        const struct head_text *head)
{
    struct request *r = &s->request;
    const char *why = find_mismatch(s, a, p);
    if (why == NULL)
        return true;
    struct buf url;
    buf_init(&url, head->target_len + HOST_MAX + 64);
    put_url(&url, s, a, head);
    request_violation_http(r, s->worker, head->method, head->method_len, buf_cstr(&url), why);
    buf_free(&url);
    /* The one mistake of a client with several names need not cost it a tunnel. */
    session_refuse(s, ERR_MISDIRECTED,
                   &(struct refusal){.body = why, .reason = why, .keep = s->inside != NULL});
    return false;
}

bool judge_target(struct http_session *s, const uint8_t *p, struct authority *a)
{
    const char *target = (const char *)p + s->head.target.at;
    size_t n = s->head.target.len;
    const struct inside *in = s->inside;

    if (in == NULL) {
        if (authority_parse_absolute(target, n, a))
            return true;
        session_refuse(s, ERR_BAD_TARGET, &(struct refusal){0});
        return false;
    }
    *a = (struct authority){0};
    if (target[0] != '/' && !(n == 1 && target[0] == '*') &&
        !authority_parse_absolute(target, n, a)) {
        struct head_text head = text_of(s, p, 0);
        session_refuse_inside(s, ERR_BAD_TARGET, &head, target_malformed_text);
        return false;
    }
    if (s->head.minor >= 1 && s->head.host_count == 0) {
        session_refuse_no_host(s);
        return false;
    }
    a->host = in->host.text;
    a->host_len = in->host.len;
    a->port = in->port;
    a->https = true;
    return true;
}

bool judge_request(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    struct head_text head = text_of(s, p, a->path);
    if (s->request.snapshot->require_host_match && !host_agrees(s, a, p, &head))
        return false;
    return rules_agree(s, a, &head);
}
