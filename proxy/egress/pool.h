/*
 * Idle connections to servers and parent proxies, kept for the next request.
 * A connection is given out only for the same scheme, host, port and next hop,
 * while its address would still be allowed, and never to another client once it
 * has carried credentials that bind to a connection. Chapter 20 section 7; RFC
 * 9112 section 9.3.
 */
#ifndef EGRESS_POOL_H
#define EGRESS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "proxy/net/interfaces.h"
#include "proxy/net/stream.h"
#include "proxy/policy/policy.h"
#include "proxy/policy/route.h"

struct pool;

/* Where a connection leads. host is canonical; parent NULL: directly. */
struct pool_key {
    const struct host *host;
    uint16_t port;
    bool tls; /* to the server itself */
    const struct parent_proxy *parent;
};

/* A connection, in use or idle. */
struct pool_connection {
    struct stream *stream;
    struct address address; /* that was dialled and judged; family 0 behind a parent */
    uint64_t bound_to;      /* client that alone may use it; 0: any */
    uint32_t uses;          /* requests it has served */
};

struct pool *pool_new(struct ev_loop *loop, struct interfaces *interfaces);
/* Closes all idle connections: their descriptors are wanted. */
void pool_clear(struct pool *p);
/* Closes all; NULL is fine. */
void pool_free(struct pool *p);

/*
 * A connection for this key, or false. Those that ended, brought stray bytes or lead to an address
 * that the policy now refuses are closed on the way. client: its serial number. careful: the
 * request cannot be repeated, so that only a connection that has been reused before, and not long
 * ago, will do.
 */
bool pool_take(struct pool *p, const struct pool_key *key, const struct policy *policy,
               uint64_t client, bool careful, struct pool_connection *out);

/* Takes over an idle connection. idle_ms: how long it may wait; most: idle connections kept in
 * all, the oldest goes first. */
void pool_put(struct pool *p, const struct pool_key *key, const struct pool_connection *connection,
              uint32_t idle_ms, uint32_t most);

#endif
