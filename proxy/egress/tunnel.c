#include "proxy/egress/tunnel.h"

#include <stdlib.h>

#include "base/mem.h"
#include "proxy/net/relay.h"

struct tunnel {
    struct client *client;
    struct relay *relay;
    struct snapshot *snapshot; /* the record's rule lives in it */
    struct record record;
};

static void tunnel_end(struct tunnel *t, enum err why)
{
    struct client *client = t->client;
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

void tunnel_start(struct client *client, struct stream *upstream, struct buf *to_upstream,
                  struct buf *to_client, struct request *request)
{
    struct tunnel *t = mem_alloc(sizeof *t);
    t->client = client;
    request_hand_over(request, &t->record, &t->snapshot);
    client->owner = t;
    client->stop = on_stop;
    struct relay_ends ends = {
        .client = client->stream,
        .upstream = upstream,
        .to_upstream = *to_upstream,
        .to_client = *to_client,
        .bytes_up = &t->record.bytes_up,
        .bytes_down = &t->record.bytes_down,
        .scratch = client->worker->scratch,
        .budget = &client->worker->budget,
        .pipes = client->worker->pipes,
    };
    client->stream = NULL;
    buf_init(to_upstream, 0);
    buf_init(to_client, 0);
    t->relay = relay_start(&ends, on_relay_done, t);
}
