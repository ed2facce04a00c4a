/*
 * Certificates as JVMs read them: a PKCS #12 file (RFC 7292) in which each has
 * the attribute that makes it a trusted one for the JDK, 8 and later.
 */
#ifndef CERTS_TRUST_STORE_H
#define CERTS_TRUST_STORE_H

#include <stdbool.h>

#include <openssl/x509.h>

#include "base/buf.h"

/* No secret: nothing is encrypted, and readers ask for one. */
#define TRUST_STORE_PASSWORD "changeit"

/* Appends the store, DER. */
bool trust_store_make(STACK_OF(X509) * certificates, struct buf *out);

#endif
