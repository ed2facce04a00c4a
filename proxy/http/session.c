#include "proxy/http/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/egress/linger.h"
#include "proxy/http/authenticate.h"
#include "proxy/http/session_internal.h"

enum step {
    STEP_ON,   /* the state changed: look again */
    STEP_WAIT, /* more bytes, room or time are needed */
    STEP_GONE  /* the session ended */
};

enum { READ_SIZE = 16384, FIELDS_KEPT = 64 };

/* What a client inside a tunnel has for its own end after ours. */
enum { INSIDE_LINGER_MS = 5000 };

void session_timer(struct http_session *s, uint32_t ms, enum err meaning)
{
    s->timeout_error = meaning;
    s->timer.repeat = ms / 1e3;
    ev_timer_again(s->worker->loop, &s->timer);
}

void session_timer_stop(struct http_session *s)
{
    s->timeout_error = ERR_NONE;
    ev_timer_stop(s->worker->loop, &s->timer);
}

/* Lets go of everything but the client. */
static void session_free(struct http_session *s)
{
    forward_free(s);
    inquiry_free(s);
    if (s->egress != NULL)
        egress_cancel(s->egress);
    session_timer_stop(s);
    stall_stop(&s->stall, s->worker->loop);
    budget_report(&s->worker->budget, &s->held, 0);
    buf_free(&s->in);
    buf_free(&s->out);
    buf_free(&s->target);
    approvals_free(&s->approved);
    head_free(&s->head);
    body_decoder_free(&s->body);
    snapshot_unref(s->snapshot);
    inside_free(s->inside);
    free(s);
}

void session_abort(struct http_session *s, enum err why, bool reset)
{
    struct client *client = s->client;
    request_end(&s->request, s->worker, why);
    session_free(s);
    if (reset)
        stream_reset(&client->stream);
    client_free(client);
}

struct client *session_release(struct http_session *s)
{
    struct client *client = s->client;
    session_free(s);
    return client;
}

bool session_flush(struct http_session *s)
{
    if (buf_len(&s->out) == 0)
        return true;
    ssize_t n = stream_write(s->client->stream, buf_data(&s->out), buf_len(&s->out));
    if (n < 0 && !stream_would_block(n, errno)) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    if (n > 0) {
        buf_consume(&s->out, (size_t)n);
        s->sent += (uint64_t)n;
        if (s->state == HTTP_EXCHANGE)
            s->request.record.bytes_down += (uint64_t)n;
    }
    return true;
}

/* p: the bytes of the head, used up but not yet overwritten. False: the session is gone. */
static bool dispatch(struct http_session *s, const uint8_t *p)
{
    s->connect = head_method_is(&s->head, p, "CONNECT");
    s->head_method = head_method_is(&s->head, p, "HEAD");
    s->refused = false;
    bool old = s->head.minor == 0 && !s->connect;
    s->close_after =
        s->head.connection_close || (old && (s->inside == NULL || !s->head.connection_keep_alive));
    if (s->head.expect_other && !s->connect) {
        session_refuse(s, ERR_EXPECTATION, &(struct refusal){.close = true});
        return true;
    }
    if (revocation_answer(s, p))
        return true;
    if (s->inside != NULL && s->connect) {
        s->connect = false;
        session_refuse_malformed(s, ERR_BAD_REQUEST, "CONNECT inside a tunnel");
        return true;
    }
    if (s->inside != NULL) {
        request_set_key(&s->request, s->inside->key);
    } else if (!authenticate(s->worker, &s->head, p, &s->request)) {
        session_refuse(s, ERR_AUTH, &(struct refusal){0});
        return true;
    }
    if (s->connect)
        return connect_begin(s, p);
    admit_begin(s, p);
    /* The head is rewritten: an exchange needs its fields no more. */
    if (s->state != HTTP_ASKING && s->head.capacity > FIELDS_KEPT)
        head_drop_fields(&s->head);
    if (budget_is_short(&s->worker->budget) && buf_len(&s->in) == 0)
        buf_free(&s->in);
    return s->state != HTTP_EXCHANGE || forward_open(s);
}

/* The last answer is out: the rest is not ours any more. ms: how long the client's own end is
 * waited for. */
static enum step start_linger(struct http_session *s, uint32_t ms)
{
    if (s->client_ended) {
        /* Over TLS a close alone looks like a cut. */
        if (s->inside != NULL && buf_len(&s->out) == 0)
            (void)stream_shutdown(s->client->stream);
        session_abort(s, ERR_NONE, false);
        return STEP_GONE;
    }
    uint32_t upload_ms = session_limits(s)->request_body_ms;
    uint64_t upload = body_is_done(&s->body)           ? 0
                      : s->body.framing == BODY_LENGTH ? s->body.left
                                                       : UINT64_MAX;
    struct buf out = s->out;
    buf_init(&s->out, 0);
    linger_start(session_release(s), &out, ms, upload, upload_ms);
    return STEP_GONE;
}

void session_end(struct http_session *s, enum err why)
{
    uint32_t ms = session_limits(s)->linger_ms;
    request_end(&s->request, s->worker, why);
    buf_clear(&s->out);
    (void)start_linger(s, ms);
}

/* The first request of a terminated tunnel: its time runs from the handshake on. */
static bool first_inside(const struct http_session *s)
{
    return s->inside != NULL && !s->asked;
}

static uint32_t idle_ms(const struct http_session *s)
{
    const struct limits *limits = session_limits(s);
    return first_inside(s) ? limits->first_request_ms : limits->keep_alive_ms;
}

/* An idle connection ends; with close_notify where it is TLS. */
static enum step end_idle(struct http_session *s, enum err why)
{
    if (s->inside != NULL) {
        uint32_t ms = idle_ms(s);
        request_end(&s->request, s->worker, why);
        return start_linger(s, ms);
    }
    session_abort(s, why, false);
    return STEP_GONE;
}

/* A kept connection does not keep the memory of its largest request; with TLS, which holds some by
 * itself, it keeps none. */
static void give_back(const struct http_session *s, struct buf *b)
{
    if (buf_len(b) == 0 && (b->cap > READ_SIZE || s->inside != NULL))
        buf_free(b);
}

/* Some clients end a body with a line end too many: it does not begin a request. */
static void skip_empty_lines(struct http_session *s)
{
    while (s->request.snapshot == NULL && buf_len(&s->in) >= 2 &&
           memcmp(buf_data(&s->in), "\r\n", 2) == 0)
        buf_consume(&s->in, 2);
}

static enum step take_head(struct http_session *s)
{
    const struct limits *limits = session_limits(s);
    skip_empty_lines(s);
    if (buf_len(&s->in) == 0) {
        give_back(s, &s->in);
        if (s->client_ended || s->worker->stopping)
            return end_idle(s, ERR_NONE);
        if (s->timeout_error == ERR_NONE)
            session_timer(s, idle_ms(s), ERR_IDLE_TIMEOUT);
        return STEP_WAIT;
    }
    if (s->request.snapshot == NULL) {
        request_begin(&s->request, s->client, s->inside != NULL ? VIA_HTTPS : VIA_HTTP);
        if (s->inside != NULL)
            request_set_destination(&s->request, s->inside->host.text, s->inside->host.len,
                                    s->inside->port);
        if (!first_inside(s))
            session_timer(s, limits->request_head_ms, ERR_HEAD_TIMEOUT);
    }
    enum head_result result = head_parse_request(&s->head, buf_data(&s->in), buf_len(&s->in),
                                                 &s->scanned, limits->request_head_bytes);
    if (result == HEAD_MORE && !s->client_ended) {
        /* Half heads are the cheapest way to make us hold memory: under pressure only short ones
         * may be slow. */
        if (!budget_is_short(&s->worker->budget) || buf_len(&s->in) <= SHORT_HEAD)
            return STEP_WAIT;
        session_refuse_head(s, ERR_OVERLOADED);
        return STEP_ON;
    }
    if (result == HEAD_MORE && s->inside != NULL) /* and its end: it left in the middle */
        return end_idle(s, ERR_CLIENT_GONE);
    session_timer_stop(s);
    s->scanned = 0;
    s->asked = true;
    /* Inside a tunnel a request without Host is judged by its target first. */
    if (result != HEAD_OK && (result != HEAD_NO_HOST || s->inside == NULL)) {
        session_refuse_head(s, result == HEAD_TOO_LARGE ? ERR_HEAD_TOO_LARGE
                               : result == HEAD_NO_HOST ? ERR_NO_HOST
                                                        : ERR_BAD_REQUEST);
        return STEP_ON;
    }
    body_decoder_init(&s->body, s->head.framing, s->head.content_length, limits->trailer_bytes);
    const uint8_t *head = buf_data(&s->in);
    buf_consume(&s->in, s->head.length);
    return dispatch(s, head) ? STEP_ON : STEP_GONE;
}

/* Drops what is at hand of a refused request's body. */
static enum step drop_body(struct http_session *s)
{
    if (!session_drop_body(s))
        return start_linger(s, session_limits(s)->linger_ms);
    if (body_is_done(&s->body))
        return STEP_ON;
    if (s->client_ended)
        return start_linger(s, session_limits(s)->linger_ms);
    if (s->timeout_error != ERR_BODY_TIMEOUT)
        session_timer(s, session_limits(s)->request_body_ms, ERR_BODY_TIMEOUT);
    return STEP_WAIT;
}

static enum step finish_answer(struct http_session *s)
{
    if (!session_flush(s))
        return STEP_GONE;
    if (buf_len(&s->out) != 0)
        return STEP_WAIT;
    if (s->close_after)
        return start_linger(s, s->inside != NULL && !s->refused ? INSIDE_LINGER_MS
                                                                : session_limits(s)->linger_ms);
    if (!body_is_done(&s->body)) {
        enum step step = drop_body(s);
        if (step != STEP_ON)
            return step;
    }
    session_timer_stop(s);
    body_decoder_free(&s->body);
    give_back(s, &s->out);
    if (s->head.capacity > FIELDS_KEPT)
        head_free(&s->head);
    s->state = HTTP_HEAD;
    return STEP_ON;
}

static int wanted(const struct http_session *s)
{
    int events = buf_len(&s->out) != 0 ? STREAM_WRITE : 0;
    switch (s->state) {
    case HTTP_HEAD:
        return STREAM_READ;
    case HTTP_ASKING:
        return events | (s->connect ? connect_wanted(s) : inquiry_wanted(s));
    case HTTP_OPENING:
        return events | connect_wanted(s);
    case HTTP_EXCHANGE:
        return events | forward_wanted(s);
    case HTTP_ANSWERED:
        /* Without reading, a client that goes away would be noticed only by the timer. */
        if (!s->client_ended && !s->close_after && !body_is_done(&s->body))
            events |= STREAM_READ;
        return events;
    }
    return events;
}

static size_t held(const struct http_session *s)
{
    return s->in.cap + s->out.cap + s->head.capacity * sizeof(struct field) + s->target.cap +
           inquiry_held(s) + forward_held(s);
}

void session_advance(struct http_session *s)
{
    enum step step = STEP_ON;
    while (step == STEP_ON && (s->state == HTTP_HEAD || s->state == HTTP_ANSWERED))
        step = s->state == HTTP_HEAD ? take_head(s) : finish_answer(s);
    if (step == STEP_GONE)
        return;
    stream_want(s->client->stream, wanted(s));
    budget_report(&s->worker->budget, &s->held, held(s));
}

/* Reads into `in`. False when the session is gone. */
static bool read_more(struct http_session *s)
{
    size_t most = budget_read_size(&s->worker->budget, READ_SIZE);
    size_t room = buf_room(&s->in) < most ? buf_room(&s->in) : most;
    if (room == 0)
        return true;
    ssize_t n = stream_read(s->client->stream, buf_reserve(&s->in, room), room);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n < 0) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return false;
    }
    if (n == 0)
        s->client_ended = true;
    else
        buf_commit(&s->in, (size_t)n);
    return true;
}

static bool readable(struct http_session *s)
{
    switch (s->state) {
    case HTTP_HEAD:
    case HTTP_ANSWERED:
        if (!read_more(s))
            return false;
        if (s->state == HTTP_ANSWERED && !body_is_done(&s->body))
            session_timer(s, session_limits(s)->request_body_ms, ERR_BODY_TIMEOUT);
        return true;
    case HTTP_ASKING:
        return s->connect ? connect_readable(s) : inquiry_readable(s);
    case HTTP_OPENING:
        return connect_readable(s);
    case HTTP_EXCHANGE:
        return forward_client_readable(s);
    }
    return true;
}

static void on_client(void *ctx, struct stream *stream, int events)
{
    struct http_session *s = ctx;
    (void)stream;
    if (events & STREAM_GONE) {
        session_abort(s, ERR_CLIENT_GONE, true);
        return;
    }
    if (events & STREAM_WRITE) {
        if (!session_flush(s))
            return;
        if (s->state == HTTP_EXCHANGE && !forward_client_writable(s))
            return;
    }
    if ((events & STREAM_READ) && !readable(s))
        return;
    session_advance(s);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct http_session *s = timer->data;
    enum err why = s->timeout_error;
    (void)loop;
    (void)revents;
    session_timer_stop(s);
    if (s->state == HTTP_HEAD && why == ERR_HEAD_TIMEOUT) {
        session_refuse_head(s, why);
        session_advance(s);
    } else if (s->state == HTTP_ASKING) {
        if (inquiry_timeout(s))
            session_advance(s);
    } else if (s->state == HTTP_EXCHANGE) {
        if (forward_body_timeout(s))
            session_advance(s);
    } else {
        (void)end_idle(s, why);
    }
}

static struct stall_view on_look(void *ctx)
{
    const struct http_session *s = ctx;
    return (struct stall_view){
        .waiting = buf_len(&s->out) != 0,
        .moved = s->sent,
        .unsent = stream_unsent(s->client->stream),
    };
}

static void on_stalled(void *ctx)
{
    session_abort(ctx, ERR_STALLED, true);
}

static void on_stop(struct client *c, bool at_once)
{
    struct http_session *s = c->owner;
    if (at_once)
        session_abort(s, ERR_SHUTDOWN, false);
    else if (s->state == HTTP_HEAD && buf_len(&s->in) == 0 && buf_len(&s->out) == 0)
        (void)end_idle(s, ERR_SHUTDOWN);
}

static void start(struct client *client, struct buf *first, struct inside *inside)
{
    struct http_session *s = mem_alloc(sizeof *s);
    s->inside = inside;
    s->client = client;
    s->worker = client->worker;
    s->snapshot = snapshot_ref(client->worker->snapshot);
    s->state = HTTP_HEAD;
    s->in = *first;
    s->in.max = (size_t)session_limits(s)->request_head_bytes + RELAY_CHUNK +
                session_limits(s)->early_data_bytes;
    /* Own answers, rewritten response heads and one chunk of a body. */
    buf_init(&s->out, 4 * (size_t)session_limits(s)->response_head_bytes + 2 * RELAY_CHUNK);
    buf_init(&s->target, 0);
    approvals_init(&s->approved);
    s->approved.settled = inside != NULL && inside->by_decider;
    head_init(&s->head);
    body_decoder_init(&s->body, BODY_NONE, 0, 0);
    ev_init(&s->timer, on_timer);
    s->timer.data = s;
    if (inside != NULL)
        stall_watch(&s->stall, s->worker->loop, session_limits(s)->request_body_ms, on_look,
                    on_stalled, s);
    client->owner = s;
    client->stop = on_stop;
    stream_set_handler(client->stream, on_client, s);
    session_advance(s);
}

void http_session_start(struct client *client, struct buf *first)
{
    start(client, first, NULL);
}

void http_session_start_inside(struct client *client, struct inside *inside)
{
    struct buf none;
    buf_init(&none, 0);
    start(client, &none, inside);
}
