/*
 * From the 200 of a CONNECT to the first request inside: sniffs what the client
 * speaks, shakes hands where it is TLS, and hands on: to an HTTP session on the
 * decrypted stream, or to an opaque tunnel. Chapter 30 sections 5, 8 and 13
 * (items 8 to 10 and 15).
 */
#ifndef HTTP_TERMINATE_H
#define HTTP_TERMINATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "proxy/egress/request.h"
#include "proxy/egress/worker.h"
#include "proxy/tls/hello.h"

/* What the requests inside a terminated tunnel have in common. */
struct inside {
    struct host host; /* where all of them go: the CONNECT's target */
    uint16_t port;
    enum hello_name name_state;
    char *server_name; /* NULL: absent or unreadable */
    bool by_decider;   /* it was a decider who allowed the CONNECT */
    char *key;         /* attribution key that the CONNECT presented; NULL: none */
};
void inside_free(struct inside *inside); /* NULL is fine */

/* Whether tunnels to this host are terminated, by the worker's CA and the settings. */
bool terminate_applies(const struct worker *w, const struct snapshot *s, const struct host *host);
/* All slots are taken: a CONNECT is answered 503. */
bool terminate_is_full(const struct worker *w, const struct snapshot *s);

/* Records that all were, once for each command until at most half are. */
void terminate_note_full(struct worker *w, struct request *r);

/* Takes over the client (its session is gone), the bytes that came with the CONNECT, and the
 * request, which is empty then. */
void terminate_start(struct client *client, struct buf *ahead, struct request *request);

#endif
