/*
 * One request to leave: where to, what the policy said, and its record. Every
 * entry path fills this and asks once. Chapter 10 section 5.
 */
#ifndef EGRESS_REQUEST_H
#define EGRESS_REQUEST_H

#include "proxy/egress/record.h"
#include "proxy/egress/worker.h"
#include "proxy/policy/policy.h"

/* The reason of a rule that gives none. */
#define REQUEST_DENIED "request denied by a rule"

/* decision.list of what a decider answered, without an entry. */
#define DECIDER_LIST "decider"

struct asking;

struct request {
    struct snapshot *snapshot; /* the settings this request is judged by; NULL: none begun */
    struct host host;          /* canonical */
    uint16_t port;
    struct decision decision;
    unsigned status; /* for a denial, that a decider asked for; 0: none did */
    bool by_decider; /* it was a decider who allowed the connection */
    char *key;       /* the attribution key as the client presented it, encoded; NULL: none */
    char *user;      /* the proxy user name it presented, any bytes; NULL: none */
    size_t user_len;
    char *spelled;         /* the client's text of the host, for refusals and violation lines */
    char *reason;          /* what decision.reason points to when a decider gave it */
    struct asking *asking; /* a decider's answer is awaited; NULL: none is */
    struct record record;
};

/* Hosts that a decider allowed on one client connection, which is not asked about them again by the
 * same user while that decider is there. */
struct approvals {
    struct buf keys;
    bool settled; /* the connection itself was asked about, and leads to one host alone */
};
void approvals_init(struct approvals *a);
void approvals_free(struct approvals *a);

/* Starts a request: its clock, its settings, its client. */
void request_begin(struct request *r, const struct client *c, enum record_via via);

/* The proxy user name that the client gave: the key in it, if any, is what the request is
 * attributed to instead of the worker's own. */
void request_set_user(struct request *r, const char *user, size_t n);

/* The key that a terminated tunnel's CONNECT presented, or NULL. */
void request_set_key(struct request *r, const char *key);

/* Names the destination, for refusals that come before any decision. */
void request_set_destination(struct request *r, const char *host, size_t n, uint16_t port);

enum authorisation {
    AUTHORISATION_GIVEN,
    AUTHORISATION_DENIED,  /* r->decision says why; the violation is recorded */
    AUTHORISATION_AWAITED, /* the decider is asked, `decided` is called once */
    AUTHORISATION_UNKNOWN  /* the decider is away: ERR_DECIDER */
};

/* The decider's answer: ERR_NONE, ERR_POLICY (as AUTHORISATION_DENIED), ERR_DECIDER. Not called for
 * a request that ended before. */
typedef void request_decided(void *ctx, enum err err);

/* The one authorisation call. approved: what the connection may go to already by a decider's word,
 * and learns; or NULL. r stays where it is while an answer is awaited. */
enum authorisation request_authorise(struct request *r, struct worker *w,
                                     struct approvals *approved, const char *host, size_t n,
                                     uint16_t port, request_decided *decided, void *ctx);

/* request_ask.c, for request_authorise(): what no rule decides. */
enum authorisation request_ask(struct request *r, struct worker *w, struct approvals *approved,
                               request_decided *decided, void *ctx);
void request_stop_asking(struct request *r);

/* The request rules on a request to an authorised destination; target: as request_rules_decide()
 * takes it. ERR_NONE: allowed. ERR_POLICY, ERR_AMBIGUOUS_TARGET: r->decision says why, and the
 * violation is the caller's to record. */
enum err request_judge(struct request *r, const char *method, size_t method_len, const char *target,
                       size_t target_len);

/* The denial of a dial whose addresses were all refused, recorded; the reason goes to `reason`. */
void request_deny_addresses(struct request *r, struct worker *w, unsigned classes,
                            struct buf *reason);

/* Notes in the record what the client was told: HTTP status or SOCKS reply; reason may be NULL. */
void request_refused(struct request *r, enum err err, unsigned status, const char *reason);

/* Violation lines: "deny network-outbound", "deny http-request", "deny socks-tunnel". */
void request_violation(struct request *r, struct worker *w, const char *host, size_t n,
                       const char *reason);
void request_violation_http(struct request *r, struct worker *w, const char *method, size_t n,
                            const char *url, const char *reason);
void request_violation_socks(struct request *r, struct worker *w);

/* Moves the record and the reference to the settings it points into; the request is empty then. */
void request_hand_over(struct request *r, struct record *record, struct snapshot **snapshot);

/* Writes the record, once, and lets go of everything. close: why it ended. */
void request_end(struct request *r, struct worker *w, enum err close);

#endif
