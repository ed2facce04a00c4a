/*
 * One link to a decider as a state machine without I/O: bytes and ticks go in,
 * bytes and answers come out. Ids, the window of late ids, timers, the budget of
 * bodies and the bound of the queue are kept here. Fail closed: after any
 * violation, or the end of the stream, the link is dead, and every question is
 * answered DECIDER_UNAVAILABLE. Chapter 35 sections 1 to 4 and 7.
 *
 * Times are seconds of one clock (ev_now()). Call backs come from link_feed(),
 * link_ended() and link_tick() alone; from inside them everything may be called
 * but link_free() and these three.
 */
#ifndef DECIDER_LINK_H
#define DECIDER_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decider/decider.h"
#include "decider/message.h"

enum {
    LINK_LATE_WINDOW = 4096,              /* ids this far below the newest are forgotten */
    LINK_BODIES_MAX = 67108864,           /* bytes of bodies held for the decider at once */
    LINK_QUEUE_MAX = 89478486 + 33554432, /* bytes that it has not taken */
    /* And past this no body is added to them: others' frames have the rest. A body that nobody
     * waits for any more may still be there. */
    LINK_QUEUE_BODIES = 89478486 + 16777216
};

struct link;

struct link_options {
    unsigned proto;          /* 1 or 2 */
    unsigned level;          /* bits that the hello has to ask for; 0: whatever it asks for */
    uint32_t timeout_ms;     /* for each verdict */
    struct decider *decider; /* what questions name as theirs */
    void (*hello)(void *ctx, const struct hello *hello); /* once, when it has come; borrowed */
    void (*dead)(void *ctx, const char *why); /* once, after every question was answered */
    void *ctx;
    int64_t first_id; /* 0: 1, as the protocol has it. For tests of its end */
};

/* The hello is in the output at once. */
struct link *link_new(const struct link_options *o);
/* Questions that are open are dropped without an answer: for the end of the program, or once the
 * link is dead. NULL is fine. */
void link_free(struct link *l);

void link_feed(struct link *l, const uint8_t *p, size_t n, double now);
/* The stream ended, or failed: why, for people. */
void link_ended(struct link *l, const char *why);
/* When link_tick() is due next, or 0: not at all. Long past: the link broke in a call that makes no
 * call backs (ids or the queue ran out), and dies in that tick. To be asked after each call. */
double link_deadline(const struct link *l);
void link_tick(struct link *l, double now);

/* Bytes to be written next, NULL when there are none; valid until the next call. At most 64 KiB at
 * a time. link_written(): how many of them the decider took. */
const uint8_t *link_output(struct link *l, size_t *n);
void link_written(struct link *l, size_t n);

/* True from the hello until death. */
bool link_is_ready(const struct link *l);
bool link_is_dead(const struct link *l);

/* As struct decider_ops says; NULL also before the hello. */
struct decider_question *link_ask_connection(struct link *l, const struct decider_connection *c,
                                             double now, decider_answer *answer, void *ctx);
struct decider_question *link_ask_request(struct link *l, const struct decider_request *r,
                                          double now, const char **refused, decider_answer *answer,
                                          void *ctx);
bool link_hold(struct decider_question *q, uint64_t length);
void link_give_body(struct decider_question *q, struct decider_body *body, bool cut, double now);
void link_forget(struct decider_question *q);

/* For tests and the benchmark: questions open, bytes of bodies held, bytes queued. */
size_t link_pending(const struct link *l);
size_t link_bodies_held(const struct link *l);
size_t link_queued(const struct link *l);

#endif
