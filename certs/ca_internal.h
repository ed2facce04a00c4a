/* What the files of the certification authority share. */
#ifndef CERTS_CA_INTERNAL_H
#define CERTS_CA_INTERNAL_H

#include <time.h>

#include "certs/ca.h"
#include "certs/leaf.h"

struct leaves; /* leaf.c */

struct ca {
    unsigned references;
    X509 *certificate; /* the first of the chain */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    const EVP_MD *digest;      /* of signatures; NULL for Ed25519, which takes none */
    ASN1_OCTET_STRING *key_id; /* for the authority key identifier of what is signed */
    AUTHORITY_KEYID *authority;
    char *origin;          /* how messages call it, "CA at ca.crt" */
    struct buf crl;        /* empty until it is asked for */
    struct leaves *leaves; /* NULL until the first */
};

/* Takes chain, which is not empty, and key over, whatever the result. NULL when the library cannot
 * make what is needed. */
struct ca *ca_new(STACK_OF(X509) * chain, EVP_PKEY *key, const char *origin);

/* RSA, EC or Ed25519. */
bool ca_key_kind_ok(const EVP_PKEY *key);
/* The digest that a key of such a kind signs with. */
const EVP_MD *ca_key_digest(const EVP_PKEY *key);

/* Why clients will take no certificate signed by this one; NULL when nothing speaks against it. */
const char *ca_unfit(X509 *certificate);

/* PKCS #8, for `srt ca create` alone. The caller wipes *out, which must have room at once. */
bool ca_key_pem(const struct ca *ca, struct buf *out);

void leaves_free(struct leaves *leaves);
/* leaf_get() at a given time. */
bool leaf_get_at(struct ca *ca, const char *name, size_t n, enum leaf_kind kind, time_t now,
                 struct leaf *out);

#endif
