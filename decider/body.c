#include "decider/body.h"

#include <stdlib.h>

#include "base/mem.h"

struct decider_body *decider_body_new(size_t max)
{
    struct decider_body *b = mem_alloc(sizeof *b);
    b->refs = 1;
    buf_init(&b->bytes, max);
    return b;
}

struct decider_body *decider_body_ref(struct decider_body *b)
{
    b->refs++;
    return b;
}

void decider_body_unref(struct decider_body *b)
{
    if (b == NULL || --b->refs != 0)
        return;
    buf_wipe(&b->bytes);
    free(b);
}
