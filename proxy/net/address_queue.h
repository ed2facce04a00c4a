/*
 * Addresses still to be dialled: each once, families alternating (RFC 8305
 * section 4), each family in the order it came. Pure.
 */
#ifndef NET_ADDRESS_QUEUE_H
#define NET_ADDRESS_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/address.h"

struct address_queue {
    struct address *all; /* everything ever added, in order */
    bool *taken;
    size_t count, cap;
    uint8_t turn; /* family of the next one when there is a choice; 0: of the first added */
};

void address_queue_free(struct address_queue *q);
/* False when it was there before. */
bool address_queue_add(struct address_queue *q, const struct address *a);
bool address_queue_take(struct address_queue *q, struct address *out);
/* Whether one of that family waits. */
bool address_queue_has(const struct address_queue *q, uint8_t family);

#endif
