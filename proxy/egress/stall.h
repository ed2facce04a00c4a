/*
 * Whether bytes wait for a side that takes none. A tunnel that holds a slot may
 * be quiet for ever, but not that. It is looked at now and then, not at each
 * byte; a reader that is slow is not one that has stopped, so what the kernel
 * still holds counts as well. Chapter 30 section 8.
 */
#ifndef EGRESS_STALL_H
#define EGRESS_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

struct stall_view {
    bool waiting;    /* bytes of ours are queued */
    uint64_t moved;  /* bytes passed on so far */
    uint64_t unsent; /* bytes that the kernel holds */
};

struct stall {
    ev_timer timer;
    struct stall_view last;
    unsigned looks; /* in a row at which bytes waited and none had moved */
    struct stall_view (*look)(void *ctx);
    void (*stalled)(void *ctx);
    void *ctx;
};

/* stalled: called from the loop once nothing has moved for ms, up to a fifth more; the watch is
 * stopped by then. */
void stall_watch(struct stall *s, struct ev_loop *loop, uint32_t ms,
                 struct stall_view (*look)(void *ctx), void (*stalled)(void *ctx), void *ctx);
void stall_stop(struct stall *s, struct ev_loop *loop); /* never watched is fine */

#endif
