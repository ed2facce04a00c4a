/*
 * Ids that a link gave up on, and which messages may still come for them: the
 * newest LINK_LATE_WINDOW ids, one byte each. Pure. Chapter 35 section 4.
 */
#ifndef DECIDER_LINK_LATE_H
#define DECIDER_LINK_LATE_H

#include <stdbool.h>
#include <stdint.h>

#include "decider/link.h"
#include "decider/link_questions.h"

struct link_late {
    int64_t newest;                   /* id given last */
    uint8_t stages[LINK_LATE_WINDOW]; /* enum link_stage of an id, at id modulo the size */
};

/* newest: the id before the first that will be given. */
void link_late_init(struct link_late *late, int64_t newest);

/* The next id, 0: there are no more. link_late_given(): it was used; what is LINK_LATE_WINDOW below
 * it is forgotten. */
int64_t link_late_next_id(const struct link_late *late);
void link_late_given(struct link_late *late);

/* Remembers an id with the stage that its question had; older ones than the window are not. */
void link_late_mark(struct link_late *late, int64_t id, enum link_stage stage);

/* The stage of a remembered id, LINK_NOT_ASKED for any other. */
enum link_stage link_late_stage(const struct link_late *late, int64_t id);

/* Older than the window: messages for it mean nothing. */
bool link_late_is_forgotten(const struct link_late *late, int64_t id);

#endif
