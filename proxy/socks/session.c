#include "proxy/socks/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/egress/egress.h"
#include "proxy/egress/linger.h"
#include "proxy/egress/request.h"
#include "proxy/egress/tunnel.h"
#include "proxy/socks/handshake.h"
#include "proxy/socks/ssh_refusal.h"

enum socks_state {
    SOCKS_HANDSHAKE, /* greeting, user and password, request; the handshake's timer runs */
    SOCKS_ASKING,    /* a decider is asked; bytes are the tunnel's early data, here and below */
    SOCKS_OPENING    /* allowed, being dialled; bytes are the tunnel's early data */
};

enum { HANDSHAKE_MAX = 1024, READ_SIZE = 16384, REPLIES_MAX = 2048, SSH_PORT = 22 };

struct socks_session {
    struct client *client;
    struct worker *worker;
    struct snapshot *snapshot; /* whose limits hold for this connection */
    enum socks_state state;
    struct socks_handshake handshake;
    struct buf in, out;
    struct request request;
    struct egress *egress;
    size_t held; /* reported to the worker's budget */
    ev_timer timer;
    bool hurried; /* the shorter time of a client without a token runs */
};

static struct client *session_release(struct socks_session *s)
{
    struct client *client = s->client;
    if (s->egress != NULL)
        egress_cancel(s->egress);
    ev_timer_stop(s->worker->loop, &s->timer);
    snapshot_unref(s->snapshot);
    budget_report(&s->worker->budget, &s->held, 0);
    buf_free(&s->in);
    buf_free(&s->out);
    explicit_bzero(&s->handshake, sizeof s->handshake);
    free(s);
    return client;
}

static void session_abort(struct socks_session *s, enum err why)
{
    request_end(&s->request, s->worker, why);
    client_free(session_release(s));
}

/* Sends what is queued, then ends the connection. */
static void session_close(struct socks_session *s, enum err why)
{
    request_end(&s->request, s->worker, why);
    struct buf out = s->out;
    uint32_t ms = s->snapshot->limits.linger_ms;
    buf_init(&s->out, 0);
    linger_start(session_release(s), &out, ms, 0, 0);
}

static void refuse_code(struct socks_session *s, enum err err, uint8_t code, const char *reason)
{
    uint8_t reply[10];
    socks_reply(code, reply);
    buf_append(&s->out, reply, sizeof reply);
    request_refused(&s->request, err, code, reason);
    session_close(s, err);
}

static void refuse(struct socks_session *s, enum err err, const char *reason)
{
    refuse_code(s, err, err_info(err)->socks, reason);
}

static void become_tunnel(struct socks_session *s, struct egress_result *r)
{
    struct request request = s->request;
    struct buf ahead = s->in, answer = s->out;
    uint8_t reply[10];

    memset(&s->request, 0, sizeof s->request);
    buf_init(&s->in, 0);
    buf_init(&s->out, 0);
    request.record.status = 0;
    socks_reply(0, reply);
    buf_append(&answer, reply, sizeof reply);
    tunnel_start(session_release(s), r->stream, ahead, answer, r->early, &request);
}

static void on_egress(void *ctx, struct egress_result *r)
{
    struct socks_session *s = ctx;
    s->egress = NULL;
    if (r->err == ERR_NONE) {
        become_tunnel(s, r);
        return;
    }
    if (r->err == ERR_ADDRESS) {
        struct buf reason;
        buf_init(&reason, 1024);
        request_deny_addresses(&s->request, s->worker, r->denied_classes, &reason);
        refuse(s, ERR_ADDRESS, buf_cstr(&reason));
        buf_free(&reason);
        return;
    }
    refuse_code(s, r->err, err_info(r->err)->socks, r->detail);
}

/* Section 5.4: nothing is dialled; an SSH client at least shows its user why. */
static void refuse_unauthenticated(struct socks_session *s)
{
    const struct socks_handshake *h = &s->handshake;
    struct request *r = &s->request;
    struct decision denied;
    const char *reason = NULL;

    request_set_destination(r, h->host, h->host_len, h->port);
    if (host_canonicalise(h->host, h->host_len, &r->host) != HOST_OK) {
        refuse_code(s, ERR_AUTH, err_info(ERR_POLICY)->socks, POLICY_MALFORMED);
        return;
    }
    if (policy_denied(r->snapshot->policy, &r->host, h->port, &denied)) {
        reason = denied.reason;
        record_set_decision(&r->record, &denied);
        request_violation(r, s->worker, h->host, h->host_len, reason);
    }
    if (h->port != SSH_PORT) {
        refuse_code(s, ERR_AUTH, err_info(ERR_POLICY)->socks, reason);
        return;
    }
    uint8_t reply[10];
    socks_reply(0, reply);
    buf_append(&s->out, reply, sizeof reply);
    ssh_refusal(&s->out, reason);
    request_refused(r, ERR_AUTH, 0, reason);
    session_close(s, ERR_AUTH);
}

/* Sends the replies queued so far. False: the client is gone. */
static bool flush(struct socks_session *s)
{
    if (buf_len(&s->out) == 0)
        return true;
    ssize_t n = stream_write(s->client->stream, buf_data(&s->out), buf_len(&s->out));
    if (n < 0 && !stream_would_block(n, errno)) {
        session_abort(s, ERR_CLIENT_GONE);
        return false;
    }
    if (n > 0)
        buf_consume(&s->out, (size_t)n);
    return true;
}

static int wanted(const struct socks_session *s)
{
    int events = buf_len(&s->out) != 0 ? STREAM_WRITE : 0;
    if (s->state == SOCKS_HANDSHAKE || budget_may_hold(&s->worker->budget, buf_len(&s->in)))
        events |= STREAM_READ;
    return events;
}

/* Reads what has come. False: the client is gone, the session with it. */
static bool read_more(struct socks_session *s)
{
    size_t most = budget_read_size(&s->worker->budget, READ_SIZE);
    size_t room = buf_room(&s->in) < most ? buf_room(&s->in) : most;
    if (room == 0)
        return true;
    /* Mostly there is little or nothing: the scratch costs no memory to find that out. */
    ssize_t n = stream_read(s->client->stream, s->worker->scratch, room);
    if (n < 0 && stream_would_block(n, errno))
        return true;
    if (n <= 0) {
        session_abort(s, ERR_CLIENT_GONE);
        return false;
    }
    buf_append(&s->in, s->worker->scratch, (size_t)n);
    budget_report(&s->worker->budget, &s->held, s->in.cap);
    return true;
}

/* A client that ended its side with its request gets nothing. */
static bool still_there(struct socks_session *s)
{
    size_t before;
    do {
        before = buf_len(&s->in);
        if (!read_more(s))
            return false;
    } while (buf_len(&s->in) != before && budget_may_hold(&s->worker->budget, buf_len(&s->in)));
    return true;
}

static void authorised(struct socks_session *s)
{
    const struct request *r = &s->request;
    s->state = SOCKS_OPENING;
    s->egress =
        egress_start(s->worker, r->snapshot, &r->host, r->port, EGRESS_TUNNEL, on_egress, s);
    stream_want(s->client->stream, wanted(s));
}

static void on_authorisation(void *ctx, enum err err)
{
    struct socks_session *s = ctx;
    if (err == ERR_NONE)
        authorised(s);
    else
        refuse(s, err, err == ERR_POLICY ? s->request.decision.reason : NULL);
}

/* The request is whole: the handshake's time is over, what comes now is for the server. False: the
 * session is gone. */
static bool end_handshake(struct socks_session *s)
{
    if (buf_len(&s->in) > s->snapshot->limits.early_data_bytes) {
        session_abort(s, ERR_EARLY_DATA);
        return false;
    }
    if (!flush(s))
        return false;
    s->in.max = (size_t)s->snapshot->limits.early_data_bytes + 1;
    ev_timer_stop(s->worker->loop, &s->timer);
    return true;
}

static void take_request(struct socks_session *s)
{
    const struct socks_handshake *h = &s->handshake;
    struct request *r = &s->request;

    if (!h->authenticated) {
        refuse_unauthenticated(s);
        return;
    }
    if (!still_there(s))
        return;
    request_set_destination(r, h->host, h->host_len, h->port);
    if (r->snapshot->refuse_opaque_tunnels) {
        request_violation_socks(r, s->worker);
        refuse(s, ERR_OPAQUE_TUNNEL, NULL);
        return;
    }
    if (h->port == 0) {
        refuse_code(s, ERR_BAD_AUTHORITY, err_info(ERR_UPSTREAM_TIMEOUT)->socks, "port 0");
        return;
    }
    switch (
        request_authorise(r, s->worker, NULL, h->host, h->host_len, h->port, on_authorisation, s)) {
    case AUTHORISATION_GIVEN:
        if (end_handshake(s))
            authorised(s);
        break;
    case AUTHORISATION_DENIED:
        refuse(s, ERR_POLICY, r->decision.reason);
        break;
    case AUTHORISATION_AWAITED:
        if (!end_handshake(s))
            break;
        s->state = SOCKS_ASKING;
        stream_want(s->client->stream, wanted(s));
        break;
    case AUTHORISATION_UNKNOWN:
        refuse(s, ERR_DECIDER, NULL);
        break;
    }
}

/* A client without a token has less time from its selected method on (section 5.3). */
static void hurry(struct socks_session *s)
{
    if (s->hurried || !s->handshake.anonymous)
        return;
    s->hurried = true;
    ev_timer_stop(s->worker->loop, &s->timer);
    ev_timer_set(&s->timer, s->snapshot->limits.socks_unauthenticated_ms / 1e3, 0);
    ev_timer_start(s->worker->loop, &s->timer);
}

static void advance(struct socks_session *s)
{
    struct socks_handshake *h = &s->handshake;
    enum socks_step step = SOCKS_MORE;
    while (step == SOCKS_MORE && buf_len(&s->in) != 0) {
        size_t used;
        step = socks_feed(h, buf_data(&s->in), buf_len(&s->in), &used);
        buf_consume(&s->in, used);
        buf_append(&s->out, h->reply, h->reply_len);
        if (step == SOCKS_MORE && used == 0)
            break;
    }
    if (h->user_known && s->request.key == NULL)
        request_set_user(&s->request, h->user, h->user_len);
    if (step == SOCKS_REQUEST) {
        take_request(s);
        return;
    }
    if (step == SOCKS_REFUSED) {
        request_refused(&s->request, h->error, err_info(h->error)->socks, NULL);
        session_close(s, h->error);
        return;
    }
    if (!flush(s))
        return;
    hurry(s);
    stream_want(s->client->stream, wanted(s));
}

static void on_client(void *ctx, struct stream *stream, int events)
{
    struct socks_session *s = ctx;
    if (events & STREAM_GONE) {
        session_abort(s, ERR_CLIENT_GONE);
        return;
    }
    if ((events & STREAM_WRITE) && !flush(s))
        return;
    if ((events & STREAM_READ) && !read_more(s))
        return;
    if (s->state == SOCKS_HANDSHAKE)
        advance(s);
    else if (buf_len(&s->in) > s->snapshot->limits.early_data_bytes)
        session_abort(s, ERR_EARLY_DATA);
    else
        stream_want(stream, wanted(s));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    session_abort(timer->data, ERR_SOCKS_TIMEOUT);
}

static void on_stop(struct client *c, bool at_once)
{
    struct socks_session *s = c->owner;
    if (at_once)
        session_abort(s, ERR_SHUTDOWN);
}

void socks_session_start(struct client *client, struct buf *first)
{
    struct socks_session *s = mem_alloc(sizeof *s);
    s->client = client;
    s->worker = client->worker;
    s->snapshot = snapshot_ref(client->worker->snapshot);
    s->state = SOCKS_HANDSHAKE;
    s->in = *first;
    s->in.max = HANDSHAKE_MAX + (size_t)s->snapshot->limits.early_data_bytes;
    buf_init(&s->out, REPLIES_MAX);
    socks_init(&s->handshake, s->worker->token, s->worker->token_optional);
    request_begin(&s->request, client, VIA_SOCKS5);
    ev_timer_init(&s->timer, on_timer, s->snapshot->limits.socks_handshake_ms / 1e3, 0);
    s->timer.data = s;
    ev_timer_start(s->worker->loop, &s->timer);
    client->owner = s;
    client->stop = on_stop;
    stream_set_handler(client->stream, on_client, s);
    advance(s);
}
