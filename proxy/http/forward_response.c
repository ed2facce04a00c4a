/* The response on its way from the upstream to the client. */
#include <string.h>

#include "proxy/http/encode.h"
#include "proxy/http/exchange.h"

enum { FIRST_READ = 16384 };

static const char continue_head[] = "HTTP/1.1 100 Continue\r\n\r\n";

void response_continue(struct exchange *x)
{
    if (!x->client_waits)
        return;
    x->client_waits = false;
    buf_puts(&x->session->out, continue_head);
}

static const char *const *stripped(const struct exchange *x)
{
    return (const char *const *)x->session->request.snapshot->strip_response_headers;
}

/* A 1xx other than 101. False: the session is gone. */
static bool interim(struct exchange *x)
{
    struct http_session *s = x->session;
    bool expected = x->head.status == 100 && x->client_waits;
    if (++x->interims > session_limits(s)->interim_responses)
        return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
    ev_timer_stop(s->worker->loop, &x->expect);
    if (s->head.minor >= 1 && (expected || x->head.status == 103) &&
        !headers_write_interim(&s->out, &x->head, buf_data(&x->up_in), stripped(x)))
        return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
    if (x->head.status == 100)
        x->client_waits = false;
    buf_consume(&x->up_in, x->head.length);
    x->scanned = 0;
    return session_flush(s);
}

static bool has_no_body(const struct exchange *x)
{
    return x->session->head_method || x->head.status == 204 || x->head.status == 304;
}

/* How the body goes to the client: section 6.6, "Framing". */
static enum out_framing choose_framing(const struct exchange *x)
{
    if (has_no_body(x))
        return OUT_KEEP;
    if (x->head.framing == BODY_LENGTH && !x->head.length_named)
        return OUT_LENGTH;
    return x->session->head.minor >= 1 ? OUT_CHUNKED : OUT_CLOSE;
}

/* Whether a client that has its answer may be waited for until its body is in. Only inside a
 * tunnel, where a new connection costs more than the rest of most bodies; and never when it may
 * have been waiting for 100, since then nobody knows whether a body will come. */
static bool may_await_body(const struct exchange *x)
{
    const struct http_session *s = x->session;
    return s->inside != NULL && (!s->head.expect_continue || x->body_taken);
}

/* The final head: rewritten into the client's queue. False: the session is gone. */
static bool final(struct exchange *x)
{
    struct http_session *s = x->session;
    ev_timer_stop(s->worker->loop, &x->expect);
    x->response_framing = choose_framing(x);
    /* A client with its answer need not send the rest of its body: the end of the connection tells
     * it so. */
    if ((!body_is_done(&s->body) && !may_await_body(x)) || x->response_framing == OUT_CLOSE ||
        (s->client_ended && buf_len(&s->in) == 0) || s->worker->stopping)
        s->close_after = true;
    struct response_out how = {
        .framing = x->response_framing,
        .length = x->head.content_length,
        .client_http10 = s->head.minor == 0 && s->close_after,
        .keep_alive = !s->close_after,
        .keep_alive_seconds = keep_alive_seconds(session_limits(s)),
        .strip = stripped(x),
        .date = worker_date(s->worker),
    };
    if (!headers_write_response(&s->out, &x->head, buf_data(&x->up_in), &how))
        return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
    body_decoder_init(&x->body, has_no_body(x) ? BODY_NONE : x->head.framing,
                      x->head.content_length, session_limits(s)->trailer_bytes);
    buf_consume(&x->up_in, x->head.length);
    head_drop_fields(&x->head);
    x->client_waits = false;
    s->request.record.status = (int16_t)x->head.status;
    x->state = EXCHANGE_BODY;
    return true;
}

/* 101: only for a client that asked, and whose request is in whole. False: the session is gone. */
static bool switching(struct exchange *x)
{
    struct http_session *s = x->session;
    if (!x->upgrade || !x->request_ended || buf_len(&x->up_out) != 0)
        return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
    struct response_out how = {.framing = OUT_CLOSE,
                               .upgrade = true,
                               .strip = stripped(x),
                               .date = worker_date(s->worker)};
    if (!headers_write_response(&s->out, &x->head, buf_data(&x->up_in), &how))
        return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
    buf_consume(&x->up_in, x->head.length);
    exchange_upgrade(x);
    return false;
}

/* Heads at hand. False: the session is gone, or no exchange is under way any more. */
static bool take_heads(struct exchange *x)
{
    struct http_session *s = x->session;
    while (x->state == EXCHANGE_HEAD && buf_len(&x->up_in) != 0) {
        enum head_result result =
            head_parse_response(&x->head, buf_data(&x->up_in), buf_len(&x->up_in), &x->scanned,
                                session_limits(s)->response_head_bytes);
        if (result == HEAD_MORE)
            return budget_is_short(&s->worker->budget) && buf_len(&x->up_in) > SHORT_HEAD
                       ? exchange_fail(x, ERR_OVERLOADED)
                       : true;
        bool on;
        if (result != HEAD_OK)
            on = exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
        else if (x->head.status == 101)
            on = switching(x);
        else if (x->head.status < 200)
            on = interim(x);
        else if (x->head.status == 407 && x->absolute)
            on = exchange_fail(x, ERR_UPSTREAM_PARENT);
        else
            on = final(x);
        if (!on || s->exchange == NULL)
            return on;
    }
    return true;
}

static bool encode_end(struct exchange *x)
{
    return body_encode_end(&x->session->out, x->response_framing, &x->body.trailers,
                           x->head.connection_other ? BODY_TRAILERS_DROPPED : stripped(x));
}

enum read_result { READ_SOME, READ_NONE, READ_END, READ_BROKEN };

static enum read_result read_head_bytes(struct exchange *x)
{
    size_t most = budget_read_size(&x->session->worker->budget, FIRST_READ);
    ssize_t n = stream_read(x->upstream, buf_reserve(&x->up_in, most), most);
    if (n < 0)
        return stream_would_block(n, errno) ? READ_NONE : READ_BROKEN;
    buf_commit(&x->up_in, (size_t)n);
    if (n > 0 && x->reused) {
        x->reused = false;
        buf_wipe(&x->replay);
    }
    return n == 0 ? READ_END : READ_SOME;
}

/* Body bytes, from behind the head or from the socket, to the scratch. */
static enum read_result read_body_bytes(struct exchange *x, uint8_t *p, size_t *n, bool may_read)
{
    const struct budget *budget = &x->session->worker->budget;
    size_t buffered = buf_len(&x->up_in);
    if (buffered != 0) {
        *n = buffered < RELAY_CHUNK ? buffered : RELAY_CHUNK;
        memcpy(p, buf_data(&x->up_in), *n);
        buf_consume(&x->up_in, *n);
        return READ_SOME;
    }
    if (!may_read)
        return READ_NONE;
    ssize_t got = stream_read(x->upstream, p, budget_read_size(budget, RELAY_CHUNK));
    if (got < 0)
        return stream_would_block(got, errno) ? READ_NONE : READ_BROKEN;
    *n = (size_t)got;
    return got == 0 ? READ_END : READ_SOME;
}

/* One piece of the body. False: the session is gone. *more: worth another go. */
static bool move_body(struct exchange *x, bool *may_read, bool *more)
{
    struct http_session *s = x->session;
    uint8_t *p = s->worker->scratch + SCRATCH_HEADROOM;
    size_t n = 0, used, out;
    bool from_socket = buf_len(&x->up_in) == 0;
    enum read_result result = read_body_bytes(x, p, &n, *may_read);

    *more = false;
    if (from_socket)
        *may_read = false;
    if (result == READ_NONE)
        return true;
    if (result == READ_BROKEN)
        return exchange_fail(x, ERR_UPSTREAM_BROKEN);
    if (result == READ_END) {
        x->upstream_ended = true;
        if (x->body.framing != BODY_CLOSE)
            return exchange_fail(x, ERR_UPSTREAM_BROKEN);
        body_decoder_init(&x->body, BODY_NONE, 0, 0);
        encode_end(x);
        return true;
    }
    enum body_result decoded = body_decode(&x->body, p, n, &used, &out);
    if (decoded == BODY_BAD)
        return exchange_fail(x, ERR_UPSTREAM_BROKEN);
    x->excess |= used < n;
    body_encode(&s->out, x->response_framing, p, out);
    if (decoded == BODY_DONE && !encode_end(x))
        return exchange_fail(x, ERR_UPSTREAM_BROKEN);
    *more = true;
    return true;
}

bool response_pump(struct exchange *x)
{
    struct http_session *s = x->session;
    bool may_read = !x->upstream_ended;
    if (x->state == EXCHANGE_HEAD && may_read) {
        enum read_result result = read_head_bytes(x);
        may_read = false;
        if (result == READ_END || result == READ_BROKEN)
            return exchange_fail(x, ERR_UPSTREAM_PROTOCOL);
        if (!take_heads(x))
            return false;
        if (s->exchange == NULL || x->state != EXCHANGE_BODY)
            return true;
    }
    do {
        bool more = true;
        while (x->state == EXCHANGE_BODY && !body_is_done(&x->body) && more &&
               buf_len(&s->out) < RELAY_CHUNK) {
            if (!move_body(x, &may_read, &more))
                return false;
        }
        if (!session_flush(s))
            return false;
        /* No event will come for what lies in up_in already. */
    } while (x->state == EXCHANGE_BODY && !body_is_done(&x->body) && buf_len(&x->up_in) != 0 &&
             buf_len(&s->out) == 0);
    if (x->state == EXCHANGE_BODY && body_is_done(&x->body))
        exchange_finish(x);
    return true;
}
