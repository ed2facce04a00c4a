/*
 * What every connection of one loop shares, and the client connections it has.
 * One worker, one loop, one thread.
 */
#ifndef EGRESS_WORKER_H
#define EGRESS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <ev.h>

#include "base/budget.h"
#include "base/limits.h"
#include "proxy/net/dial.h"
#include "proxy/net/pipes.h"
#include "proxy/net/stream.h"
#include "proxy/policy/violation.h"
#include "proxy/settings/snapshot.h"
#include "proxy/tls/upstream.h"

struct acceptor;
struct answers;
struct bridge;
struct client;
struct decider;
struct line_log;
struct peer;
struct peers;
struct pool;
struct tls_server;

/* Room before and after the body bytes in the scratch, for a chunk's size line and its end. */
enum { SCRATCH_HEADROOM = 64, SCRATCH_TAILROOM = 8 };

/* Commands whose refusal for lack of a slot is remembered, not to be told again. */
enum { FULL_TOLD_MAX = 100 };

struct worker {
    struct ev_loop *loop;
    struct snapshot *snapshot; /* in force; a request keeps the one it started with */
    struct dialer dialer;
    struct tls_upstream *tls;
    struct tls_server *tls_server;  /* for tunnels that are terminated; NULL: none is */
    size_t terminated;              /* such tunnels now */
    char *full_told[FULL_TOLD_MAX]; /* commands that were told that there are too many */
    size_t full_told_count;
    struct pipes *pipes;                /* for splice(2) */
    struct peers *peers;                /* connections per client address */
    struct pool *pool;                  /* idle connections to servers */
    struct line_log *log;               /* NULL: none */
    struct violation_store *violations; /* NULL: nobody looks */
    struct answers *answers;            /* of the decider, that hold for a while; NULL: none yet */
    unsigned decider_serial;            /* counts those that were lost */
    struct decider *decider;            /* answers what rules leave open; NULL: nobody does */
    const char *token;                  /* NULL: clients need none */
    bool token_optional;     /* clients that present no credentials are served all the same */
    const char *attribution; /* text of the key of those that present none, or NULL */
    struct budget budget;
    struct bridge *bridges;
    struct client *clients;
    struct acceptor *acceptors;
    size_t client_count;
    size_t crowd;           /* most clients since memory was last given back */
    uint64_t client_serial; /* of the newest */
    bool stopping;
    double next_hop_warning; /* ev_now() from which a failing next hop is warned of again */
    void (*room)(void *ctx); /* called when a client goes: accepting may go on; or NULL */
    void *room_ctx;
    void (*emptied)(void *ctx); /* called when the last client goes while stopping */
    void *emptied_ctx;
    time_t date_time; /* of worker_date() */
    char date[40];
    uint8_t scratch[SCRATCH_HEADROOM + RELAY_CHUNK + SCRATCH_TAILROOM];
};

/* A connection from a client, from accept to close. Whoever serves it is its owner. */
struct client {
    struct worker *worker;
    struct stream *stream;
    struct client *next, **link; /* the worker's list */
    /* Asked to end: at_once closes now, else as soon as nothing is in progress. */
    void (*stop)(struct client *c, bool at_once);
    void *owner;         /* the session that serves it */
    struct address peer; /* family 0: a Unix socket */
    uint16_t peer_port;
    uint64_t serial;   /* never used twice */
    struct peer *same; /* the count of its address, or NULL */
    bool terminated;   /* counted in the worker's number */
};

/* Takes over an accepted, non-blocking socket; NULL, and it is closed, when the client's address
 * has as many connections as it may have. */
struct client *client_new(struct worker *w, int fd, const struct sockaddr *peer);
/* Closes the stream if it is still there, and forgets the client. */
void client_free(struct client *c);

/* The client's tunnel is terminated from now on: it holds a slot until it is freed. */
void worker_tunnel_terminated(struct worker *w, struct client *c);
/* The decider is away: what it promised for a while was its word, not its successor's. */
void worker_decider_lost(struct worker *w);

/* Forgets who was told that all slots are taken. */
void worker_forget_told(struct worker *w);

/* Stops all clients; w->emptied is called once none is left (at once when there is none). */
void worker_stop(struct worker *w, bool at_once);

/* IMF-fixdate of now (RFC 9110 section 5.6.7), made once a second; valid until the next call. */
const char *worker_date(struct worker *w);

#endif
