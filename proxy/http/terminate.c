#include "proxy/http/terminate.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/egress/egress.h"
#include "proxy/egress/tunnel.h"
#include "proxy/http/session.h"
#include "proxy/http/target.h"
#include "proxy/policy/pattern.h"
#include "proxy/tls/accept.h"

enum state {
    SNIFFING,      /* the client's first bytes are awaited */
    SERVER_FIRST,  /* it is silent: the server is dialled, whoever speaks first decides */
    READING_HELLO, /* TLS; bytes of the ClientHello */
    SHAKING_HANDS, /* the socket is OpenSSL's */
    DIALLING       /* not TLS: the opaque tunnel's server is dialled */
};

enum { READ_SIZE = 4096 };

struct terminate {
    struct client *client;
    struct worker *worker;
    enum state state;
    struct request request; /* the CONNECT */
    struct buf first;       /* from the client, not yet used */
    struct buf out;         /* the 200 */
    struct buf early;       /* from the server that was dialled */
    struct client_hello hello;
    struct tls_accept *accept;
    struct egress *egress;
    struct stream *upstream;
    size_t held;       /* reported to the worker's budget */
    ev_timer deadline; /* of the handshake, from the 200 on */
    ev_timer patience; /* with a silent client, or with half a ClientHello */
};

static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";
static const char no_tls[] = "tunnel carries no TLS and cannot be inspected";

void inside_free(struct inside *inside)
{
    if (inside == NULL)
        return;
    free(inside->server_name);
    free(inside->key);
    free(inside);
}

bool terminate_applies(const struct worker *w, const struct snapshot *s, const struct host *host)
{
    if (w->tls_server == NULL || !s->tls_terminate)
        return false;
    if (s->proxy_only)
        return true;
    if (s->tls_exclude != NULL && pattern_list_match(s->tls_exclude, host, 0) >= 0)
        return false;
    return s->tls_only == NULL || pattern_list_match(s->tls_only, host, 0) >= 0;
}

bool terminate_is_full(const struct worker *w, const struct snapshot *s)
{
    return w->terminated >= s->tls_max_tunnels;
}

void terminate_note_full(struct worker *w, struct request *r)
{
    uint32_t most = r->snapshot->tls_max_tunnels;
    const char *key = r->key != NULL ? r->key : "";
    struct buf url, why;

    for (size_t i = 0; i < w->full_told_count; i++)
        if (strcmp(w->full_told[i], key) == 0)
            return;
    if (w->full_told_count == FULL_TOLD_MAX)
        worker_forget_told(w);
    w->full_told[w->full_told_count++] = mem_dup(key);
    buf_init(&url, HOST_MAX + 16);
    buf_init(&why, 256);
    authority_format(&url, &r->host, r->port, 0);
    buf_printf(&why,
               "the sandbox's limit of %u TLS-terminated tunnels at once is reached; the limit is "
               "network.tlsTerminate.maxTunnels in the sandbox's configuration",
               (unsigned)most);
    request_violation_http(r, w, "CONNECT", strlen("CONNECT"), buf_cstr(&url), buf_cstr(&why));
    buf_free(&url);
    buf_free(&why);
}

static void report_held(struct terminate *t)
{
    budget_report(&t->worker->budget, &t->held, t->first.cap + t->out.cap + t->early.cap);
}

/* Lets go of everything but the client and the request. */
static void forget(struct terminate *t)
{
    budget_report(&t->worker->budget, &t->held, 0);
    ev_timer_stop(t->worker->loop, &t->deadline);
    ev_timer_stop(t->worker->loop, &t->patience);
    if (t->accept != NULL)
        tls_accept_cancel(t->accept);
    if (t->egress != NULL)
        egress_cancel(t->egress);
    stream_close(&t->upstream);
    buf_free(&t->first);
    buf_free(&t->out);
    buf_free(&t->early);
    free(t);
}

static void end(struct terminate *t, enum err why)
{
    struct client *client = t->client;
    request_end(&t->request, t->worker, why);
    forget(t);
    client_free(client);
}

/* Refused after its 200: nothing more can be said to the client. */
static void end_refused(struct terminate *t, const char *why)
{
    struct request *r = &t->request;
    struct buf url;
    buf_init(&url, HOST_MAX + 16);
    authority_format(&url, &r->host, r->port, 0);
    request_violation_http(r, t->worker, "CONNECT", strlen("CONNECT"), buf_cstr(&url), why);
    buf_free(&url);
    request_refused(r, ERR_OPAQUE_TUNNEL, 200, why);
    end(t, ERR_OPAQUE_TUNNEL);
}

/* --- an opaque tunnel after all ------------------------------------------------------------ */

static void become_tunnel(struct terminate *t)
{
    struct client *client = t->client;
    struct stream *upstream = t->upstream;
    struct buf ahead = t->first, answer = t->out, early = t->early;
    struct request request = t->request;

    request.record.status = 200;
    t->upstream = NULL;
    buf_init(&t->first, 0);
    buf_init(&t->out, 0);
    buf_init(&t->early, 0);
    forget(t);
    tunnel_start(client, upstream, ahead, answer, early, &request);
}

static void on_upstream(void *ctx, struct stream *stream, int events)
{
    struct terminate *t = ctx;
    (void)stream;
    (void)events;
    /* It speaks first, or is gone: the tunnel passes on either. */
    become_tunnel(t);
}

/* After the 200 no failure can be told but by closing. */
static void end_without_upstream(struct terminate *t, const struct egress_result *r)
{
    struct buf reason;
    buf_init(&reason, 1024);
    if (r->err == ERR_ADDRESS)
        request_deny_addresses(&t->request, t->worker, r->denied_classes, &reason);
    request_refused(&t->request, r->err, 200,
                    buf_len(&reason) != 0 ? buf_cstr(&reason) : r->detail);
    buf_free(&reason);
    end(t, r->err);
}

static void on_egress(void *ctx, struct egress_result *r)
{
    struct terminate *t = ctx;
    t->egress = NULL;
    if (r->err != ERR_NONE) {
        if (t->state == SERVER_FIRST)
            /* The client may still speak TLS, and be told by its answer. */
            t->state = SNIFFING;
        else
            end_without_upstream(t, r);
        return;
    }
    t->upstream = r->stream;
    t->early = r->early;
    if (t->state == DIALLING || buf_len(&t->early) != 0) {
        become_tunnel(t);
        return;
    }
    stream_set_handler(t->upstream, on_upstream, t);
    stream_want(t->upstream, STREAM_READ);
}

static void dial(struct terminate *t)
{
    const struct request *r = &t->request;
    t->egress =
        egress_start(t->worker, r->snapshot, &r->host, r->port, EGRESS_TUNNEL, on_egress, t);
}

/* The client speaks, and not TLS. t may be gone afterwards. */
static void go_opaque(struct terminate *t)
{
    if (t->request.snapshot->refuse_opaque_tunnels) {
        end_refused(t, no_tls);
        return;
    }
    ev_timer_stop(t->worker->loop, &t->deadline);
    ev_timer_stop(t->worker->loop, &t->patience);
    if (t->upstream != NULL) {
        become_tunnel(t);
        return;
    }
    t->state = DIALLING;
    stream_want(t->client->stream, buf_len(&t->out) != 0 ? STREAM_WRITE : 0);
    if (t->egress == NULL)
        dial(t);
}

/* --- TLS ----------------------------------------------------------------------------------- */

static struct inside *inside_of(const struct terminate *t)
{
    struct inside *in = mem_alloc(sizeof *in);
    in->host = t->request.host;
    in->port = t->request.port;
    in->by_decider = t->request.by_decider;
    in->name_state = t->hello.state;
    if (t->hello.state == HELLO_NAME)
        in->server_name = mem_dup_n(t->hello.name, t->hello.name_len);
    if (t->request.key != NULL)
        in->key = mem_dup(t->request.key);
    return in;
}

static void on_accepted(void *ctx, struct stream *stream, const char *detail)
{
    struct terminate *t = ctx;
    struct client *client = t->client;

    t->accept = NULL;
    if (stream == NULL) {
        request_refused(&t->request, ERR_CLIENT_TLS, 200, detail);
        end(t, ERR_CLIENT_TLS);
        return;
    }
    struct inside *in = inside_of(t);
    client->stream = stream;
    t->request.record.status = 200;
    request_end(&t->request, t->worker, ERR_NONE);
    forget(t);
    http_session_start_inside(client, in);
}

/* The ClientHello is here, or all of it that will come. */
static void shake_hands(struct terminate *t)
{
    const struct request *r = &t->request;
    int fd;

    client_hello_read(buf_data(&t->first), buf_len(&t->first), &t->hello);
    const char *name = r->host.text;
    if (t->hello.state == HELLO_NAME && !r->snapshot->require_host_match)
        name = t->hello.name;
    ev_timer_stop(t->worker->loop, &t->patience);
    fd = stream_release(t->client->stream);
    t->client->stream = NULL;
    t->state = SHAKING_HANDS;
    budget_report(&t->worker->budget, &t->held, 0);
    t->accept = tls_accept_start(t->worker->tls_server, t->worker->loop, fd, &t->first, &t->hello,
                                 name, on_accepted, t);
}

/* False: t is gone. */
static bool begin_tls(struct terminate *t)
{
    struct worker *w = t->worker;
    if (t->egress != NULL)
        egress_cancel(t->egress);
    t->egress = NULL;
    stream_close(&t->upstream);
    if (terminate_is_full(w, t->request.snapshot)) {
        terminate_note_full(w, &t->request);
        request_refused(&t->request, ERR_TUNNELS, 200, NULL);
        end(t, ERR_TUNNELS);
        return false;
    }
    worker_tunnel_terminated(w, t->client);
    t->state = READING_HELLO;
    ev_timer_stop(w->loop, &t->patience);
    ev_timer_set(&t->patience, t->request.snapshot->limits.client_hello_ms / 1e3, 0);
    ev_timer_start(w->loop, &t->patience);
    return true;
}

/* --- the client's bytes -------------------------------------------------------------------- */

/* False: t is gone. */
static bool flush(struct terminate *t)
{
    if (buf_len(&t->out) == 0)
        return true;
    ssize_t n = stream_write(t->client->stream, buf_data(&t->out), buf_len(&t->out));
    if (n < 0 && !stream_would_block(n, errno)) {
        end(t, ERR_CLIENT_GONE);
        return false;
    }
    if (n > 0)
        buf_consume(&t->out, (size_t)n);
    return true;
}

/* Goes on with what is here. `ended`: no more will come. t may be gone afterwards. */
static void advance(struct terminate *t, bool ended)
{
    if (t->state == SNIFFING || t->state == SERVER_FIRST) {
        switch (hello_sniff(buf_data(&t->first), buf_len(&t->first))) {
        case SNIFF_MORE:
            if (ended)
                end(t, ERR_CLIENT_GONE);
            return;
        case SNIFF_NOT_TLS:
            go_opaque(t);
            return;
        case SNIFF_TLS:
            if (!begin_tls(t))
                return;
            break;
        }
    }
    if (t->state != READING_HELLO || buf_len(&t->out) != 0)
        return;
    if (ended || buf_room(&t->first) == 0 ||
        hello_complete(buf_data(&t->first), buf_len(&t->first)))
        shake_hands(t);
}

static int wanted(const struct terminate *t)
{
    bool reading = t->state != DIALLING && buf_room(&t->first) != 0;
    return (buf_len(&t->out) != 0 ? STREAM_WRITE : 0) | (reading ? STREAM_READ : 0);
}

static void on_client(void *ctx, struct stream *stream, int events)
{
    struct terminate *t = ctx;
    bool ended = false;

    if ((events & STREAM_GONE) != 0) {
        end(t, ERR_CLIENT_GONE);
        return;
    }
    if ((events & STREAM_WRITE) != 0 && !flush(t))
        return;
    if ((events & STREAM_READ) != 0) {
        size_t room = buf_room(&t->first) < READ_SIZE ? buf_room(&t->first) : READ_SIZE;
        ssize_t n = room != 0 ? stream_read(stream, buf_reserve(&t->first, room), room) : -1;
        if (room != 0 && n < 0 && !stream_would_block(n, errno)) {
            end(t, ERR_CLIENT_GONE);
            return;
        }
        if (n > 0)
            buf_commit(&t->first, (size_t)n);
        ended = n == 0;
    }
    stream_want(stream, wanted(t));
    report_held(t);
    advance(t, ended);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    end(timer->data, ERR_CLIENT_TLS_TIMEOUT);
}

static void on_patience(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct terminate *t = timer->data;
    (void)loop;
    (void)revents;
    if (t->state == READING_HELLO) {
        advance(t, true);
    } else if (t->state == SNIFFING && buf_len(&t->first) == 0) {
        t->state = SERVER_FIRST;
        dial(t);
    }
}

static void on_stop(struct client *c, bool at_once)
{
    if (at_once)
        end(c->owner, ERR_SHUTDOWN);
}

void terminate_start(struct client *client, struct buf *ahead, struct request *request)
{
    struct terminate *t = mem_alloc(sizeof *t);
    const struct snapshot *s = request->snapshot;

    t->client = client;
    t->worker = client->worker;
    t->request = *request;
    memset(request, 0, sizeof *request);
    t->first = *ahead;
    buf_init(ahead, 0);
    t->first.max = s->limits.early_data_bytes > HELLO_MAX ? s->limits.early_data_bytes : HELLO_MAX;
    buf_init(&t->out, sizeof established);
    buf_puts(&t->out, established);
    ev_timer_init(&t->deadline, on_deadline, s->tls_handshake_ms / 1e3, 0);
    ev_timer_init(&t->patience, on_patience, s->limits.server_first_ms / 1e3, 0);
    t->deadline.data = t->patience.data = t;
    ev_timer_start(t->worker->loop, &t->deadline);
    if (!s->refuse_opaque_tunnels)
        ev_timer_start(t->worker->loop, &t->patience);
    client->owner = t;
    client->stop = on_stop;
    stream_set_handler(client->stream, on_client, t);
    if (!flush(t))
        return;
    stream_want(client->stream, wanted(t));
    report_held(t);
    advance(t, false);
}
