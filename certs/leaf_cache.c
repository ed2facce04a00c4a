#include "certs/leaf_cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/mem.h"
#include "base/text.h"
#include "certs/leaf.h"

enum { BUCKETS = 512 }; /* a power of two */

struct entry {
    struct cached_leaf leaf;
    char *name;
    size_t name_len;
    uint32_t hash;
    struct entry *next_in_bucket;
    struct entry *newer, *older; /* by use */
};

struct leaf_cache {
    uint32_t seed; /* names are the clients' choice: so that nobody can aim them at one bucket */
    size_t count;
    struct entry *buckets[BUCKETS];
    struct entry *newest, *oldest;
};

struct leaf_cache *leaf_cache_new(void)
{
    struct leaf_cache *cache = mem_alloc(sizeof *cache);

    if (getrandom(&cache->seed, sizeof cache->seed, GRND_NONBLOCK) < 0)
        cache->seed = 0;
    return cache;
}

static void free_entry(struct entry *e)
{
    X509_free(e->leaf.certificate);
    free(e->name);
    free(e);
}

void leaf_cache_free(struct leaf_cache *cache)
{
    if (cache == NULL)
        return;
    while (cache->newest != NULL) {
        struct entry *e = cache->newest;
        cache->newest = e->older;
        free_entry(e);
    }
    free(cache);
}

static uint32_t hash_name(const struct leaf_cache *cache, const char *name, size_t n)
{
    uint32_t hash = 2166136261U ^ cache->seed;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ text_lower((unsigned char)name[i])) * 16777619U;
    return hash ^ hash >> 15;
}

static struct entry **bucket_of(struct leaf_cache *cache, uint32_t hash)
{
    return &cache->buckets[hash % BUCKETS];
}

static void unlink_use(struct leaf_cache *cache, struct entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &cache->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &cache->oldest) = e->newer;
}

static void link_newest(struct leaf_cache *cache, struct entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(e->older != NULL ? &e->older->newer : &cache->oldest) = e;
    cache->newest = e;
}

static struct entry *find(struct leaf_cache *cache, const char *name, size_t n, uint32_t hash)
{
    struct entry *e = *bucket_of(cache, hash);

    while (e != NULL && (e->hash != hash || !text_equal_fold(e->name, e->name_len, name, n)))
        e = e->next_in_bucket;
    if (e != NULL) {
        unlink_use(cache, e);
        link_newest(cache, e);
    }
    return e;
}

static void drop_oldest(struct leaf_cache *cache)
{
    struct entry *e = cache->oldest;
    struct entry **link = bucket_of(cache, e->hash);

    while (*link != e)
        link = &(*link)->next_in_bucket;
    *link = e->next_in_bucket;
    unlink_use(cache, e);
    free_entry(e);
    cache->count--;
}

const struct cached_leaf *leaf_cache_get(struct leaf_cache *cache, const char *name, size_t n)
{
    struct entry *e = find(cache, name, n, hash_name(cache, name, n));

    return e != NULL ? &e->leaf : NULL;
}

void leaf_cache_put(struct leaf_cache *cache, const char *name, size_t n, X509 *certificate,
                    time_t not_after)
{
    uint32_t hash = hash_name(cache, name, n);
    struct entry *e = find(cache, name, n, hash);

    if (e == NULL) {
        if (cache->count == LEAVES_MAX)
            drop_oldest(cache);
        e = mem_alloc(sizeof *e);
        e->name = mem_dup_n(name, n);
        e->name_len = n;
        e->hash = hash;
        e->next_in_bucket = *bucket_of(cache, hash);
        *bucket_of(cache, hash) = e;
        link_newest(cache, e);
        cache->count++;
    }
    X509_free(e->leaf.certificate);
    e->leaf = (struct cached_leaf){.certificate = certificate, .not_after = not_after};
}
