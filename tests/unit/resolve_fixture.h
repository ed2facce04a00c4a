/*
 * A resolver on a loop of its own, a scripted server, and a directory with a
 * hosts file and a resolv.conf.
 */
#ifndef TESTS_RESOLVE_FIXTURE_H
#define TESTS_RESOLVE_FIXTURE_H

#include <stdbool.h>

#include <ev.h>

#include "proxy/net/resolve.h"
#include "tests/unit/scripted_dns.h"

/* What one look-up got: addresses joined by spaces, deliveries separated by '|'. */
struct outcome {
    char text[16384];
    unsigned calls;
    bool last;
    enum err err;
    struct lookup *lookup;
    void (*then)(struct outcome *o); /* run inside each call back */
    struct outcome *other;
    const char *name;
};

struct fixture {
    struct ev_loop *loop;
    struct limits limits;
    struct scripted_dns *dns;
    struct resolver *resolver;
    char directory[64], hosts[96], resolv[96];
    ev_timer guard;
};
extern struct fixture t;

int setup(void **state);
int teardown(void **state);

/* Both end the test when it takes far too long. */
void run_until(const bool *flag);
void run_for(double seconds);

void write_file(const char *path, const char *text);
void start_with(char **servers, bool use_hosts);
/* With the scripted server alone. */
void start(const struct dns_rule *rules);
/* The given lines, then the scripted server. */
void write_resolv_conf(const char *lines);
/* With the servers of resolv.conf. */
void start_resolv_conf(const struct dns_rule *rules, const char *lines);

void look_up(struct outcome *o, const char *name);
/* One whole look-up: its addresses, or the token of its failure. */
const char *resolve(const char *name);

#endif
