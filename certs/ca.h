/*
 * The certification authority that terminated tunnels are answered by: given as
 * files, as PEM from a descriptor, or made for this run and never written.
 * Its key stays in memory. Chapter 30 sections 2 and 10.
 */
#ifndef CERTS_CA_H
#define CERTS_CA_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/buf.h"

struct ca; /* counted */

/* Section 2.1. NULL with the message (without "Error: " and newline) in *error. Files are read
 * whole, at most 1 MiB each, before anything is served: it may block. RSA, EC and Ed25519 keys. */
struct ca *ca_load(const char *certificate_path, const char *key_path, struct buf *error);
/* Section 10: the first key and the first certificate of PEM text, in either order. */
struct ca *ca_load_pem(const void *pem, size_t n, struct buf *error);
/* Section 2.2, for this run alone. NULL with a line in *error. */
struct ca *ca_ephemeral(struct buf *error);
/* The same as a pair to keep (`srt ca create`): EC P-256, 10 years, the subject given. */
struct ca *ca_create(const char *common_name, struct buf *error);

struct ca *ca_ref(struct ca *ca);
void ca_unref(struct ca *ca); /* NULL is fine; the last one wipes the key */

/* Appends lines (with newlines) for a CA that is expired or no CA. */
void ca_warnings(const struct ca *ca, struct buf *warnings);

X509 *ca_certificate(const struct ca *ca);      /* borrowed */
STACK_OF(X509) * ca_chain(const struct ca *ca); /* borrowed: all that is sent after a leaf */
bool ca_certificates_pem(const struct ca *ca, struct buf *out);

/* Section 2.4: the empty CRL, DER, signed once and kept; borrowed. NULL when it cannot be made. */
const struct buf *ca_crl(struct ca *ca);

#endif
