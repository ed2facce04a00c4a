/* The answers of a session that refuse its request: chapter 20 section 3, chapter 30 section 6. */
#include <string.h>

#include "proxy/http/session_internal.h"
#include "proxy/http/target.h"

/* Marks an answer as ours where the table has no mark of its own: inside a tunnel every refusal
 * bears one, since the client believes that it talks to the server. */
#define MARK "blocked-by-sandbox-runtime"

bool session_drop_body(struct http_session *s)
{
    while (!body_is_done(&s->body) && buf_len(&s->in) != 0) {
        size_t used, out;
        if (body_decode(&s->body, buf_data(&s->in), buf_len(&s->in), &used, &out) == BODY_BAD)
            return false;
        buf_consume(&s->in, used);
    }
    return true;
}

/* Whether the rest of a refused request's body is worth reading to keep the connection: when it is
 * known to be short, and sure to come. A client that waits for 100 may or may not send it now. */
static bool body_is_droppable(struct http_session *s, bool any_length)
{
    if (!session_drop_body(s))
        return false;
    if (body_is_done(&s->body))
        return true;
    if (s->head.expect_continue)
        return false;
    return any_length || (s->body.framing == BODY_LENGTH &&
                          s->body.left <= session_limits(s)->refused_body_bytes);
}

/* Whether the connection ends with this refusal. */
static bool closes(struct http_session *s, enum err err, const struct refusal *how)
{
    bool close = how->close || s->close_after || s->worker->stopping || s->snapshot->proxy_only;
    if (s->connect)
        close = err != ERR_AUTH || how->close || s->close_after || s->snapshot->proxy_only;
    else if (!body_is_droppable(s, how->keep) || (s->client_ended && buf_len(&s->in) == 0))
        close = true;
    if (err == ERR_AUTH && ++s->auth_failures >= session_limits(s)->auth_failures)
        close = true;
    return close;
}

void session_refuse(struct http_session *s, enum err err, const struct refusal *how)
{
    bool close = closes(s, err, how);
    struct answer answer = {
        .err = err,
        .status = how->status,
        .deny_codes = s->snapshot->proxy_only,
        .connect = s->connect,
        .head_method = s->head_method,
        .close = close,
        .keep_alive_s = keep_alive_seconds(session_limits(s)),
        .date = worker_date(s->worker),
        .reason = how->reason,
        .body = how->body,
        .mark = how->mark,
        .second_line = how->second_line,
    };
    respond(&s->out, &answer);
    request_refused(&s->request, err, how->status != 0 ? how->status : err_info(err)->status,
                    how->reason != NULL ? how->reason : how->detail);
    request_end(&s->request, s->worker, err);
    s->close_after = close;
    s->refused = true;
    s->state = HTTP_ANSWERED;
}

void session_refuse_policy(struct http_session *s)
{
    struct request *r = &s->request;
    struct buf rule, line;
    buf_init(&rule, 4096);
    buf_init(&line, 8192);
    refusal_rule(&rule, &r->decision);
    refusal_line(&line, r->spelled, strlen(r->spelled), &r->host, r->port, buf_cstr(&rule));
    session_refuse(s, ERR_POLICY,
                   &(struct refusal){.status = r->status,
                                     .reason = r->decision.reason,
                                     .second_line = buf_cstr(&line)});
    buf_free(&rule);
    buf_free(&line);
}

static void refuse_addresses(struct http_session *s, unsigned classes)
{
    struct request *r = &s->request;
    struct buf reason, body, line;
    buf_init(&reason, 1024);
    buf_init(&body, 2048);
    buf_init(&line, 2048);
    request_deny_addresses(r, s->worker, classes, &reason);
    buf_printf(&body, "Connection to %s blocked: %s", r->host.text, buf_cstr(&reason));
    refusal_line(&line, NULL, 0, &r->host, r->port, buf_cstr(&reason));
    session_refuse(s, ERR_ADDRESS,
                   &(struct refusal){.reason = buf_cstr(&reason),
                                     .body = buf_cstr(&body),
                                     .second_line = buf_cstr(&line)});
    buf_free(&reason);
    buf_free(&body);
    buf_free(&line);
}

void session_refuse_upstream(struct http_session *s, const struct egress_result *r)
{
    if (r->err == ERR_ADDRESS)
        refuse_addresses(s, r->denied_classes);
    else
        session_refuse(s, r->err, &(struct refusal){.detail = r->detail});
}

void session_refuse_inside(struct http_session *s, enum err err, const struct head_text *head,
                           const char *text)
{
    struct buf url, authority;
    buf_init(&authority, HOST_MAX + 16);
    authority_format(&authority, &s->inside->host, s->inside->port, 443);
    buf_init(&url, 3 * head->target_len + HOST_MAX + 64);
    violation_url(&url, "https", buf_cstr(&authority), head->target, head->target_len);
    request_violation_http(&s->request, s->worker, head->method, head->method_len, buf_cstr(&url),
                           text);
    const char *mark = err_info(err)->proxy_error;
    session_refuse(
        s, err,
        &(struct refusal){
            .reason = text, .body = text, .mark = mark != NULL ? mark : MARK, .close = true});
    buf_free(&url);
    buf_free(&authority);
}

void session_refuse_no_host(struct http_session *s)
{
    session_refuse(s, ERR_NO_HOST,
                   &(struct refusal){.body = "HTTP/1.1 request without a Host header",
                                     .mark = MARK,
                                     .close = true});
}

void session_refuse_malformed(struct http_session *s, enum err err, const char *detail)
{
    if (s->inside == NULL) {
        session_refuse(s, err, &(struct refusal){.close = true});
        return;
    }
    struct buf text;
    buf_init(&text, 256);
    buf_printf(&text, "malformed request (%s)", detail);
    session_refuse_inside(s, err, &(struct head_text){.method = "-", .method_len = 1},
                          buf_cstr(&text));
    buf_free(&text);
}

/* The method and the target of a request line that is whole, in bytes that did not parse. The
 * target may hold any bytes but spaces and line ends. */
static bool find_target(const uint8_t *p, size_t n, struct head_text *out)
{
    static const char version[] = " HTTP/1.";
    const uint8_t *line_end = memchr(p, '\r', n);
    if (line_end == NULL)
        return false;
    size_t line = (size_t)(line_end - p);
    const uint8_t *space = memchr(p, ' ', line);
    if (space == NULL || !http_is_token((const char *)p, (size_t)(space - p)))
        return false;
    const uint8_t *target = space + 1;
    const uint8_t *end = memchr(target, ' ', (size_t)(line_end - target));
    if (end == NULL || line_end - end != sizeof version ||
        memcmp(end, version, sizeof version - 1) != 0)
        return false;
    *out = (struct head_text){(const char *)p, (size_t)(space - p), (const char *)target,
                              (size_t)(end - target)};
    return true;
}

static bool is_printable(char c)
{
    return c > ' ' && c <= '~';
}

/* A target with bytes that must be escaped is worth a message of its own: programs that send such
 * are common. False: it was something else. */
static bool refuse_raw_target(struct http_session *s)
{
    enum { SHOWN_MAX = 200 };
    static const char hex[] = "0123456789ABCDEF";
    struct head_text head;
    size_t at = 0;
    if (!find_target(buf_data(&s->in), buf_len(&s->in), &head))
        return false;
    while (at < head.target_len && is_printable(head.target[at]))
        at++;
    if (at == head.target_len)
        return false;
    struct buf method, shown;
    buf_init(&method, head.method_len);
    buf_init(&shown, 3 * SHOWN_MAX);
    buf_append(&method, head.method, head.method_len);
    for (size_t i = 0; i < head.target_len && i < SHOWN_MAX; i++) {
        uint8_t c = (uint8_t)head.target[i];
        char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};
        if (is_printable(head.target[i]))
            buf_append(&shown, &c, 1);
        else
            buf_append(&shown, escaped, sizeof escaped);
    }
    buf_clear(&s->in);
    session_refuse_inside(
        s, ERR_BAD_REQUEST,
        &(struct head_text){buf_chars(&method), buf_len(&method), buf_chars(&shown),
                            buf_len(&shown)},
        "malformed request-target: percent-encode its bytes outside printable ASCII");
    buf_free(&method);
    buf_free(&shown);
    return true;
}

void session_refuse_head(struct http_session *s, enum err err)
{
    struct buf text;
    body_decoder_init(&s->body, BODY_NONE, 0, 0);
    s->connect = s->head_method = false;
    if (s->inside != NULL && err == ERR_BAD_REQUEST && refuse_raw_target(s))
        return;
    buf_clear(&s->in);
    buf_init(&text, 128);
    buf_printf(&text, "request head larger than %u bytes",
               (unsigned)session_limits(s)->request_head_bytes);
    if (err == ERR_HEAD_TOO_LARGE && s->snapshot->proxy_only && s->inside == NULL)
        session_refuse(s, ERR_BAD_REQUEST, &(struct refusal){.close = true});
    else if (err == ERR_OVERLOADED)
        session_refuse(s, err, &(struct refusal){.close = true});
    else if (err != ERR_HEAD_TOO_LARGE)
        session_refuse_malformed(s, err, err_info(err)->sentence);
    else if (s->inside != NULL)
        session_refuse_malformed(s, ERR_BAD_REQUEST, buf_cstr(&text));
    else
        session_refuse(s, err, &(struct refusal){.body = buf_cstr(&text), .close = true});
    buf_free(&text);
}
