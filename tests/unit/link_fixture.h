/*
 * A link played from a script: frames as JSON text go in, questions note what
 * they were answered, and what the link writes is taken apart again.
 */
#ifndef TESTS_LINK_FIXTURE_H
#define TESTS_LINK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "decider/link.h"

enum { SCRIPT_QUESTIONS = 16, SCRIPT_TIMEOUT_MS = 5000 };

struct script;

struct played {
    struct script *script;
    struct decider_question *q; /* NULL once it is gone */
    const char *refused;
    unsigned answers; /* calls, need_body among them */
    unsigned finals;  /* calls after which it is gone */
    unsigned order;   /* of its final answer, from 1 */
    enum decider_action action;
    uint16_t status;
    uint32_t max, ttl_s;
    size_t set_count, removed_count;
    char first_set[64], first_value[64], first_removed[64];
    char class[64], credential[64], reason[64], why[192];
    void (*then)(struct played *p, const struct decider_verdict *v); /* inside of the answer */
};

struct script {
    struct link *link;
    struct decider decider; /* what questions have to name */
    double now;
    unsigned hellos, deaths, finals;
    unsigned asks;
    size_t allowed_count, denied_count;
    char first_allowed[64];
    char why[192]; /* of the death */
    struct played played[SCRIPT_QUESTIONS];
    void (*on_hello)(struct script *s);
    void (*on_dead)(struct script *s);
};

struct script *script_new(unsigned proto, unsigned level);
struct script *script_new_at(unsigned proto, unsigned level, int64_t first_id);
/* Also with the hello over, and the link's own taken from the output. */
struct script *script_ready(unsigned proto);
void script_free(struct script *s);

/* Question `i` of the script; returns whether it was asked. */
bool script_ask(struct script *s, unsigned i);
bool script_ask_connection(struct script *s, unsigned i);
/* With a target of n bytes. */
bool script_ask_long(struct script *s, unsigned i, const char *target, size_t n);
bool script_hold(struct script *s, unsigned i, uint64_t length);
void script_give(struct script *s, unsigned i, struct decider_body *body, bool cut);
void script_give_text(struct script *s, unsigned i, const char *text, bool cut);
void script_forget(struct script *s, unsigned i);

/* One frame from the decider. */
void script_say(struct script *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void script_say_bytes(struct script *s, const void *p, size_t n);
void script_pass(struct script *s, double seconds); /* time, and a tick at its end */
void script_tick(struct script *s);

/* Takes all of the output. */
void script_drain(struct script *s, struct buf *to);
/* The payload of the next frame in what was drained, as a string; NULL: none. */
const char *script_next_frame(struct buf *drained, struct buf *frame);

/* The link died of just this; a question's only final answer so far is `action`. */
void script_assert_dead(const struct script *s, const char *why);
void script_assert_alive(const struct script *s);
void script_assert_final(const struct script *s, unsigned i, enum decider_action action);
void script_assert_open(const struct script *s, unsigned i);

#endif
