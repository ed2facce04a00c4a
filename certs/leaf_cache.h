/*
 * The leaves of one kind by name: the LEAVES_MAX most recently used ones. Names
 * are compared without regard to case. Each look-up takes constant time: a hash
 * table over a list in the order of use.
 */
#ifndef CERTS_LEAF_CACHE_H
#define CERTS_LEAF_CACHE_H

#include <stddef.h>
#include <time.h>

#include <openssl/x509.h>

struct leaf_cache;

struct leaf_cache *leaf_cache_new(void);
void leaf_cache_free(struct leaf_cache *cache); /* NULL is fine */

struct cached_leaf {
    X509 *certificate;
    time_t not_after;
};

/* NULL when the name is not there; else it becomes the one used last. Valid until the next put. */
const struct cached_leaf *leaf_cache_get(struct leaf_cache *cache, const char *name, size_t n);

/* Takes certificate over. Replaces what the name had; drops the one least recently used when all
 * places are taken. n is at most LEAF_NAME_MAX. */
void leaf_cache_put(struct leaf_cache *cache, const char *name, size_t n, X509 *certificate,
                    time_t not_after);

#endif
