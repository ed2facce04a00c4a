/*
 * A dialler on a loop of its own, a scripted DNS server, and origins that share
 * one port: 127.0.0.5 listens, others are made as a test needs them. 127.0.0.5
 * to 127.0.0.7 and ::1 are on the allow list with that port, since loopback
 * addresses are refused otherwise; nothing else is.
 */
#ifndef TESTS_DIAL_FIXTURE_H
#define TESTS_DIAL_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "proxy/net/dial.h"
#include "tests/unit/scripted_dns.h"

enum { HOLES = 4, HOLE_FILLERS = 3 };

struct outcome {
    bool done;
    enum err err;
    int fd;
    char address[ADDRESS_TEXT_MAX];
    unsigned denied_classes;
    char denied[256];
    struct dial *dial;
    struct outcome *cancels; /* in the call back */
    bool cancels_itself;
};

struct fixture {
    struct ev_loop *loop;
    struct limits limits;
    struct scripted_dns *dns;
    struct dialer dialer;
    struct policy *policy;
    struct host host;
    uint16_t port;
    int origin;
    int extra[HOLES * (HOLE_FILLERS + 1)];
    size_t extra_count;
    ev_timer guard;
};
extern struct fixture t;

int setup(void **state);
int teardown(void **state);
/* The scripted server and a resolver that asks it alone. */
void start(const struct dns_rule *rules);

void origin_at(const char *text);
/* A listener whose queue is full: connecting to it hangs. */
void hole_at(const char *text);
/* How many connections a listener got. */
size_t accepted(int fd);

/* Both end the test when it takes far too long. */
void run_until(const bool *flag);
void run_for(double seconds);

void dial(struct outcome *o, const char *name);
/* A whole dial: the address reached, or the token of the failure. */
const char *dialled(const char *name);

size_t open_descriptors(void);

#endif
