/*
 * The proxy as a part: a worker on a loop with its resolver, dialler, TLS,
 * pools, decision log and housekeeping, for the gateway and for the launcher.
 */
#ifndef PROXY_CORE_H
#define PROXY_CORE_H

#include <stdbool.h>

#include <ev.h>

#include "base/buf.h"
#include "base/secret.h"
#include "certs/ca.h"
#include "proxy/egress/worker.h"
#include "proxy/settings/snapshot.h"

struct core;

struct core_options {
    struct ev_loop *loop;
    struct snapshot *snapshot; /* taken over, also on failure */
    const char *log;           /* decision log, "-": stdout; NULL: none */
    bool log_may_be_planted;   /* clients may have put a link in its place: it is not followed */
    const char *token;         /* NULL: clients need none; stays the caller's */
    /* Clients that present no credentials at all are served too (a listener inside a box). */
    bool token_optional;
    /* Root certificates are read, and the key of RSA leaves is made, at the first connection that
     * needs them, not at once. */
    bool short_lived;
    /* The command that requests of clients without an attribution key are attributed to, whole and
     * as text (its key is made from it), or NULL. A client that presents its key is the same. */
    const char *attribution;
    struct violation_store *violations; /* NULL: nobody looks; stays the caller's */
    struct ca
        *ca; /* tunnels are terminated with it (tlsTerminate); NULL: none; stays the caller's */
};

/* What a process that holds other people's connections and secrets does first: no core dumps, no
 * SIGPIPE, all the descriptors it may have, memory given back. */
void core_prepare_process(void);

/* NULL with a line in *error. */
struct core *core_new(const struct core_options *o, struct buf *error);
struct worker *core_worker(struct core *c);
/* Writes out the log and frees everything; connections still open are closed. Acceptors and
 * forwarders go before. Not from inside a call back of a connection; NULL is fine. */
void core_free(struct core *c);

/* From the next connection or request on, `snapshot` (taken over) is in force, with what chapter
 * 10 section 1 lists as fixed kept from the present one. */
void core_replace_snapshot(struct core *c, struct snapshot *snapshot);

#endif
