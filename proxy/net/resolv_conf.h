/*
 * resolv.conf(5) as the C library's resolver reads it: servers, search list,
 * options. Pure: the file's text and what the environment adds are given.
 */
#ifndef NET_RESOLV_CONF_H
#define NET_RESOLV_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/address.h"

enum {
    RESOLV_SERVERS_MAX = 3,  /* nameserver lines that count */
    RESOLV_DOMAINS_MAX = 64, /* of a search list */
    DNS_PORT = 53
};

struct dns_server {
    struct address address;
    uint16_t port;
};

/* "ADDR", "ADDR:PORT", "[V6]" or "[V6]:PORT". */
bool dns_server_parse(const char *s, size_t n, struct dns_server *out);

/* Shared: one for each version of the file, kept while a look-up walks its search list. */
struct resolv_conf {
    unsigned users;
    struct dns_server *servers; /* one at least */
    size_t server_count;
    char **domains; /* search list without final dots; "" is the root */
    size_t domain_count;
    unsigned ndots;
    unsigned timeout_s; /* 0: not said */
    unsigned attempts;  /* 0: not said */
    bool rotate;
    bool use_tcp;      /* use-vc */
    bool no_tld_query; /* a single label is not asked as it is */
};

/* What the process adds; each may be NULL. */
struct resolv_environment {
    const char *host_name;    /* gives the domain when no line does */
    const char *local_domain; /* LOCALDOMAIN: replaces the search list */
    const char *options;      /* RES_OPTIONS: after those of the file */
};

/* Any text gives a usable result: without a server line it is 127.0.0.1. A server line may name a
 * port, which the C library does not read. */
struct resolv_conf *resolv_conf_parse(const char *text, size_t n,
                                      const struct resolv_environment *environment);
/* Only these servers, no search list. */
struct resolv_conf *resolv_conf_from_servers(const struct dns_server *servers, size_t count);

struct resolv_conf *resolv_conf_hold(struct resolv_conf *c);
void resolv_conf_release(struct resolv_conf *c); /* NULL is allowed */

#endif
