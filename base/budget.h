/*
 * The memory that slow peers hold, over all connections of a loop. Owners of
 * buffers report what they hold after each event; past the mark everyone reads
 * in small steps, so that the total stays within
 *
 * mark + connections * (a short head, its fields, and a small read each way)
 *
 * and no connection is starved. Chapter 20 section 13.
 */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

enum { BUDGET_SMALL_READ = 4096 };

struct budget {
    size_t used; /* bytes */
    size_t mark;
};

static inline bool budget_is_short(const struct budget *b)
{
    return b->used > b->mark;
}

/* Bytes to read at once where `normal` would be read with memory at hand. */
static inline size_t budget_read_size(const struct budget *b, size_t normal)
{
    return budget_is_short(b) && normal > BUDGET_SMALL_READ ? BUDGET_SMALL_READ : normal;
}

/* Whether bytes that cannot go anywhere yet may be read on top of `held` ones. Short of memory,
 * they wait in their socket. */
static inline bool budget_may_hold(const struct budget *b, size_t held)
{
    return !budget_is_short(b) || held < BUDGET_SMALL_READ;
}

/* An owner whose last report was *held now holds `now` bytes; 0 before it goes. */
static inline void budget_report(struct budget *b, size_t *held, size_t now)
{
    b->used += now - *held;
    *held = now;
}

#endif
