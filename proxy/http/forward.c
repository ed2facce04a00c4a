/* Plain requests: chapter 20 section 6. Opening and ending an exchange. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/egress/tunnel.h"
#include "proxy/http/exchange.h"
#include "proxy/http/target.h"

static void dial(struct exchange *x);

static void exchange_free(struct exchange *x)
{
    ev_timer_stop(x->session->worker->loop, &x->expect);
    stream_close(&x->upstream);
    buf_wipe(&x->up_out); /* heads may carry credentials */
    buf_wipe(&x->replay);
    buf_free(&x->up_in);
    head_free(&x->head);
    body_decoder_free(&x->body);
    decider_body_unref(x->shown);
    buf_wipe(&x->rest);
    free(x);
}

void forward_free(struct http_session *s)
{
    if (s->exchange == NULL)
        return;
    /* What was cut must not look whole to the upstream either. */
    if (!s->exchange->request_ended || buf_len(&s->exchange->up_out) != 0)
        stream_reset(&s->exchange->upstream);
    exchange_free(s->exchange);
    s->exchange = NULL;
}

static enum egress_kind kind_of(const struct exchange *x)
{
    return x->https ? EGRESS_TLS : EGRESS_PLAIN;
}

static struct pool_key key_of(const struct exchange *x)
{
    const struct request *r = &x->session->request;
    return (struct pool_key){
        .host = &r->host,
        .port = r->port,
        .tls = x->https,
        .parent = egress_next_hop(r->snapshot, &r->host, r->port, kind_of(x)).parent,
    };
}

/* A reused connection that ended before it answered says nothing about the request: it goes out
 * once more, on a fresh one, when repeating it does no harm. False: it cannot. */
static bool try_again(struct exchange *x)
{
    if (!x->reused || !x->idempotent || x->body_taken)
        return false;
    x->reused = false;
    x->request_ended = x->request_dead = x->upstream_ended = false;
    ev_timer_stop(x->session->worker->loop, &x->expect);
    stream_close(&x->upstream);
    buf_wipe(&x->up_out);
    x->up_out = x->replay;
    buf_init(&x->replay, 0);
    x->state = EXCHANGE_DIALLING;
    dial(x);
    return true;
}

bool exchange_fail(struct exchange *x, enum err err)
{
    struct http_session *s = x->session;
    bool unanswered = x->state == EXCHANGE_HEAD && buf_len(&x->up_in) == 0;
    if (unanswered && try_again(x))
        return true;
    if (unanswered && x->reused && s->inside != NULL) {
        session_end(s, err);
        return false;
    }
    if (x->state == EXCHANGE_BODY) {
        /* Without a declared length only a reset tells a cut body from a whole one. */
        bool reset = x->response_framing == OUT_CLOSE;
        if (!reset && buf_len(&s->out) != 0)
            (void)stream_write(s->client->stream, buf_data(&s->out), buf_len(&s->out));
        session_abort(s, ERR_UPSTREAM_BROKEN, reset);
        return false;
    }
    forward_free(s);
    session_refuse(s, err, &(struct refusal){0});
    return true;
}

/* The connection served a whole request and may serve another. */
static void keep_upstream(struct exchange *x)
{
    struct http_session *s = x->session;
    const struct limits *limits = session_limits(s);
    bool whole = x->request_ended && !x->request_dead && buf_len(&x->up_out) == 0 &&
                 buf_len(&x->up_in) == 0 && !x->upstream_ended && !x->excess;
    if (!whole || x->one_time || x->head.minor == 0 || x->head.connection_close ||
        s->worker->stopping)
        return;
    struct pool_key key = key_of(x);
    x->connection.stream = x->upstream;
    x->connection.uses++;
    x->upstream = NULL;
    pool_put(s->worker->pool, &key, &x->connection, limits->upstream_idle_ms,
             limits->idle_upstreams);
}

void exchange_finish(struct exchange *x)
{
    struct http_session *s = x->session;
    keep_upstream(x);
    s->request.record.bytes_down += buf_len(&s->out);
    request_end(&s->request, s->worker, ERR_NONE);
    forward_free(s);
    session_timer_stop(s);
    s->state = HTTP_ANSWERED;
}

void exchange_upgrade(struct exchange *x)
{
    struct http_session *s = x->session;
    struct request request = s->request;
    struct stream *upstream = x->upstream;
    struct buf ahead = s->in, answer = s->out, early = x->up_in;

    memset(&s->request, 0, sizeof s->request);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    buf_init(&x->up_in, 0);
    x->upstream = NULL;
    request.record.status = 101;
    tunnel_start(session_release(s), upstream, ahead, answer, early, &request);
}

void exchange_want(const struct http_session *s)
{
    const struct exchange *x = s->exchange;
    if (x == NULL || x->upstream == NULL)
        return;
    int events = buf_len(&x->up_out) != 0 ? STREAM_WRITE : 0;
    if (!x->upstream_ended && buf_len(&s->out) == 0)
        events |= STREAM_READ;
    stream_want(x->upstream, events);
}

static void on_upstream(void *ctx, struct stream *stream, int events)
{
    struct exchange *x = ctx;
    struct http_session *s = x->session;
    (void)stream;
    if ((events & STREAM_WRITE) && !request_pump(x, false))
        return;
    if ((events & STREAM_READ) && s->exchange != NULL && !response_pump(x))
        return;
    exchange_want(s);
    session_advance(s);
}

static void on_expect(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct exchange *x = timer->data;
    struct http_session *s = x->session;
    (void)loop;
    (void)revents;
    response_continue(x);
    if (session_flush(s)) {
        exchange_want(s);
        session_advance(s);
    }
}

/* The upstream is there: the head goes out. False: the session is gone. */
static bool begin(struct exchange *x)
{
    struct http_session *s = x->session;
    x->upstream = x->connection.stream;
    x->state = EXCHANGE_HEAD;
    stream_set_handler(x->upstream, on_upstream, x);
    if (!request_pump(x, false))
        return false;
    if (s->exchange == NULL)
        return true;
    if (x->client_waits) {
        ev_timer_set(&x->expect, session_limits(s)->expect_ms / 1e3, 0);
        ev_timer_start(s->worker->loop, &x->expect);
    }
    exchange_want(s);
    return true;
}

static void on_egress(void *ctx, struct egress_result *r)
{
    struct http_session *s = ctx;
    struct exchange *x = s->exchange;
    s->egress = NULL;
    if (r->err != ERR_NONE) {
        forward_free(s);
        session_refuse_upstream(s, r);
        session_advance(s);
        return;
    }
    buf_free(&r->early);
    x->connection = (struct pool_connection){
        .stream = r->stream, .address = r->address, .bound_to = x->connection.bound_to};
    if (begin(x))
        session_advance(s);
}

static void dial(struct exchange *x)
{
    struct http_session *s = x->session;
    s->egress = egress_start(s->worker, s->request.snapshot, &s->request.host, s->request.port,
                             kind_of(x), on_egress, s);
}

/* Credentials that the server will remember of the connection (RFC 4559 section 6, NTLM). */
static bool binds_connection(const struct head *h, const uint8_t *p)
{
    size_t n;
    const char *value;
    for (uint32_t i = 0; (value = head_find(h, p, "authorization", i, &n)) != NULL; i++)
        if ((n >= 4 && text_equal_fold(value, 4, "ntlm", 4)) ||
            (n >= 9 && text_equal_fold(value, 9, "negotiate", 9)))
            return true;
    return false;
}

static bool is_idempotent(const struct head *h, const uint8_t *p)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (head_method_is(h, p, methods[i]))
            return true;
    return false;
}

/* Path and query as they go on: what the filters judged, where there are any; inside a tunnel a
 * path byte for byte. */
static bool put_target(const struct exchange *x, struct buf *line, const struct authority *a,
                       const char *target)
{
    const struct http_session *s = x->session;
    if (buf_len(&s->target) != 0)
        return buf_append(line, buf_data(&s->target), buf_len(&s->target));
    if (s->inside != NULL && a->path == 0)
        return buf_append(line, target, s->head.target.len);
    return target_forwarded(line, target + a->path, s->head.target.len - a->path);
}

/* The request as it goes upstream, into up_out. False when it cannot be written. */
static bool write_head(struct exchange *x, const struct authority *a, const struct edits *edits,
                       const uint8_t *p)
{
    struct http_session *s = x->session;
    struct request *r = &s->request;
    const char *target = (const char *)p + s->head.target.at;
    const struct next_hop hop = egress_next_hop(r->snapshot, &r->host, r->port, kind_of(x));
    struct buf authority, line;
    uint64_t length = 0;

    buf_init(&authority, HOST_MAX + 16);
    buf_init(&line, x->up_out.max);
    authority_format(&authority, &r->host, r->port, a->https ? 443 : 80);
    x->absolute = !a->https && !next_hop_is_direct(&hop);
    x->one_time = hop.socket != NULL;
    if (x->absolute)
        buf_printf(&line, "http://%s", buf_cstr(&authority));
    bool ok = put_target(x, &line, a, target);
    x->request_framing = request_framing(&s->head, p, &length);
    x->upgrade = (s->inside != NULL || (!a->https && !r->snapshot->refuse_opaque_tunnels)) &&
                 headers_may_upgrade(&s->head, p);
    struct request_out how = {
        .target = buf_cstr(&line),
        .target_len = buf_len(&line),
        .host = buf_cstr(&authority),
        .proxy_authorization = x->absolute && hop.parent != NULL ? hop.parent->authorization : NULL,
        .framing = x->request_framing,
        .length = length,
        .upgrade = x->upgrade,
        .close = x->one_time,
        .folded_hop_by_hop = r->snapshot->proxy_only,
        .edits = edits,
    };
    ok = ok && headers_write_request(&x->up_out, &s->head, p, &how);
    buf_free(&authority);
    buf_free(&line);
    return ok;
}

void forward_begin(struct http_session *s, const uint8_t *p, const struct authority *a,
                   const struct edits *edits, struct decider_body *body, struct buf *rest)
{
    struct exchange *x = mem_alloc(sizeof *x);
    x->session = s;
    x->https = a->https;
    x->decided = edits != NULL;
    x->shown = body;
    if (rest != NULL)
        x->rest = *rest;
    x->idempotent = is_idempotent(&s->head, p);
    if (binds_connection(&s->head, p))
        x->connection.bound_to = s->client->serial;
    head_init(&x->head);
    buf_init(&x->up_in, (size_t)session_limits(s)->response_head_bytes + RELAY_CHUNK);
    /* The head may grow by escapes (three for one), and one chunk of the body goes with it. */
    buf_init(&x->up_out, 4 * (size_t)session_limits(s)->request_head_bytes + 2 * RELAY_CHUNK +
                             session_limits(s)->trailer_bytes);
    body_decoder_init(&x->body, BODY_NONE, 0, 0);
    ev_init(&x->expect, on_expect);
    x->expect.data = x;
    s->exchange = x;
    if (!write_head(x, a, edits, p)) {
        forward_free(s);
        session_refuse_malformed(s, ERR_BAD_REQUEST, "its head grows too large");
        return;
    }
    /* Who was asked for its body already waits for nothing. */
    x->client_waits =
        s->head.expect_continue && s->head.minor >= 1 && !body_is_done(&s->body) && body == NULL;
    x->state = EXCHANGE_DIALLING;
    s->state = HTTP_EXCHANGE;
}

bool forward_open(struct http_session *s)
{
    struct exchange *x = s->exchange;
    struct pool_key key = key_of(x);
    struct pool_connection kept;
    bool careful = !x->idempotent || x->shown != NULL || !body_is_done(&s->body);
    if (x->upgrade || x->one_time ||
        !pool_take(s->worker->pool, &key, s->request.snapshot->policy, s->client->serial, careful,
                   &kept)) {
        dial(x);
        return true;
    }
    if (x->connection.bound_to != 0)
        kept.bound_to = x->connection.bound_to;
    x->connection = kept;
    x->reused = true;
    if (x->idempotent) {
        buf_init(&x->replay, x->up_out.max);
        buf_append(&x->replay, buf_data(&x->up_out), buf_len(&x->up_out));
    }
    return begin(x);
}

size_t forward_held(const struct http_session *s)
{
    const struct exchange *x = s->exchange;
    if (x == NULL)
        return 0;
    return x->up_out.cap + x->up_in.cap + x->replay.cap + x->rest.cap +
           (x->shown != NULL ? x->shown->bytes.cap : 0) + x->head.capacity * sizeof(struct field);
}

bool forward_client_writable(struct http_session *s)
{
    struct exchange *x = s->exchange;
    if (x->upstream == NULL || buf_len(&s->out) != 0)
        return true;
    if (!response_pump(x))
        return false;
    exchange_want(s);
    return true;
}

bool forward_body_timeout(struct http_session *s)
{
    if (s->exchange->state == EXCHANGE_BODY || s->inside != NULL) {
        session_abort(s, ERR_BODY_TIMEOUT, true);
        return false;
    }
    if (s->egress != NULL)
        egress_cancel(s->egress);
    s->egress = NULL;
    forward_free(s);
    session_refuse(s, ERR_BODY_TIMEOUT, &(struct refusal){.close = true});
    return true;
}
