#include "proxy/forwarder.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proxy/acceptor.h"
#include "proxy/net/relay.h"

enum { FAILURE_WARNING_S = 60 };

static const char loopback[] = "127.0.0.1";

struct forwarder {
    struct worker *worker;
    struct acceptor *acceptor;
    struct host host;
    uint16_t port;
    struct passage *passages;
};

/* One connection: `dial` while it is being opened, then `relay`. */
struct passage {
    struct forwarder *forwarder;
    struct client *client;
    struct dial *dial;
    struct relay *relay;
    struct passage *next, **link; /* the forwarder's list */
    uint64_t up, down;            /* nobody asks for them */
};

static void passage_end(struct passage *p)
{
    struct client *client = p->client;
    if (p->dial != NULL)
        dial_cancel(p->dial);
    if (p->relay != NULL)
        relay_cancel(p->relay);
    *p->link = p->next;
    if (p->next != NULL)
        p->next->link = p->link;
    free(p);
    /* Without a relay it got no answer: that must not look like an empty one. */
    stream_reset(&client->stream);
    client_free(client);
}

static void on_relay_done(void *ctx, enum err why)
{
    struct passage *p = ctx;
    (void)why; /* each end has seen it by itself */
    p->relay = NULL;
    passage_end(p);
}

/* Once in a while: a client may try again and again. */
static void warn(const struct forwarder *f, enum err why)
{
    struct worker *w = f->worker;
    if (ev_now(w->loop) < w->next_hop_warning)
        return;
    w->next_hop_warning = ev_now(w->loop) + FAILURE_WARNING_S;
    log_warning("external proxy %s:%u: %s", loopback, (unsigned)f->port, err_info(why)->sentence);
}

static void on_dialled(void *ctx, const struct dial_result *r)
{
    struct passage *p = ctx;
    struct worker *w = p->forwarder->worker;
    p->dial = NULL;
    if (r->err != ERR_NONE) {
        warn(p->forwarder, r->err);
        passage_end(p);
        return;
    }
    struct relay_ends ends = {
        .client = p->client->stream,
        .upstream = stream_plain(w->loop, r->fd),
        .bytes_up = &p->up,
        .bytes_down = &p->down,
        .scratch = w->scratch,
        .budget = &w->budget,
        .pipes = w->pipes,
    };
    p->client->stream = NULL;
    p->relay = relay_start(&ends, on_relay_done, p);
}

static void on_stop(struct client *c, bool at_once)
{
    if (at_once)
        passage_end(c->owner);
}

static bool serve(void *ctx, struct worker *w, int fd, const struct sockaddr *peer)
{
    struct forwarder *f = ctx;
    struct client *client = client_new(w, fd, peer);
    if (client == NULL)
        return false;
    struct passage *p = mem_alloc(sizeof *p);
    p->forwarder = f;
    p->client = client;
    p->next = f->passages;
    if (p->next != NULL)
        p->next->link = &p->next;
    p->link = &f->passages;
    f->passages = p;
    client->owner = p;
    client->stop = on_stop;
    p->dial = dial_start(&w->dialer, NULL, &f->host, f->port, on_dialled, p);
    return true;
}

struct forwarder *forwarder_new(struct worker *w, int fd, uint16_t port)
{
    struct listener *listener = listener_adopt(fd);
    if (listener == NULL)
        return NULL;
    struct forwarder *f = mem_alloc(sizeof *f);
    f->worker = w;
    f->port = port;
    host_canonicalise(loopback, strlen(loopback), &f->host);
    f->acceptor = acceptor_new_for(w, listener, serve, f);
    return f;
}

void forwarder_free(struct forwarder *f)
{
    if (f == NULL)
        return;
    acceptor_free(f->acceptor);
    for (struct passage *p = f->passages, *next; p != NULL; p = next) {
        next = p->next;
        passage_end(p);
    }
    free(f);
}
