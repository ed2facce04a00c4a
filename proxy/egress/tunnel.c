#include "proxy/egress/tunnel.h"

#include <stdlib.h>

#include "base/mem.h"
#include "proxy/egress/stall.h"
#include "proxy/net/relay.h"

struct tunnel {
    struct client *client;
    struct stall *stall; /* of one that is terminated, NULL of others */
    struct relay *relay;
    struct snapshot *snapshot; /* the record's rule lives in it */
    struct record record;
};

static void tunnel_end(struct tunnel *t, enum err why)
{
    struct client *client = t->client;
    if (t->stall != NULL)
        stall_stop(t->stall, client->worker->loop);
    free(t->stall);
    record_finish(&t->record, client->worker->log, why, ev_now(client->worker->loop));
    snapshot_unref(t->snapshot);
    free(t);
    client_free(client);
}

static void on_relay_done(void *ctx, enum err why)
{
    struct tunnel *t = ctx;
    t->relay = NULL;
    tunnel_end(t, why);
}

/* A tunnel has no moment at which nothing is in progress: it goes on until the deadline. */
static void on_stop(struct client *c, bool at_once)
{
    struct tunnel *t = c->owner;
    if (!at_once)
        return;
    relay_cancel(t->relay);
    tunnel_end(t, ERR_SHUTDOWN);
}

static struct stall_view on_look(void *ctx)
{
    const struct tunnel *t = ctx;
    return (struct stall_view){
        .waiting = relay_is_blocked(t->relay),
        .moved = t->record.bytes_up + t->record.bytes_down,
        .unsent = relay_unsent(t->relay),
    };
}

static void on_stalled(void *ctx)
{
    struct tunnel *t = ctx;
    relay_cancel(t->relay);
    tunnel_end(t, ERR_STALLED);
}

/* Our answer is on its way before anything else is set up. What is left of it, and what the
 * upstream has sent, are the first bytes of the relay. */
static struct buf first_for_client(struct stream *client, struct buf *answer, struct buf *early)
{
    struct buf first;
    ssize_t n = stream_write(client, buf_data(answer), buf_len(answer));
    if (n > 0)
        buf_consume(answer, (size_t)n);
    buf_init(&first, buf_len(answer) + buf_len(early));
    if (first.max != 0) {
        buf_append(&first, buf_data(answer), buf_len(answer));
        buf_append(&first, buf_data(early), buf_len(early));
    }
    buf_free(answer);
    buf_free(early);
    return first;
}

void tunnel_start(struct client *client, struct stream *upstream, struct buf ahead,
                  struct buf answer, struct buf early, struct request *request)
{
    struct tunnel *t = mem_alloc(sizeof *t);
    if (buf_len(&ahead) == 0)
        buf_free(&ahead); /* an idle tunnel holds none */
    t->client = client;
    request_hand_over(request, &t->record, &t->snapshot);
    client->owner = t;
    client->stop = on_stop;
    stream_want(client->stream, 0);
    stream_want(upstream, 0);
    struct relay_ends ends = {
        .client = client->stream,
        .upstream = upstream,
        .to_upstream = ahead,
        .to_client = first_for_client(client->stream, &answer, &early),
        .bytes_up = &t->record.bytes_up,
        .bytes_down = &t->record.bytes_down,
        .scratch = client->worker->scratch,
        .budget = &client->worker->budget,
        .pipes = client->worker->pipes,
    };
    client->stream = NULL;
    t->relay = relay_start(&ends, on_relay_done, t);
    if (client->terminated) {
        t->stall = mem_alloc(sizeof *t->stall);
        stall_watch(t->stall, client->worker->loop, t->snapshot->limits.request_body_ms, on_look,
                    on_stalled, t);
    }
}
