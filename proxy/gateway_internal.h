/* What gateway.c, gateway_decider.c and gateway_start.c share. Nothing else may include it. */
#ifndef PROXY_GATEWAY_INTERNAL_H
#define PROXY_GATEWAY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>
#include <jansson.h>

#include "base/secret.h"
#include "certs/ca.h"
#include "proxy/acceptor.h"
#include "proxy/core.h"
#include "proxy/gateway_options.h"

enum { STATUS_OK = 0, STATUS_SETTINGS = 1, STATUS_USAGE = 2 };

struct gateway {
    const struct gateway_options *options;
    struct ev_loop *loop;
    json_t *document;          /* the settings */
    struct snapshot *snapshot; /* of the start, until the core has it */
    struct core *core;
    struct worker *worker; /* the core's */
    struct listener *listeners[LISTENERS_MAX];
    struct acceptor *acceptors[LISTENERS_MAX];
    size_t listener_count, acceptor_count;
    struct secret *token;
    struct ca *ca;           /* NULL: TLS is passed through */
    json_t *hello;           /* of the decider that is there, or NULL */
    struct decider *decider; /* NULL: rules alone decide */
    unsigned proto;          /* of the decider */
    bool proxy_only;
    bool serving;           /* connections are accepted, or were */
    const char *stopped_by; /* why, or NULL */
    struct buf failure;     /* why it cannot start, found on the loop */
    double next_warning;    /* ev_now() from which a decider that is away is warned of again */
    ev_signal term, interrupt, hangup;
    ev_io lifeline;
    ev_timer drain, report;
};

/* gateway.c */
/* Accepts connections from now on. */
void gateway_serve(struct gateway *g);
/* Accepts no more, and ends once what is under way is done or its time is over; at_once: now. why
 * is shown, and has to live. */
void gateway_stop(struct gateway *g, const char *why, bool at_once);

/* gateway_settings.c: the settings' document, the decider's protocol, the CA and the snapshot of
 * the start. Says on stderr what is wrong, or to be warned of. Returns a status. */
int gateway_configure(struct gateway *g);
/* The snapshot of the document and a decider's lists (NULL: none yet). NULL with the reason in
 * *error. */
struct snapshot *gateway_snapshot(const struct gateway *g, const struct decider_lists *lists,
                                  struct buf *warnings, struct buf *error);

/* gateway_decider.c. True, too, when there is none to be asked. */
bool gateway_open_decider(struct gateway *g, struct buf *error);
/* Ends when the stream on the inherited descriptor does. */
bool gateway_watch_lifeline(struct gateway *g, struct buf *error);

#endif
