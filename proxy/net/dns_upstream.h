/*
 * Whom to ask: the servers given, or those of resolv.conf as it is now, and a
 * channel to them. A changed file, or a channel that is spent, makes a new
 * channel; the old one first finishes what it was asked.
 */
#ifndef NET_DNS_UPSTREAM_H
#define NET_DNS_UPSTREAM_H

#include <ev.h>

#include "base/limits.h"
#include "proxy/net/dns_channel.h"
#include "proxy/net/resolv_conf.h"

struct dns_upstream;

/* servers: NULL-terminated, or NULL for resolv.conf. path: of another resolv.conf, or NULL.
 * NULL with a message in *error when a server does not parse. */
struct dns_upstream *dns_upstream_new(struct ev_loop *loop, const struct limits *limits,
                                      char **servers, const char *path, const char **error);
/* Calls pending requests back with DNS_FAILED. */
void dns_upstream_free(struct dns_upstream *u);

/* The configuration as of now; borrowed until the next call. Never from inside a request's call
 * back, like all below. */
struct resolv_conf *dns_upstream_conf(struct dns_upstream *u);
/* The channel for the next query, or NULL when there can be none. */
struct dns_channel *dns_upstream_channel(struct dns_upstream *u);
/* Frees old channels that are done; to be called after requests have been called back. */
void dns_upstream_tidy(struct dns_upstream *u);

#endif
