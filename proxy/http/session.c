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
    if (s->egress != NULL)
        egress_cancel(s->egress);
    session_timer_stop(s);
    budget_report(&s->worker->budget, &s->held, 0);
    buf_free(&s->in);
    buf_free(&s->out);
    head_free(&s->head);
    body_decoder_free(&s->body);
    snapshot_unref(s->snapshot);
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
        if (s->state == HTTP_EXCHANGE)
            s->request.record.bytes_down += (uint64_t)n;
    }
    return true;
}

/* Drops what is at hand of the request's body. False: it is malformed. */
static bool drop_buffered(struct http_session *s)
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
static bool body_is_droppable(struct http_session *s)
{
    if (!drop_buffered(s))
        return false;
    return body_is_done(&s->body) || (s->body.framing == BODY_LENGTH && !s->head.expect_continue &&
                                      s->body.left <= session_limits(s)->refused_body_bytes);
}

void session_refuse(struct http_session *s, enum err err, const struct refusal *how)
{
    const struct limits *limits = session_limits(s);
    bool close = how->close || s->close_after || s->worker->stopping;
    if (s->connect)
        close = err != ERR_AUTH || how->close || s->close_after;
    else if (!body_is_droppable(s) || (s->client_ended && buf_len(&s->in) == 0))
        close = true;
    if (err == ERR_AUTH && ++s->auth_failures >= limits->auth_failures)
        close = true;
    struct answer answer = {
        .err = err,
        .connect = s->connect,
        .head_method = s->head_method,
        .close = close,
        .keep_alive_s = keep_alive_seconds(limits),
        .date = worker_date(s->worker),
        .reason = how->reason,
        .body = how->body,
        .second_line = how->second_line,
    };
    respond(&s->out, &answer);
    request_refused(&s->request, err, err_info(err)->status,
                    how->reason != NULL ? how->reason : how->detail);
    request_end(&s->request, s->worker, err);
    s->close_after = close;
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
                   &(struct refusal){.reason = r->decision.reason, .second_line = buf_cstr(&line)});
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

/* A head that cannot be answered but with an error and the end of the connection. */
static void refuse_head(struct http_session *s, enum err err)
{
    struct buf body;
    buf_init(&body, 128);
    struct refusal how = {.close = true};
    if (err == ERR_HEAD_TOO_LARGE) {
        buf_printf(&body, "request head larger than %u bytes",
                   (unsigned)session_limits(s)->request_head_bytes);
        how.body = buf_cstr(&body);
    }
    s->connect = s->head_method = false;
    buf_clear(&s->in);
    session_refuse(s, err, &how);
    buf_free(&body);
}

/* p: the bytes of the head, used up but not yet overwritten. False: the session is gone. */
static bool dispatch(struct http_session *s, const uint8_t *p)
{
    s->connect = head_method_is(&s->head, p, "CONNECT");
    s->head_method = head_method_is(&s->head, p, "HEAD");
    s->close_after = s->head.connection_close || (s->head.minor == 0 && !s->connect);
    if (s->head.expect_other && !s->connect) {
        session_refuse(s, ERR_EXPECTATION, &(struct refusal){.close = true});
        return true;
    }
    if (!authenticate(s->worker, &s->head, p, &s->request)) {
        session_refuse(s, ERR_AUTH, &(struct refusal){0});
        return true;
    }
    if (s->connect)
        return connect_begin(s, p);
    forward_begin(s, p);
    /* The head is rewritten: an exchange needs its fields no more. */
    if (s->head.capacity > FIELDS_KEPT)
        head_drop_fields(&s->head);
    if (budget_is_short(&s->worker->budget) && buf_len(&s->in) == 0)
        buf_free(&s->in);
    return s->state != HTTP_EXCHANGE || forward_open(s);
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
        if (s->client_ended || s->worker->stopping) {
            session_abort(s, ERR_NONE, false);
            return STEP_GONE;
        }
        if (s->timeout_error != ERR_IDLE_TIMEOUT)
            session_timer(s, limits->keep_alive_ms, ERR_IDLE_TIMEOUT);
        return STEP_WAIT;
    }
    if (s->request.snapshot == NULL) {
        request_begin(&s->request, s->client, VIA_HTTP);
        session_timer(s, limits->request_head_ms, ERR_HEAD_TIMEOUT);
    }
    enum head_result result = head_parse_request(&s->head, buf_data(&s->in), buf_len(&s->in),
                                                 &s->scanned, limits->request_head_bytes);
    if (result == HEAD_MORE && !s->client_ended) {
        /* Half heads are the cheapest way to make us hold memory: under pressure only short ones
         * may be slow. */
        if (!budget_is_short(&s->worker->budget) || buf_len(&s->in) <= SHORT_HEAD)
            return STEP_WAIT;
        body_decoder_init(&s->body, BODY_NONE, 0, 0);
        refuse_head(s, ERR_OVERLOADED);
        return STEP_ON;
    }
    session_timer_stop(s);
    s->scanned = 0;
    if (result != HEAD_OK) {
        body_decoder_init(&s->body, BODY_NONE, 0, 0);
        refuse_head(s, result == HEAD_TOO_LARGE ? ERR_HEAD_TOO_LARGE
                       : result == HEAD_NO_HOST ? ERR_NO_HOST
                                                : ERR_BAD_REQUEST);
        return STEP_ON;
    }
    body_decoder_init(&s->body, s->head.framing, s->head.content_length, limits->trailer_bytes);
    const uint8_t *head = buf_data(&s->in);
    buf_consume(&s->in, s->head.length);
    return dispatch(s, head) ? STEP_ON : STEP_GONE;
}

/* The last answer is out: the rest is not ours any more. */
static enum step start_linger(struct http_session *s)
{
    if (s->client_ended) {
        session_abort(s, ERR_NONE, false);
        return STEP_GONE;
    }
    uint32_t ms = session_limits(s)->linger_ms;
    uint32_t upload_ms = session_limits(s)->request_body_ms;
    uint64_t upload = body_is_done(&s->body)           ? 0
                      : s->body.framing == BODY_LENGTH ? s->body.left
                                                       : UINT64_MAX;
    struct buf out = s->out;
    buf_init(&s->out, 0);
    linger_start(session_release(s), &out, ms, upload, upload_ms);
    return STEP_GONE;
}

/* Drops what is at hand of a refused request's body. */
static enum step drop_body(struct http_session *s)
{
    if (!drop_buffered(s))
        return start_linger(s);
    if (body_is_done(&s->body))
        return STEP_ON;
    if (s->client_ended)
        return start_linger(s);
    if (s->timeout_error != ERR_BODY_TIMEOUT)
        session_timer(s, session_limits(s)->request_body_ms, ERR_BODY_TIMEOUT);
    return STEP_WAIT;
}

/* A kept connection does not keep the memory of its largest request. */
static void give_back(struct buf *b)
{
    if (buf_len(b) == 0 && b->cap > READ_SIZE)
        buf_free(b);
}

static enum step finish_answer(struct http_session *s)
{
    if (!session_flush(s))
        return STEP_GONE;
    if (buf_len(&s->out) != 0)
        return STEP_WAIT;
    if (s->close_after)
        return start_linger(s);
    if (!body_is_done(&s->body)) {
        enum step step = drop_body(s);
        if (step != STEP_ON)
            return step;
    }
    session_timer_stop(s);
    body_decoder_free(&s->body);
    give_back(&s->out);
    give_back(&s->in);
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
    return s->in.cap + s->out.cap + s->head.capacity * sizeof(struct field) + forward_held(s);
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
        body_decoder_init(&s->body, BODY_NONE, 0, 0);
        refuse_head(s, why);
        session_advance(s);
    } else if (s->state == HTTP_EXCHANGE) {
        if (forward_body_timeout(s))
            session_advance(s);
    } else {
        session_abort(s, why, false);
    }
}

static void on_stop(struct client *c, bool at_once)
{
    struct http_session *s = c->owner;
    if (at_once || (s->state == HTTP_HEAD && buf_len(&s->in) == 0 && buf_len(&s->out) == 0))
        session_abort(s, ERR_SHUTDOWN, false);
}

void http_session_start(struct client *client, struct buf *first)
{
    struct http_session *s = mem_alloc(sizeof *s);
    s->client = client;
    s->worker = client->worker;
    s->snapshot = snapshot_ref(client->worker->snapshot);
    s->state = HTTP_HEAD;
    s->in = *first;
    s->in.max = (size_t)session_limits(s)->request_head_bytes + RELAY_CHUNK +
                session_limits(s)->early_data_bytes;
    /* Own answers, rewritten response heads and one chunk of a body. */
    buf_init(&s->out, 4 * (size_t)session_limits(s)->response_head_bytes + 2 * RELAY_CHUNK);
    head_init(&s->head);
    ev_init(&s->timer, on_timer);
    s->timer.data = s;
    client->owner = s;
    client->stop = on_stop;
    stream_set_handler(client->stream, on_client, s);
    session_advance(s);
}
