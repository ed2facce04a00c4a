#include "certs/certificate_set.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/mem.h"
#include "certs/pem.h"

enum { DIGEST_BYTES = 32, ROOM_FIRST = 512 };

/* Open addressing: a digest sits at the first free place behind the one its first bytes name. */
struct certificate_set {
    struct digest {
        bool used;
        uint8_t bytes[DIGEST_BYTES];
    } * places;
    size_t room, count; /* room: a power of two, never more than half full */
    STACK_OF(X509) * all;
};

struct certificate_set *certificate_set_new(void)
{
    struct certificate_set *set = mem_alloc(sizeof *set);

    set->room = ROOM_FIRST;
    set->places = mem_array(set->room, sizeof *set->places);
    set->all = sk_X509_new_null();
    if (set->all == NULL)
        abort();
    return set;
}

void certificate_set_free(struct certificate_set *set)
{
    if (set == NULL)
        return;
    sk_X509_pop_free(set->all, X509_free);
    free(set->places);
    free(set);
}

/* The place of a digest, or the free one where it belongs. */
static struct digest *place_of(struct digest *places, size_t room, const uint8_t *digest)
{
    size_t i;

    memcpy(&i, digest, sizeof i);
    i &= room - 1;
    while (places[i].used && memcmp(places[i].bytes, digest, DIGEST_BYTES) != 0)
        i = (i + 1) & (room - 1);
    return &places[i];
}

static void grow(struct certificate_set *set)
{
    size_t room = 2 * set->room;
    struct digest *places = mem_array(room, sizeof *places);

    for (size_t i = 0; i < set->room; i++)
        if (set->places[i].used)
            *place_of(places, room, set->places[i].bytes) = set->places[i];
    free(set->places);
    set->places = places;
    set->room = room;
}

static void remember(struct certificate_set *set, const uint8_t *digest)
{
    struct digest *place = place_of(set->places, set->room, digest);

    place->used = true;
    memcpy(place->bytes, digest, DIGEST_BYTES);
    if (++set->count * 2 > set->room)
        grow(set);
}

/* One block; parsing it, which is slow, is for new ones. */
static bool add_block(struct certificate_set *set, const struct pem_block *block, struct buf *out)
{
    uint8_t digest[DIGEST_BYTES];
    struct buf der;
    bool ok = false;

    buf_init(&der, block->body_len);
    if (pem_decode(block, &der) &&
        EVP_Digest(buf_data(&der), buf_len(&der), digest, NULL, EVP_sha256(), NULL) == 1) {
        ok = place_of(set->places, set->room, digest)->used;
        X509 *x = ok ? NULL : pem_certificate(block);
        if (x != NULL && pem_append(out, "CERTIFICATE", buf_data(&der), buf_len(&der))) {
            remember(set, digest);
            ok = true;
        }
        if (!ok || x == NULL || sk_X509_push(set->all, x) == 0)
            X509_free(x);
    }
    /* What calls itself a certificate may be anything. */
    buf_wipe(&der);
    return ok;
}

size_t certificate_set_add_pem(struct certificate_set *set, const void *text, size_t n,
                               struct buf *out)
{
    struct pem_block block;
    struct pem pem;
    size_t count = 0;

    pem_start(&pem, text, n);
    while (pem_next(&pem, &block))
        count += pem_is_certificate(&block) && add_block(set, &block, out);
    return count;
}

STACK_OF(X509) * certificate_set_all(const struct certificate_set *set)
{
    return set->all;
}
