/*
 * A direct dial: resolve, judge each address, connect (RFC 8305). The address
 * judged is the address dialled; there is no second resolution. An IP-literal
 * destination is dialled without judgement (allowing it was explicit). Chapter
 * 10 section 6, chapter 20 section 7.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include <ev.h>

#include "base/err.h"
#include "base/limits.h"
#include "proxy/net/interfaces.h"
#include "proxy/net/resolve.h"
#include "proxy/policy/policy.h"

/* What dials share: one a worker. */
struct dialer {
    struct ev_loop *loop;
    struct resolver *resolver;
    struct interfaces *interfaces;
    const struct limits *limits;
};

struct dial;

struct dial_result {
    enum err err;            /* ERR_NONE, ERR_ADDRESS, an upstream class, or ERR_OVERLOADED when
                                out of descriptors or memory for sockets */
    int fd;                  /* connected, non-blocking, TCP_NODELAY, or -1; the callee owns it */
    struct address address;  /* that was reached, when err is ERR_NONE */
    unsigned denied_classes; /* bit mask of 1u << enum address_class, of all dropped addresses */
    const struct address *denied;           /* the dropped addresses, for the debug log alone */
    const enum address_class *denied_class; /* of each */
    size_t denied_count;
};

/* Called once, from the loop, never from inside dial_start(); the dial is gone afterwards. */
typedef void dial_callback(void *ctx, const struct dial_result *result);

/* policy and host must stay valid until the call back or dial_cancel(). policy NULL: a next hop
 * that the operator named, whose addresses are not judged. */
struct dial *dial_start(const struct dialer *d, const struct policy *policy,
                        const struct host *host, uint16_t port, dial_callback *callback, void *ctx);
/* Drops it: attempts closed, no call back. */
void dial_cancel(struct dial *dial);

#endif
