/*
 * What a link has to write: frames, and bodies that become base64 piece by
 * piece as they are taken, so that there is one copy of each. Pure.
 */
#ifndef DECIDER_LINK_QUEUE_H
#define DECIDER_LINK_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "decider/body.h"

struct link_segment;

/* All zero is an empty one. */
struct link_queue {
    struct link_segment *first, *last;
    size_t size;  /* bytes that are still to be written, bodies counted as base64 */
    size_t begun; /* length of the buffer that link_queue_begin() gave */
};

/* Wipes what is left in it; it stays usable and empty. */
void link_queue_free(struct link_queue *q);

/* Where one frame, or a part of one, is to be appended: there is room for the largest. Then
 * link_queue_commit(). */
struct buf *link_queue_begin(struct link_queue *q);
void link_queue_commit(struct link_queue *q);

/* The base64 of a body; takes a reference as long as it is needed. */
void link_queue_body(struct link_queue *q, struct decider_body *body);

/* As link_output() and link_written() say. */
const uint8_t *link_queue_output(struct link_queue *q, size_t *n);
void link_queue_written(struct link_queue *q, size_t n);

#endif
