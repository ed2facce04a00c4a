/*
 * How many connections each client address has, for the limit per client.
 * Addresses without a connection take no memory.
 */
#ifndef EGRESS_PEERS_H
#define EGRESS_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/policy/address.h"

struct peers;
struct peer;

struct peers *peers_new(void);
void peers_free(struct peers *p); /* NULL is fine; no connection may be left */

/* One more connection of this address; NULL when it has `most` already. */
struct peer *peers_add(struct peers *p, const struct address *a, uint32_t most);
/* One less; NULL is fine. */
void peers_remove(struct peers *p, struct peer *peer);

#endif
