/*
 * DNS queries to a fixed set of servers: c-ares on the loop, for absolute names
 * only. A channel never changes; new servers mean a new channel, and the old
 * one is freed when its queries are done.
 */
#ifndef NET_DNS_CHANNEL_H
#define NET_DNS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "proxy/net/dns_answer.h"
#include "proxy/net/resolv_conf.h"

struct dns_channel;

struct dns_channel_options {
    const struct dns_server *servers; /* copied */
    size_t server_count;
    uint32_t timeout_ms; /* of the first try; each round over the servers doubles it */
    uint32_t tries;      /* rounds over the servers */
    bool rotate;
    bool use_tcp;
};

/* NULL when c-ares cannot be set up. */
struct dns_channel *dns_channel_new(struct ev_loop *loop,
                                    const struct dns_channel_options *options);
/* Pending requests are called back with DNS_FAILED. Never from inside a call back. */
void dns_channel_free(struct dns_channel *c);

/* status is DNS_ADDRESSES when there is an answer to read, DNS_SERVER_FAILED, DNS_TIMEOUT or
 * DNS_FAILED. */
typedef void dns_callback(void *ctx, enum dns_status status, const uint8_t *answer, size_t n);

/* The caller's memory, in place until the call back. */
struct dns_request {
    struct dns_channel *channel;
    dns_callback *callback;
    void *ctx;
};

/* Calls back exactly once, maybe before it returns. */
void dns_channel_query(struct dns_channel *c, struct dns_request *request, const char *name,
                       unsigned type, dns_callback *callback, void *ctx);

size_t dns_channel_pending(const struct dns_channel *c);
/* It has asked much or got no answer: a new one, with fresh sockets and ports, is better. */
bool dns_channel_spent(const struct dns_channel *c);

#endif
