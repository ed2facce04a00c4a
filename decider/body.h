/*
 * Bytes of a request's body that a decider is shown and the upstream then gets:
 * one copy, shared by whoever still needs it.
 */
#ifndef DECIDER_BODY_H
#define DECIDER_BODY_H

#include "base/buf.h"

enum { DECIDER_BODY_MAX = 33554432 };

struct decider_body {
    unsigned refs;
    struct buf bytes; /* not changed once it is shared */
};

/* max: most bytes it will hold. One reference, the caller's. */
struct decider_body *decider_body_new(size_t max);
struct decider_body *decider_body_ref(struct decider_body *b);
/* Wipes and frees with the last one; NULL is fine. */
void decider_body_unref(struct decider_body *b);

#endif
