#include "proxy/acceptor.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "proxy/http/session.h"
#include "proxy/socks/session.h"

struct acceptor {
    struct worker *worker;
    struct listener *listener;
    ev_io io;
    ev_timer pause; /* after EMFILE and the like */
    bool warned;    /* once a shortage */
};

enum { FIRST_READ = 4096 };

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
    if (w->scratch[0] == 4 || w->scratch[0] == 5)
        socks_session_start(client, &first);
    else
        http_session_start(client, &first);
}

static void on_sniff_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    client_free(sniff_release(timer->data));
}

static void on_sniff_stop(struct client *c, bool at_once)
{
    (void)at_once;
    client_free(sniff_release(c->owner));
}

void acceptor_serve(struct worker *w, int fd, const struct sockaddr *peer)
{
    struct sniff *s = mem_alloc(sizeof *s);
    s->client = client_new(w, fd, peer);
    s->client->owner = s;
    s->client->stop = on_sniff_stop;
    ev_timer_init(&s->timer, on_sniff_timer, w->snapshot->limits.first_byte_ms / 1e3, 0);
    s->timer.data = s;
    ev_timer_start(w->loop, &s->timer);
    stream_set_handler(s->client->stream, on_first_byte, s);
    stream_want(s->client->stream, STREAM_READ);
}

static bool is_shortage(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

static void rest(struct acceptor *a, int number)
{
    if (!a->warned)
        log_warning("%s: accepting pauses: %s", a->listener->address,
                    number == EMFILE || number == ENFILE ? "out of file descriptors"
                                                         : "out of memory");
    a->warned = true;
    ev_io_stop(a->worker->loop, &a->io);
    ev_timer_set(&a->pause, a->worker->snapshot->limits.accept_pause_ms / 1e3, 0);
    ev_timer_start(a->worker->loop, &a->pause);
}

static void on_acceptable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct acceptor *a = io->data;
    (void)loop;
    (void)revents;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage peer;
        int fd = listener_accept(a->listener, &peer);
        if (fd < 0) {
            if (is_shortage(errno))
                rest(a, errno);
            else
                a->warned = false;
            return;
        }
        acceptor_serve(a->worker, fd, (struct sockaddr *)&peer);
    }
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct acceptor *a = timer->data;
    (void)revents;
    ev_io_start(loop, &a->io);
}

struct acceptor *acceptor_new(struct worker *w, struct listener *listener)
{
    struct acceptor *a = mem_alloc(sizeof *a);
    a->worker = w;
    a->listener = listener;
    ev_io_init(&a->io, on_acceptable, listener->fd, EV_READ);
    a->io.data = a;
    ev_init(&a->pause, on_pause_over);
    a->pause.data = a;
    ev_io_start(w->loop, &a->io);
    return a;
}

void acceptor_free(struct acceptor *a)
{
    ev_io_stop(a->worker->loop, &a->io);
    ev_timer_stop(a->worker->loop, &a->pause);
    listener_close(&a->listener);
    free(a);
}
