/* What is asked of a request besides the lists: its target, requireHostMatch, its method,
 * network.rules. Chapter 20 sections 6.2 and 9 to 12, chapter 30 section 6. */
#include <string.h>

#include "base/text.h"
#include "decider/decider.h"
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

void judge_record(struct http_session *s, const uint8_t *p, const struct authority *a,
                  const char *reason)
{
    struct head_text head = text_of(s, p, a->path);
    struct buf url;
    buf_init(&url, 3 * head.target_len + HOST_MAX + 64);
    put_url(&url, s, a, &head);
    request_violation_http(&s->request, s->worker, head.method, head.method_len, buf_cstr(&url),
                           reason);
    buf_free(&url);
}

bool judge_by_decider(const struct http_session *s)
{
    const struct decider *d = s->worker->decider;
    return d != NULL && (d->asks & DECIDER_REQUESTS) != 0;
}

static bool judged_by_rules(const struct http_session *s, const struct host *host, uint16_t port)
{
    const struct request_rules *rules = s->request.snapshot->request_rules;
    return rules != NULL && request_rules_concern(rules, host, port);
}

/* --- the target ---------------------------------------------------------------------------- */

/* Refused for its target, and recorded; the last request of a tunnel. */
static bool refuse_target(struct http_session *s, const uint8_t *p, const struct authority *a,
                          enum err err, const char *text)
{
    struct head_text head = text_of(s, p, a->path);
    if (s->inside != NULL) {
        session_refuse_inside(s, err, &head, text);
    } else {
        judge_record(s, p, a, text);
        session_refuse(s, err, &(struct refusal){.body = text, .reason = text});
    }
    return false;
}

static bool choose_exact(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    const char *target = (const char *)p + s->head.target.at;
    size_t n = s->head.target.len;
    buf_free(&s->target);
    buf_init(&s->target, n + 1);
    return target_exact(&s->target, target, n, s->inside == NULL) ||
           refuse_target(s, p, a, ERR_BAD_TARGET, target_malformed_text);
}

/* Where something judges what is asked for, it is settled what that is: into s->target. False:
 * refused. */
static bool choose_target(struct http_session *s, const uint8_t *p, const struct authority *a,
                          const struct host *host, uint16_t port)
{
    const struct snapshot *snapshot = s->request.snapshot;
    const char *head = (const char *)p;
    bool rules = judged_by_rules(s, host, port);
    struct target_forms forms;
    const struct buf *chosen;

    if (snapshot->proxy_only)
        return choose_exact(s, p, a);
    if (!rules && !judge_by_decider(s))
        return true;
    target_forms_init(&forms, 3 * (size_t)s->head.target.len + 1);
    bool ok = target_forms_parse(&forms, head + s->head.target.at, s->head.target.len,
                                 head + s->head.method.at, s->head.method.len);
    enum target_mode mode = (enum target_mode)snapshot->ambiguous_target;
    /* Rules judge one path: that is the one that has to go on. */
    if (rules && mode == TARGET_AS_SPELLED)
        mode = TARGET_REFUSE;
    enum target_refusal refusal = ok ? target_choose(&forms, mode, &chosen) : TARGET_MALFORMED;
    if (refusal == TARGET_OK) {
        buf_free(&s->target);
        buf_init(&s->target, buf_len(chosen));
        buf_append(&s->target, buf_data(chosen), buf_len(chosen));
    }
    target_forms_free(&forms);
    if (refusal == TARGET_MALFORMED)
        return refuse_target(s, p, a, ERR_BAD_TARGET, target_malformed_text);
    if (refusal == TARGET_AMBIGUOUS)
        return refuse_target(s, p, a, ERR_AMBIGUOUS_TARGET, target_ambiguous_text);
    return true;
}

/* --- network.rules ------------------------------------------------------------------------- */

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
    if (!judged_by_rules(s, &r->host, r->port))
        return true;
    enum err err = request_judge(r, head->method, head->method_len, buf_chars(&s->target),
                                 buf_len(&s->target));
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

/* --- requireHostMatch ---------------------------------------------------------------------- */

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
static bool host_agrees(struct http_session *s, const struct authority *a, const uint8_t *p)
{
    const char *why = find_mismatch(s, a, p);
    if (why == NULL)
        return true;
    judge_record(s, p, a, why);
    /* The one mistake of a client with several names need not cost it a tunnel. */
    session_refuse(s, ERR_MISDIRECTED,
                   &(struct refusal){.body = why, .reason = why, .keep = s->inside != NULL});
    return false;
}

/* --- all of it ----------------------------------------------------------------------------- */

/* Servers send back what these methods bring, and with it what a decider or a credential added. */
static bool method_agrees(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    static const char *const echoing[] = {"TRACE", "TRACK"};
    const struct head_text head = text_of(s, p, a->path);
    const char *name = NULL;
    for (size_t i = 0; i < sizeof echoing / sizeof echoing[0]; i++)
        if (text_equal_fold(head.method, head.method_len, echoing[i], strlen(echoing[i])))
            name = echoing[i];
    if (name == NULL ||
        (!judge_by_decider(s) && !judged_by_rules(s, &s->request.host, s->request.port)))
        return true;
    struct buf text;
    buf_init(&text, 128);
    buf_printf(&text, "the %s method is not forwarded", name);
    judge_record(s, p, a, buf_cstr(&text));
    session_refuse(s, ERR_METHOD,
                   &(struct refusal){.body = buf_cstr(&text), .reason = buf_cstr(&text)});
    buf_free(&text);
    return false;
}

static bool plain_target(struct http_session *s, const char *target, size_t n, struct authority *a)
{
    if (!authority_parse_absolute(target, n, a)) {
        session_refuse(s, ERR_BAD_TARGET, &(struct refusal){0});
        return false;
    }
    if (s->request.snapshot->proxy_only && !authority_is_plain(a)) {
        session_refuse(s, ERR_BAD_HOST, &(struct refusal){0});
        return false;
    }
    return true;
}

bool judge_target(struct http_session *s, const uint8_t *p, struct authority *a)
{
    const char *target = (const char *)p + s->head.target.at;
    size_t n = s->head.target.len;
    const struct inside *in = s->inside;

    if (in == NULL)
        return plain_target(s, target, n, a);
    *a = (struct authority){0};
    if (target[0] != '/' && !(n == 1 && target[0] == '*') &&
        !authority_parse_absolute(target, n, a))
        return refuse_target(s, p, &(struct authority){0}, ERR_BAD_TARGET, target_malformed_text);
    a->https = true;
    if (!choose_target(s, p, a, &in->host, in->port))
        return false;
    if (s->head.minor >= 1 && s->head.host_count == 0) {
        session_refuse_no_host(s);
        return false;
    }
    a->host = in->host.text;
    a->host_len = in->host.len;
    a->port = in->port;
    return true;
}

bool judge_request(struct http_session *s, const uint8_t *p, const struct authority *a)
{
    const struct request *r = &s->request;
    struct head_text head = text_of(s, p, a->path);
    if (s->inside == NULL && !choose_target(s, p, a, &r->host, r->port))
        return false;
    if (r->snapshot->require_host_match && !host_agrees(s, a, p))
        return false;
    return method_agrees(s, p, a) && rules_agree(s, a, &head);
}
