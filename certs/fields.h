/*
 * The fields of the certificates made here: names, serial numbers, times and
 * extensions. Each returns false when the library is out of memory or random
 * bytes. RFC 5280; chapter 30 sections 2 and 4.
 */
#ifndef CERTS_FIELDS_H
#define CERTS_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <openssl/x509.h>
#include <openssl/x509v3.h>

enum { SECONDS_A_DAY = 86400 };

enum key_usage { /* the bits of RFC 5280 section 4.2.1.3, to be combined */
                 USAGE_SIGN = 1 << 0,
                 USAGE_ENCIPHER_KEY = 1 << 2,
                 USAGE_SIGN_CERTIFICATES = 1 << 5,
                 USAGE_SIGN_CRL = 1 << 6
};

/* Version 3, a serial number of its own, and a validity. */
bool field_basics(X509 *x, time_t not_before, time_t not_after);

/* Appends an attribute of any length, where the library's own way stops at 64 characters. */
bool field_name(X509_NAME *name, int nid, const char *text, size_t n);

bool field_constraints(X509 *x, bool ca);
bool field_key_usage(X509 *x, unsigned usage);
bool field_server_auth(X509 *x);

/* One entry: an address where the name is one in its strict form, else a DNS name as it is. */
bool field_alternative_name(X509 *x, const char *name, size_t n);

/* SHA-1 of the public key: method 1 of RFC 5280 section 4.2.1.2. The caller frees it. */
ASN1_OCTET_STRING *field_key_digest(const X509 *x);
/* The certificate's own key identifier, else the digest. The caller frees it. */
ASN1_OCTET_STRING *field_key_id(X509 *x);
bool field_subject_key_id(X509 *x, ASN1_OCTET_STRING *id);
/* An authority key identifier with the key id alone; the caller frees it. */
AUTHORITY_KEYID *field_authority(const ASN1_OCTET_STRING *key_id);

/* False for a time that is none. */
bool field_time(const ASN1_TIME *t, time_t *out);

enum { FIELD_TIME_MAX = 32 };
/* ISO 8601 with milliseconds, "2030-01-01T00:00:00.000Z". */
void field_time_text(time_t t, char out[FIELD_TIME_MAX]);

#endif
