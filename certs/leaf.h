/*
 * Certificates for the names that clients ask for, minted when first needed and
 * kept: the 256 latest of a CA. Chapter 30 section 4.
 */
#ifndef CERTS_LEAF_H
#define CERTS_LEAF_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "certs/ca.h"

enum { LEAVES_MAX = 256, LEAF_NAME_MAX = 253 };

enum leaf_kind {
    LEAF_EC, /* P-256 */
    LEAF_RSA /* for a client whose signature_algorithms have no ECDSA */
};

struct leaf {
    X509 *certificate;
    EVP_PKEY *key; /* of the CA's leaves of this kind */
};

/* Makes the key of the CA's leaves of a kind, so that no tunnel waits for it: an RSA key takes a
 * tenth of a second or three. False when that fails. */
bool leaf_prepare(struct ca *ca, enum leaf_kind kind);

/* The leaf for a name in lower case (an IP literal gives an IP SAN). Minted, or from the cache
 * unless within a day of its end. False when minting fails. The caller gets references of its own:
 * leaf_release(). */
bool leaf_get(struct ca *ca, const char *name, size_t n, enum leaf_kind kind, struct leaf *out);
void leaf_release(struct leaf *leaf);

#endif
