#include "proxy/net/address_queue.h"

#include <stdlib.h>

#include "base/mem.h"

void address_queue_free(struct address_queue *q)
{
    MEM_FREE(q->all);
    MEM_FREE(q->taken);
    q->count = q->cap = 0;
}

bool address_queue_add(struct address_queue *q, const struct address *a)
{
    for (size_t i = 0; i < q->count; i++) {
        if (address_equal(&q->all[i], a) && q->all[i].scope == a->scope)
            return false;
    }
    if (q->count == q->cap) {
        q->cap = q->cap == 0 ? 4 : q->cap * 2;
        q->all = mem_resize(q->all, q->cap, sizeof(*q->all));
        q->taken = mem_resize(q->taken, q->cap, sizeof(*q->taken));
    }
    q->all[q->count] = *a;
    q->taken[q->count++] = false;
    return true;
}

static size_t first_waiting(const struct address_queue *q, uint8_t family)
{
    size_t i = 0;

    while (i < q->count && (q->taken[i] || (family != 0 && q->all[i].family != family)))
        i++;
    return i;
}

bool address_queue_has(const struct address_queue *q, uint8_t family)
{
    return first_waiting(q, family) < q->count;
}

bool address_queue_take(struct address_queue *q, struct address *out)
{
    size_t i = first_waiting(q, q->turn);

    if (i == q->count)
        i = first_waiting(q, 0);
    if (i == q->count)
        return false;
    q->taken[i] = true;
    *out = q->all[i];
    q->turn = out->family == 4 ? 6 : 4;
    return true;
}
