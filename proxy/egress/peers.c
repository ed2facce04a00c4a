#include "proxy/egress/peers.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/mem.h"

enum { BUCKETS = 4096 };

struct peer {
    struct peer *next;
    struct address address;
    uint32_t bucket;
    uint32_t count;
};

struct peers {
    uint32_t seed; /* clients choose their addresses, at least in IPv6 */
    struct peer *buckets[BUCKETS];
};

struct peers *peers_new(void)
{
    struct peers *p = mem_alloc(sizeof *p);
    /* Without randomness the table still works; it is only easier to slow down. */
    if (getrandom(&p->seed, sizeof p->seed, GRND_NONBLOCK) != (ssize_t)sizeof p->seed)
        p->seed = 0;
    return p;
}

void peers_free(struct peers *p)
{
    free(p);
}

static uint32_t bucket_of(const struct peers *p, const struct address *a)
{
    uint64_t hash = p->seed;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        hash = (hash ^ a->bytes[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 40) % BUCKETS;
}

struct peer *peers_add(struct peers *p, const struct address *a, uint32_t most)
{
    uint32_t bucket = bucket_of(p, a);
    struct peer *peer = p->buckets[bucket];
    while (peer != NULL && !address_equal(&peer->address, a))
        peer = peer->next;
    if (peer == NULL) {
        peer = mem_alloc(sizeof *peer);
        peer->address = *a;
        peer->bucket = bucket;
        peer->next = p->buckets[bucket];
        p->buckets[bucket] = peer;
    }
    if (peer->count >= most)
        return NULL;
    peer->count++;
    return peer;
}

void peers_remove(struct peers *p, struct peer *peer)
{
    if (peer == NULL || --peer->count != 0)
        return;
    struct peer **link = &p->buckets[peer->bucket];
    while (*link != peer)
        link = &(*link)->next;
    *link = peer->next;
    free(peer);
}
