/* The request's body on its way from the client to the upstream. */
#include <string.h>

#include "proxy/http/encode.h"
#include "proxy/http/exchange.h"

enum { PENDING_READ = 16384 };

/* Bytes that were read before the upstream was there. */
static bool has_early_body(const struct exchange *x)
{
    return x->shown != NULL || buf_len(&x->rest) != 0;
}

/* Whether more of the body may be taken from the client now. */
static bool flowing(const struct exchange *x)
{
    return x->upstream != NULL && !x->request_dead && !x->request_ended && buf_len(&x->up_out) == 0;
}

int forward_wanted(const struct http_session *s)
{
    const struct exchange *x = s->exchange;
    if (s->client_ended)
        return 0;
    if (x->upstream == NULL || x->request_ended || x->request_dead || has_early_body(x))
        /* Nothing is needed, but a client that goes away should be noticed. */
        return buf_len(&s->in) < budget_read_size(&s->worker->budget, PENDING_READ) ? STREAM_READ
                                                                                    : 0;
    return flowing(x) ? STREAM_READ : 0;
}

/* The time runs while the body is under way, whichever side it waits for. */
static void keep_time(struct exchange *x, bool progress)
{
    struct http_session *s = x->session;
    bool waiting = (!body_is_done(&s->body) || has_early_body(x)) && !x->request_dead;
    if (!waiting)
        session_timer_stop(s);
    else if (progress || s->timeout_error != ERR_BODY_TIMEOUT)
        session_timer(s, session_limits(s)->request_body_ms, ERR_BODY_TIMEOUT);
}

static void upstream_takes_no_more(struct exchange *x)
{
    x->request_dead = true;
    buf_wipe(&x->up_out);
}

static bool encode_end(struct exchange *x)
{
    const struct http_session *s = x->session;
    /* What a decider was not shown, it did not allow. */
    bool dropped = s->head.connection_other || x->decided;
    x->request_ended = true;
    return body_encode_end(&x->up_out, x->request_framing, &s->body.trailers,
                           dropped ? BODY_TRAILERS_DROPPED : NULL);
}

/* n raw bytes at the scratch: decoded, encoded, the excess kept. False: malformed. */
static bool convert(struct exchange *x, uint8_t *p, size_t n, size_t *used)
{
    size_t out;
    enum body_result result = body_decode(&x->session->body, p, n, used, &out);
    if (result == BODY_BAD)
        return false;
    body_encode(&x->up_out, x->request_framing, p, out);
    return result != BODY_DONE || encode_end(x);
}

/* The client's body is malformed: an answer if none has begun. */
static bool bad_body(struct exchange *x)
{
    struct http_session *s = x->session;
    if (x->state == EXCHANGE_BODY) {
        session_abort(s, ERR_BAD_REQUEST, true);
        return false;
    }
    stream_reset(&x->upstream);
    forward_free(s);
    session_refuse_malformed(s, ERR_BAD_REQUEST, "its body is not framed as it says");
    return true;
}

enum taken { TAKEN, TAKEN_NOTHING, TAKEN_BAD, TAKEN_GONE };

static enum taken take_early(struct exchange *x)
{
    uint8_t *p = x->session->worker->scratch + SCRATCH_HEADROOM;
    size_t n = 0;
    if (x->shown != NULL) {
        const struct buf *bytes = &x->shown->bytes;
        n = buf_len(bytes) - x->shown_sent;
        n = n < RELAY_CHUNK ? n : RELAY_CHUNK;
        if (n != 0)
            memcpy(p, buf_data(bytes) + x->shown_sent, n);
        x->shown_sent += n;
        if (x->shown_sent == buf_len(bytes)) {
            decider_body_unref(x->shown);
            x->shown = NULL;
        }
    } else {
        n = buf_len(&x->rest) < RELAY_CHUNK ? buf_len(&x->rest) : RELAY_CHUNK;
        memcpy(p, buf_data(&x->rest), n);
        buf_consume(&x->rest, n);
    }
    body_encode(&x->up_out, x->request_framing, p, n);
    return !has_early_body(x) && body_is_done(&x->session->body) && !encode_end(x) ? TAKEN_BAD
                                                                                   : TAKEN;
}

static enum taken take_buffered(struct exchange *x)
{
    struct http_session *s = x->session;
    uint8_t *p = s->worker->scratch + SCRATCH_HEADROOM;
    size_t n = buf_len(&s->in) < RELAY_CHUNK ? buf_len(&s->in) : RELAY_CHUNK, used;
    if (n == 0)
        return TAKEN_NOTHING;
    memcpy(p, buf_data(&s->in), n);
    if (!convert(x, p, n, &used))
        return TAKEN_BAD;
    buf_consume(&s->in, used);
    return TAKEN;
}

static enum taken take_socket(struct exchange *x)
{
    struct http_session *s = x->session;
    uint8_t *p = s->worker->scratch + SCRATCH_HEADROOM;
    size_t want = budget_read_size(&s->worker->budget, RELAY_CHUNK), used;
    if (s->body.framing == BODY_LENGTH && s->body.left < want)
        want = (size_t)s->body.left;
    ssize_t n = stream_read(s->client->stream, p, want);
    if (n < 0 && stream_would_block(n, errno))
        return TAKEN_NOTHING;
    if (n <= 0) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return TAKEN_GONE;
    }
    /* A chunked body may end inside: what follows is the next request. Decoding moves body bytes
     * together at the front, so the excess is saved from behind `used`. */
    if (!convert(x, p, (size_t)n, &used))
        return TAKEN_BAD;
    buf_append(&s->in, p + used, (size_t)n - used);
    return TAKEN;
}

/* False when the upstream is not writable any more just now. */
static bool write_out(struct exchange *x)
{
    if (x->request_dead || buf_len(&x->up_out) == 0)
        return true;
    ssize_t n = stream_write(x->upstream, buf_data(&x->up_out), buf_len(&x->up_out));
    if (n < 0) {
        if (stream_would_block(n, errno))
            return false;
        /* It may have answered before it went: the reading side will tell. */
        upstream_takes_no_more(x);
        return true;
    }
    x->session->request.record.bytes_up += (uint64_t)n;
    if (n > 0)
        x->moved = true;
    buf_consume(&x->up_out, (size_t)n);
    return buf_len(&x->up_out) == 0;
}

bool request_pump(struct exchange *x, bool may_read)
{
    struct http_session *s = x->session;
    bool progress = false;
    x->moved = false;
    if (body_is_done(&s->body) && !has_early_body(x) && !x->request_ended)
        encode_end(x);
    for (;;) {
        enum taken taken = TAKEN_NOTHING;
        if (!x->request_ended && !x->request_dead && buf_len(&x->up_out) < RELAY_CHUNK)
            taken = has_early_body(x) ? take_early(x) : take_buffered(x);
        if (taken == TAKEN_NOTHING && may_read && flowing(x)) {
            taken = take_socket(x);
            may_read = false;
        }
        if (taken == TAKEN_GONE)
            return false;
        if (taken == TAKEN_BAD)
            return bad_body(x);
        progress |= taken == TAKEN;
        if (progress) {
            x->client_waits = false;
            x->body_taken = true;
        }
        if (!write_out(x))
            break;
        /* A head that filled the queue alone left the body in `in`. */
        if (taken == TAKEN_NOTHING && !(flowing(x) && buf_len(&s->in) != 0))
            break;
    }
    if (s->client_ended && flowing(x) && buf_len(&s->in) == 0) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    keep_time(x, progress || x->moved);
    return true;
}

bool forward_client_readable(struct http_session *s)
{
    struct exchange *x = s->exchange;
    if (flowing(x)) {
        if (!request_pump(x, true))
            return false;
        exchange_want(s);
        return true;
    }
    size_t most = budget_read_size(&s->worker->budget, PENDING_READ);
    ssize_t n = stream_read(s->client->stream, buf_reserve(&s->in, most), most);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n < 0) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    if (n == 0) {
        /* After its whole request it still gets its answer; request_pump() sees whether it was. */
        s->client_ended = true;
        return true;
    }
    buf_commit(&s->in, (size_t)n);
    if (x->upstream == NULL && !body_is_done(&s->body))
        keep_time(x, true);
    return true;
}
