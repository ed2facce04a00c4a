/*
 * Frames: a length of 4 bytes, big-endian, then as many bytes. Pure. Chapter 35
 * section 1.
 */
#ifndef DECIDER_FRAME_H
#define DECIDER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { FRAME_HEAD = 4, FRAME_MAX = 1048576 };

enum frame_result {
    FRAME_OK,       /* *length bytes of payload at p + FRAME_HEAD */
    FRAME_MORE,     /* not complete yet */
    FRAME_TOO_LARGE /* announces more than max: as soon as its length can be read */
};

/* The frame that p[0..n) begins with. */
enum frame_result frame_next(const uint8_t *p, size_t n, size_t max, size_t *length);

/* Writes the FRAME_HEAD bytes that announce a payload of this length; returns where they end. */
uint8_t *frame_put_head(uint8_t *to, size_t length);

/* Appends a head; payload is then appended, and frame_end(), given what frame_begin() returned,
 * puts its length into the head. out needs room. */
size_t frame_begin(struct buf *out);
void frame_end(struct buf *out, size_t begun);

#endif
