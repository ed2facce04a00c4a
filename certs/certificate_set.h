/*
 * Certificates written down once each, told apart by all of their DER. Only
 * certificates: whatever else a PEM text holds, private keys above all, does not
 * get through.
 */
#ifndef CERTS_CERTIFICATE_SET_H
#define CERTS_CERTIFICATE_SET_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/x509.h>

#include "base/buf.h"

struct certificate_set;

struct certificate_set *certificate_set_new(void);
void certificate_set_free(struct certificate_set *set);

/* Appends each certificate of the text that is new to *out, as PEM. Returns how many certificates
 * the text has, new or not; a block that is no whole certificate does not count. */
size_t certificate_set_add_pem(struct certificate_set *set, const void *text, size_t n,
                               struct buf *out);
/* Those that were new, in their order; borrowed. */
STACK_OF(X509) * certificate_set_all(const struct certificate_set *set);

#endif
