/*
 * The questions of a link that wait for their answers: found by id, and in the
 * order in which their time runs out. All have the same time, so that order is
 * the one in which their timers were started. Pure.
 */
#ifndef DECIDER_LINK_QUESTIONS_H
#define DECIDER_LINK_QUESTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decider/decider.h"

struct link;

/* What may come for a question. */
enum link_stage {
    LINK_NOT_ASKED,  /* no question, nothing */
    LINK_CONNECTION, /* allow or deny; the timer runs */
    LINK_REQUEST,    /* allow, deny or need_body; the timer runs */
    LINK_READING,    /* after need_body, until the body is given: deny; no timer runs */
    LINK_SHOWN       /* the body was sent: allow or deny; the timer runs */
};

struct link_question {
    struct decider_question head; /* first: callers know no more */
    struct link *link;
    int64_t id;
    decider_answer *answer;
    void *ctx;
    struct link_question *chained;        /* next of its bucket */
    struct link_question *sooner, *later; /* neighbours in the order of time */
    double deadline;                      /* while the timer runs */
    uint32_t max;                         /* bytes of its body that were asked for */
    uint32_t held;                        /* and that are reserved */
    uint8_t stage;                        /* enum link_stage */
    bool timed;                           /* the timer runs: it is in the order of time */
};

struct link_questions {
    struct link_question **buckets; /* a power of two of them */
    size_t size, count;
    struct link_question *soonest, *latest;
};

/* All zero is an empty one. Frees what is left in it. */
void link_questions_free(struct link_questions *t);

/* A new one, zero but for its id, which is in there once. */
struct link_question *link_questions_add(struct link_questions *t, int64_t id);
struct link_question *link_questions_find(const struct link_questions *t, int64_t id);
/* Takes it out, stops its timer, frees it. */
void link_questions_drop(struct link_questions *t, struct link_question *q);

/* Starts the timer of a question whose timer is stopped. deadline: no sooner than any before. */
void link_questions_start(struct link_questions *t, struct link_question *q, double deadline);
void link_questions_stop(struct link_questions *t, struct link_question *q);

/* All ids, sorted, `count` of them; the caller frees them. NULL: none. */
int64_t *link_questions_ids(const struct link_questions *t);

#endif
