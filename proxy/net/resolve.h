/*
 * Asynchronous name resolution on the loop: hosts file first, then DNS by
 * c-ares with the system's search list, ndots and options; A and AAAA in
 * parallel; equal look-ups in flight share one query as long as no part of its
 * answer is in. Nothing is kept beyond that. Changes of the hosts file and
 * resolv.conf are picked up at the next look-up; nsswitch.conf is not read, so
 * that what it says for other programs cannot turn names off here. Answers are
 * not judged here.
 */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>

#include "base/err.h"
#include "base/limits.h"
#include "proxy/policy/address.h"
#include "proxy/policy/host.h"

struct resolver;
struct lookup;

struct resolver_options {
    char **servers; /* "ADDR" or "ADDR:PORT" or "[V6]:PORT", NULL-terminated; NULL: resolv.conf */
    bool use_hosts; /* ask the hosts file */
    const struct limits *limits; /* borrowed, must outlive the resolver */
    const char *hosts_file;      /* another file than the system's, or NULL */
    const char *resolv_conf;     /* the same; LOCALDOMAIN and RES_OPTIONS are then not read */
};

/* NULL with a message in *error (static or to be copied at once) when a server does not parse. */
struct resolver *resolver_new(struct ev_loop *loop, const struct resolver_options *options,
                              const char **error);
/* Every pending look-up is cancelled without a call back. Not from inside a call back. NULL is
 * allowed. */
void resolver_free(struct resolver *r);

/*
 * Called from the loop, never from inside resolver_lookup(). May come several times: with each
 * family's addresses as they arrive (order kept, limits->dns_addresses in all, the last place never
 * taken by the family of the others), and once with last = true, after which the look-up is gone.
 * err is ERR_NONE until last; with last it is ERR_NONE when any address was delivered, else
 * ERR_UPSTREAM_DNS, or ERR_UPSTREAM_TIMEOUT when no server answered in time.
 */
typedef void lookup_callback(void *ctx, const struct address *addresses, size_t count, bool last,
                             enum err err);

/* name: a canonical host that is not an address. `localhost` and names below it go through the
 * hosts file and, failing that, are 127.0.0.1 and ::1 (RFC 6761 section 6.3). */
struct lookup *resolver_lookup(struct resolver *r, const struct host *name,
                               lookup_callback *callback, void *ctx);
/* No call back afterwards. */
void lookup_cancel(struct lookup *lookup);

#endif
