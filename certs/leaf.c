#include "certs/leaf.h"

#include <stdlib.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

#include "base/mem.h"
#include "certs/ca_internal.h"
#include "certs/fields.h"
#include "certs/leaf_cache.h"

enum { LEAF_RSA_BITS = 2048, BACKDATED = SECONDS_A_DAY, LASTS = 99 * SECONDS_A_DAY, KINDS = 2 };

struct leaves {
    struct {
        EVP_PKEY *key;
        struct leaf_cache *cache;
    } kinds[KINDS];
};

void leaves_free(struct leaves *leaves)
{
    if (leaves == NULL)
        return;
    for (size_t i = 0; i < KINDS; i++) {
        EVP_PKEY_free(leaves->kinds[i].key);
        leaf_cache_free(leaves->kinds[i].cache);
    }
    free(leaves);
}

bool leaf_prepare(struct ca *ca, enum leaf_kind kind)
{
    if (ca->leaves == NULL)
        ca->leaves = mem_alloc(sizeof *ca->leaves);
    if (ca->leaves->kinds[kind].cache == NULL)
        ca->leaves->kinds[kind].cache = leaf_cache_new();
    if (ca->leaves->kinds[kind].key == NULL)
        ca->leaves->kinds[kind].key =
            kind == LEAF_RSA ? EVP_RSA_gen(LEAF_RSA_BITS) : EVP_EC_gen("P-256");
    ERR_clear_error();
    return ca->leaves->kinds[kind].key != NULL;
}

/* Printable, and no wildcard: a certificate must not stand for more than the one name. */
static bool name_ok(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '*')
            return false;
    return n != 0 && n <= LEAF_NAME_MAX;
}

/* The earlier of the CA's end and a leaf's own. */
static time_t end_of(const struct ca *ca, time_t begin)
{
    time_t end = begin + LASTS;
    time_t ca_end;

    return field_time(X509_get0_notAfter(ca->certificate), &ca_end) && ca_end < end ? ca_end : end;
}

static bool fill(X509 *x, const struct ca *ca, EVP_PKEY *key, const char *name, size_t n,
                 time_t begin, time_t end)
{
    ASN1_OCTET_STRING *id = NULL;
    bool ok =
        field_basics(x, begin, end) &&
        field_name(X509_get_subject_name(x), NID_commonName, name, n) &&
        X509_set_issuer_name(x, X509_get_subject_name(ca->certificate)) == 1 &&
        X509_set_pubkey(x, key) == 1 && (id = field_key_digest(x)) != NULL &&
        field_constraints(x, false) && field_key_usage(x, USAGE_SIGN | USAGE_ENCIPHER_KEY) &&
        field_server_auth(x) && field_alternative_name(x, name, n) && field_subject_key_id(x, id) &&
        X509_add1_ext_i2d(x, NID_authority_key_identifier, ca->authority, 0, X509V3_ADD_APPEND) ==
            1;

    ASN1_OCTET_STRING_free(id);
    return ok;
}

static X509 *mint(const struct ca *ca, EVP_PKEY *key, const char *name, size_t n, time_t begin,
                  time_t end)
{
    X509 *x = X509_new();

    if (x != NULL && fill(x, ca, key, name, n, begin, end) && X509_sign(x, ca->key, ca->digest) > 0)
        return x;
    X509_free(x);
    return NULL;
}

/* Within a day of its end, unless a new one would end no later. */
static bool is_stale(const struct cached_leaf *leaf, time_t now, time_t end)
{
    return leaf->not_after <= now + SECONDS_A_DAY && leaf->not_after < end;
}

bool leaf_get_at(struct ca *ca, const char *name, size_t n, enum leaf_kind kind, time_t now,
                 struct leaf *out)
{
    time_t begin = now - BACKDATED;
    time_t end = end_of(ca, begin);
    X509 *x;

    *out = (struct leaf){0};
    if (!name_ok(name, n) || !leaf_prepare(ca, kind))
        return false;
    EVP_PKEY *key = ca->leaves->kinds[kind].key;
    struct leaf_cache *cache = ca->leaves->kinds[kind].cache;
    const struct cached_leaf *cached = leaf_cache_get(cache, name, n);
    if (cached != NULL && !is_stale(cached, now, end)) {
        x = cached->certificate;
    } else {
        x = mint(ca, key, name, n, begin, end);
        ERR_clear_error();
        if (x == NULL)
            return false;
        leaf_cache_put(cache, name, n, x, end);
    }
    X509_up_ref(x);
    EVP_PKEY_up_ref(key);
    *out = (struct leaf){.certificate = x, .key = key};
    return true;
}

bool leaf_get(struct ca *ca, const char *name, size_t n, enum leaf_kind kind, struct leaf *out)
{
    return leaf_get_at(ca, name, n, kind, time(NULL), out);
}

void leaf_release(struct leaf *leaf)
{
    X509_free(leaf->certificate);
    EVP_PKEY_free(leaf->key);
    *leaf = (struct leaf){0};
}
