/*
 * The way out to an allowed destination: route (direct, a parent proxy or the
 * MITM socket), dial, TLS, a next hop's CONNECT. Nothing here judges names: authorise first.
 * Chapter 10 sections 5.3 and 7.2, chapter 20 sections 7 and 8.
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include "base/buf.h"
#include "base/err.h"
#include "proxy/egress/worker.h"

enum egress_kind {
    EGRESS_TUNNEL, /* CONNECT, SOCKS: bytes to the destination */
    EGRESS_PLAIN,  /* an http:// request: to the server, or to the parent in absolute form */
    EGRESS_TLS     /* an https:// request in absolute form: TLS to the destination */
};

/* What a connection leads to before its destination. Both NULL: nothing, the dial is direct. */
struct next_hop {
    const char *socket; /* the MITM socket */
    const struct parent_proxy *parent;
};

/* A host with a route to the MITM socket is never reached any other way. */
struct next_hop egress_next_hop(const struct snapshot *s, const struct host *host, uint16_t port,
                                enum egress_kind kind);
static inline bool next_hop_is_direct(const struct next_hop *hop)
{
    return hop->socket == NULL && hop->parent == NULL;
}

struct egress;

struct egress_result {
    enum err err;
    struct stream *stream;   /* on ERR_NONE, owned by the callee */
    struct buf early;        /* bytes the next hop sent behind its head; owned by the callee */
    struct address address;  /* of the server, family 0 behind a next hop */
    unsigned denied_classes; /* of ERR_ADDRESS */
    const char *detail;      /* short text for the log, or NULL; never an address */
};

/* Called once, from the loop, never from inside egress_start(). */
typedef void egress_callback(void *ctx, struct egress_result *result);

/* snapshot and host must stay valid until the call back or egress_cancel(). */
struct egress *egress_start(struct worker *w, const struct snapshot *snapshot,
                            const struct host *host, uint16_t port, enum egress_kind kind,
                            egress_callback *callback, void *ctx);
void egress_cancel(struct egress *e);

#endif
