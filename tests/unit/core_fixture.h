/*
 * A core on a loop of its own behind a listener on 127.0.0.1, an origin that a
 * test plays by hand, and clients, all in one process: the loop turns while a
 * test waits for bytes. The origin's address is on the allow list, ok.test is
 * not reached.
 */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "proxy/acceptor.h"
#include "proxy/core.h"

struct core_fixture {
    struct ev_loop *loop;
    struct core *core;
    struct acceptor *acceptor;
    struct violation_store *violations;
    uint16_t port; /* of the acceptor */
    int origin;    /* listens */
    uint16_t origin_port;
    char directory[32], log[64]; /* the decision log's path */
};
extern struct core_fixture t;

int core_setup(void **state);
int core_teardown(void **state);

/* `network` is what follows the two lists, `denied` is put into deniedDomains. */
struct snapshot *core_settings(const char *denied, const char *network, const char *rest);
/* Makes the core and its acceptor. `o`: what is not the fixture's own, or NULL. */
void core_start(const struct core_options *o, struct snapshot *snapshot);
void core_stop(void);

int listen_locally(uint16_t *port);
int connect_locally(uint16_t port);

/* One short turn of the loop. */
void turn(void);
/* Sends all of it. */
void say(int fd, const void *p, size_t n);
/* Turns the loop until `text` came on fd, with whatever is before it, or fails. */
void hear(int fd, const char *text);
void hear_bytes(int fd, const void *p, size_t n);
/* Turns the loop until the peer ended or reset; false: it sent more bytes first. */
bool hear_end(int fd);
/* Turns the loop until the listener has a connection. */
int accept_one(int fd);

/* What the decision log holds. */
const char *core_log(void);

#endif
