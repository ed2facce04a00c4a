/*
 * Answers of a decider to questions about connections that hold for a while:
 * for the same client, host and port. Bounded; the oldest goes when it is full.
 * Chapter 35 section 7.
 */
#ifndef EGRESS_ANSWERS_H
#define EGRESS_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

enum { ANSWERS_MAX = 4096 };

/* Who asked, and for what. */
struct answer_key {
    const char *client; /* its address, or "local" */
    const char *user;   /* proxy user name, NULL: none */
    const char *host;   /* canonical */
    uint16_t port;
};

/* What was answered. */
struct kept_answer {
    bool allow;
    uint16_t status; /* of a denial */
    char *reason;    /* of a denial, or NULL */
};

struct answers;
struct answers *answers_new(void);
void answers_free(struct answers *a); /* NULL is fine */

/* until: when it ends, on the clock of `now` below; INFINITY: never. Replaces what was there. */
void answers_put(struct answers *a, const struct answer_key *key, const struct kept_answer *answer,
                 double until);
/* NULL: none that still holds. Valid until the next call that changes them. */
const struct kept_answer *answers_find(struct answers *a, const struct answer_key *key, double now);
void answers_clear(struct answers *a);

#endif
