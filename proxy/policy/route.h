/*
 * Which next hop a destination takes: direct, or a parent proxy, by settings,
 * environment and NO_PROXY. Pure. Chapter 10 section 7.
 */
#ifndef POLICY_ROUTE_H
#define POLICY_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/policy/host.h"

struct parent_proxy {
    bool tls;
    char *host; /* canonical URL host; IPv6 as written, compressed, without brackets */
    uint16_t port;
    char *authorization; /* "Basic ..." or NULL; a secret */
};

struct routes;

/* Where values come from: the settings' three strings (NULL: key absent) and an environment
 * look-up (NULL result: not set). */
struct route_sources {
    const char *http, *https, *no_proxy;
    const char *(*getenv)(void *ctx, const char *name);
    void *ctx;
};

/*
 * Compiles the routes. Appends to *warnings one line ("srt: warning: ...", userinfo redacted) for
 * each unusable value from the environment. Returns NULL with a message in *error when a value of
 * the settings is unusable.
 */
struct routes *routes_new(const struct route_sources *sources, struct buf *warnings,
                          struct buf *error);
void routes_free(struct routes *r);

enum route_kind {
    ROUTE_PLAIN, /* forward of an http:// target */
    ROUTE_TUNNEL /* CONNECT, SOCKS, an absolute https:// target */
};

/* The parent of a kind, whatever the destination; NULL: none. */
const struct parent_proxy *routes_parent(const struct routes *r, enum route_kind kind);

/* The parent for a canonical host, or NULL for a direct dial. */
const struct parent_proxy *routes_find(const struct routes *r, const struct host *host,
                                       enum route_kind kind);

#endif
