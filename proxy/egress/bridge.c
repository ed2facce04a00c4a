#include "proxy/egress/bridge.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "proxy/net/relay.h"

struct bridge {
    struct worker *worker;
    struct relay *relay;
    struct bridge *next, **link; /* the worker's list */
    uint64_t up, down;           /* nobody asks for them */
};

static void bridge_free(struct bridge *b)
{
    *b->link = b->next;
    if (b->next != NULL)
        b->next->link = b->link;
    free(b);
}

static void on_done(void *ctx, enum err why)
{
    (void)why; /* each end tells its owner by itself */
    bridge_free(ctx);
}

int bridge_open(struct worker *w, struct stream *stream)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
        stream_close(&stream);
        return -1;
    }
    struct bridge *b = mem_alloc(sizeof *b);
    b->worker = w;
    b->next = w->bridges;
    if (b->next != NULL)
        b->next->link = &b->next;
    b->link = &w->bridges;
    w->bridges = b;
    struct relay_ends ends = {
        .client = stream_plain(w->loop, fds[0]),
        .upstream = stream,
        .own_client = true,
        .bytes_up = &b->up,
        .bytes_down = &b->down,
        .scratch = w->scratch,
        .budget = &w->budget,
        .pipes = w->pipes,
    };
    b->relay = relay_start(&ends, on_done, b);
    return fds[1];
}

void bridges_close(struct worker *w)
{
    for (struct bridge *b = w->bridges, *next; b != NULL; b = next) {
        next = b->next;
        relay_cancel(b->relay);
        bridge_free(b);
    }
}
