/*
 * PEM text (RFC 7468, RFC 1421 headers): its blocks, one after the other, and
 * the DER in them. Text between blocks is skipped; a block without its end line
 * is none. No block is ever decrypted, so that nothing here can ask a terminal
 * for a password.
 */
#ifndef CERTS_PEM_H
#define CERTS_PEM_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/x509.h>

#include "base/buf.h"

struct pem { /* private */
    const char *at, *end;
};

struct pem_block { /* points into the text */
    const char *label, *body;
    size_t label_len, body_len;
};

void pem_start(struct pem *pem, const void *text, size_t n);
bool pem_next(struct pem *pem, struct pem_block *block);

bool pem_is(const struct pem_block *block, const char *label);
/* By its label, and not one with trust settings of some library behind it. */
bool pem_is_certificate(const struct pem_block *block);
/* True when a line "-----BEGIN <capitals and spaces><word>-----" is there, whatever follows. */
bool pem_names(const void *text, size_t n, const char *word);

/* The DER of a block whose headers, if any, are skipped. Wipe it with buf_wipe() when it is a key:
 * there is no other copy. False, with *der empty, when it is not base64. */
bool pem_decode(const struct pem_block *block, struct buf *der);

/* The certificate in a block, which is DER and nothing behind it; NULL when there is none. */
X509 *pem_certificate(const struct pem_block *block);

/* Appends a block of lines of 64 characters. */
bool pem_append(struct buf *out, const char *label, const void *der, size_t n);
bool pem_append_certificate(struct buf *out, X509 *certificate);

#endif
