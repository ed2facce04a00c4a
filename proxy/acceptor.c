#include "proxy/acceptor.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "proxy/egress/pool.h"
#include "proxy/http/session.h"
#include "proxy/socks/session.h"

struct acceptor {
    struct worker *worker;
    struct listener *listener;
    acceptor_service *serve;
    void *ctx;
    struct acceptor *next, **link; /* the worker's list */
    ev_io io;
    ev_timer pause; /* after EMFILE and the like */
    bool warned;    /* once a shortage */
    int batch; /* connections to take at the next wake-up: as many as there lately were, so that a
                * lone one costs no call that finds nothing */
    bool full; /* it rests at the limit of connections */
    ev_tstamp crowded; /* when a client with too many connections may be warned of again */
};

enum { FIRST_READ = 4096, CROWDED_WARNING_S = 60 };

/* A client whose first byte has not come yet. */
struct sniff {
    struct client *client;
    ev_timer timer;
};

static struct client *sniff_release(struct sniff *s)
{
    struct client *client = s->client;
    ev_timer_stop(client->worker->loop, &s->timer);
    free(s);
    return client;
}

static void on_first_byte(void *ctx, struct stream *stream, int events)
{
    struct sniff *s = ctx;
    struct worker *w = s->client->worker;
    (void)events;
    ssize_t n = stream_read(stream, w->scratch, FIRST_READ);
    if (stream_would_block(n, errno))
        return;
    struct client *client = sniff_release(s);
    if (n <= 0) {
        client_free(client);
        return;
    }
    struct buf first;
    buf_init(&first, FIRST_READ);
    buf_append(&first, w->scratch, (size_t)n);
    if (!w->snapshot->proxy_only && (w->scratch[0] == 4 || w->scratch[0] == 5))
        socks_session_start(client, &first);
    else
        http_session_start(client, &first);
}

static void on_sniff_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    log_debug("%s", err_info(ERR_FIRST_BYTE_TIMEOUT)->sentence);
    client_free(sniff_release(timer->data));
}

static void on_sniff_stop(struct client *c, bool at_once)
{
    (void)at_once;
    client_free(sniff_release(c->owner));
}

bool acceptor_serve(struct worker *w, int fd, const struct sockaddr *peer)
{
    struct client *client = client_new(w, fd, peer);
    if (client == NULL)
        return false;
    struct sniff *s = mem_alloc(sizeof *s);
    s->client = client;
    s->client->owner = s;
    s->client->stop = on_sniff_stop;
    ev_timer_init(&s->timer, on_sniff_timer, w->snapshot->limits.first_byte_ms / 1e3, 0);
    s->timer.data = s;
    ev_timer_start(w->loop, &s->timer);
    stream_set_handler(s->client->stream, on_first_byte, s);
    stream_want(s->client->stream, STREAM_READ);
    return true;
}

static bool is_shortage(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

/* One warning a shortage. */
static void rest(struct acceptor *a, const char *why)
{
    if (!a->warned)
        log_warning("%s: accepting pauses: %s", a->listener->address, why);
    a->warned = true;
    ev_io_stop(a->worker->loop, &a->io);
}

static void rest_a_while(struct acceptor *a, int number)
{
    pool_clear(a->worker->pool);
    rest(a, number == EMFILE || number == ENFILE ? "out of file descriptors" : "out of memory");
    ev_timer_set(&a->pause, a->worker->snapshot->limits.accept_pause_ms / 1e3, 0);
    ev_timer_start(a->worker->loop, &a->pause);
}

/* A client with too many connections: one warning a minute, whoever it is. */
static void crowd(struct acceptor *a, const struct sockaddr *peer)
{
    char text[ADDRESS_TEXT_MAX];
    struct address address;
    uint16_t port;
    ev_tstamp now = ev_now(a->worker->loop);
    if (now < a->crowded || !address_from_sockaddr(peer, &address, &port))
        return;
    a->crowded = now + CROWDED_WARNING_S;
    address_format(&address, text);
    log_warning("%s: client %s has as many connections as proxy.limits.connectionsPerClient allows",
                a->listener->address, text);
}

static void on_acceptable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct acceptor *a = io->data;
    (void)loop;
    (void)revents;
    for (int i = 0; i < a->batch; i++) {
        struct sockaddr_storage peer;
        if (a->worker->client_count >= a->worker->snapshot->limits.connections) {
            a->full = true;
            rest(a, "as many connections as proxy.limits.connections allows");
            return;
        }
        int fd = listener_accept(a->listener, &peer);
        if (fd < 0) {
            if (is_shortage(errno))
                rest_a_while(a, errno);
            else
                a->warned = false;
            a->batch = i > 1 ? i : 1;
            return;
        }
        if (!a->serve(a->ctx, a->worker, fd, (struct sockaddr *)&peer))
            crowd(a, (struct sockaddr *)&peer);
    }
    a->batch = a->batch * 2 < ACCEPT_BATCH ? a->batch * 2 : ACCEPT_BATCH;
}

void acceptors_resume(struct worker *w)
{
    for (struct acceptor *a = w->acceptors; a != NULL; a = a->next) {
        if (!a->full)
            continue;
        a->full = false;
        ev_io_start(w->loop, &a->io);
    }
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct acceptor *a = timer->data;
    (void)revents;
    ev_io_start(loop, &a->io);
}

struct acceptor *acceptor_new_for(struct worker *w, struct listener *listener,
                                  acceptor_service *serve, void *ctx)
{
    struct acceptor *a = mem_alloc(sizeof *a);
    a->worker = w;
    a->listener = listener;
    a->serve = serve;
    a->ctx = ctx;
    a->next = w->acceptors;
    if (a->next != NULL)
        a->next->link = &a->next;
    a->link = &w->acceptors;
    w->acceptors = a;
    a->batch = 1;
    ev_io_init(&a->io, on_acceptable, listener->fd, EV_READ);
    a->io.data = a;
    ev_init(&a->pause, on_pause_over);
    a->pause.data = a;
    ev_io_start(w->loop, &a->io);
    return a;
}

static bool serve_by_first_byte(void *ctx, struct worker *w, int fd, const struct sockaddr *peer)
{
    (void)ctx;
    return acceptor_serve(w, fd, peer);
}

struct acceptor *acceptor_new(struct worker *w, struct listener *listener)
{
    return acceptor_new_for(w, listener, serve_by_first_byte, NULL);
}

void acceptor_free(struct acceptor *a)
{
    if (a == NULL)
        return;
    *a->link = a->next;
    if (a->next != NULL)
        a->next->link = a->link;
    ev_io_stop(a->worker->loop, &a->io);
    ev_timer_stop(a->worker->loop, &a->pause);
    listener_close(&a->listener);
    free(a);
}
