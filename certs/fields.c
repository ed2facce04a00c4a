#include "certs/fields.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <openssl/rand.h>

enum { SERIAL_BYTES = 16, ADDRESS_TEXT_MAX = 45 };

/* Random, positive, and without a leading zero byte: the two top bits are 01. */
static bool set_serial(X509 *x)
{
    unsigned char bytes[SERIAL_BYTES];

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40);
    return ASN1_STRING_set(X509_get_serialNumber(x), bytes, sizeof bytes) == 1;
}

bool field_basics(X509 *x, time_t not_before, time_t not_after)
{
    return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
           ASN1_TIME_set(X509_getm_notBefore(x), not_before) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(x), not_after) != NULL;
}

bool field_name(X509_NAME *name, int nid, const char *text, size_t n)
{
    X509_NAME_ENTRY *entry = X509_NAME_ENTRY_new();
    /* A type without MBSTRING_FLAG: the bytes are taken, no table of lengths is asked. */
    bool ok =
        entry != NULL && n <= INT_MAX && X509_NAME_ENTRY_set_object(entry, OBJ_nid2obj(nid)) == 1 &&
        X509_NAME_ENTRY_set_data(entry, V_ASN1_UTF8STRING, (const unsigned char *)text, (int)n) ==
            1 &&
        X509_NAME_add_entry(name, entry, -1, 0) == 1;

    X509_NAME_ENTRY_free(entry);
    return ok;
}

static bool add(X509 *x, int nid, void *value, bool critical)
{
    return X509_add1_ext_i2d(x, nid, value, critical ? 1 : 0, X509V3_ADD_APPEND) == 1;
}

bool field_constraints(X509 *x, bool ca)
{
    BASIC_CONSTRAINTS *constraints = BASIC_CONSTRAINTS_new();

    if (constraints == NULL)
        return false;
    constraints->ca = ca ? 0xff : 0;
    bool ok = add(x, NID_basic_constraints, constraints, true);
    BASIC_CONSTRAINTS_free(constraints);
    return ok;
}

bool field_key_usage(X509 *x, unsigned usage)
{
    ASN1_BIT_STRING *bits = ASN1_BIT_STRING_new();
    bool ok = bits != NULL;

    for (int bit = 0; ok && bit < 8; bit++)
        if ((usage & 1U << bit) != 0)
            ok = ASN1_BIT_STRING_set_bit(bits, bit, 1) == 1;
    ok = ok && add(x, NID_key_usage, bits, true);
    ASN1_BIT_STRING_free(bits);
    return ok;
}

bool field_server_auth(X509 *x)
{
    EXTENDED_KEY_USAGE *usage = sk_ASN1_OBJECT_new_null();
    bool ok = usage != NULL && sk_ASN1_OBJECT_push(usage, OBJ_nid2obj(NID_server_auth)) > 0 &&
              add(x, NID_ext_key_usage, usage, false);

    sk_ASN1_OBJECT_free(usage);
    return ok;
}

/* The bytes of an address, 4 or 16; 0 for everything else. */
static int address_bytes(const char *name, size_t n, unsigned char bytes[16])
{
    char text[ADDRESS_TEXT_MAX + 1];

    if (n > ADDRESS_TEXT_MAX)
        return 0;
    memcpy(text, name, n);
    text[n] = '\0';
    if (inet_pton(AF_INET, text, bytes) == 1)
        return 4;
    return inet_pton(AF_INET6, text, bytes) == 1 ? 16 : 0;
}

bool field_alternative_name(X509 *x, const char *name, size_t n)
{
    unsigned char bytes[16];
    int length = address_bytes(name, n, bytes);
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *entry = GENERAL_NAME_new();
    ASN1_STRING *value = ASN1_STRING_type_new(length != 0 ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
    bool ok = false;

    if (names == NULL || entry == NULL || value == NULL || n > INT_MAX)
        goto out;
    if (ASN1_STRING_set(value, length != 0 ? (const void *)bytes : name,
                        length != 0 ? length : (int)n) != 1)
        goto out;
    GENERAL_NAME_set0_value(entry, length != 0 ? GEN_IPADD : GEN_DNS, value);
    value = NULL;
    if (sk_GENERAL_NAME_push(names, entry) <= 0)
        goto out;
    entry = NULL;
    ok = add(x, NID_subject_alt_name, names, false);
out:
    ASN1_STRING_free(value);
    GENERAL_NAME_free(entry);
    GENERAL_NAMES_free(names);
    return ok;
}

ASN1_OCTET_STRING *field_key_digest(const X509 *x)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    ASN1_OCTET_STRING *id = ASN1_OCTET_STRING_new();

    if (id != NULL && X509_pubkey_digest(x, EVP_sha1(), digest, &n) == 1 &&
        ASN1_OCTET_STRING_set(id, digest, (int)n) == 1)
        return id;
    ASN1_OCTET_STRING_free(id);
    return NULL;
}

ASN1_OCTET_STRING *field_key_id(X509 *x)
{
    const ASN1_OCTET_STRING *own = X509_get0_subject_key_id(x);

    return own != NULL ? ASN1_OCTET_STRING_dup(own) : field_key_digest(x);
}

bool field_subject_key_id(X509 *x, ASN1_OCTET_STRING *id)
{
    return add(x, NID_subject_key_identifier, id, false);
}

AUTHORITY_KEYID *field_authority(const ASN1_OCTET_STRING *key_id)
{
    AUTHORITY_KEYID *authority = AUTHORITY_KEYID_new();

    if (authority == NULL)
        return NULL;
    authority->keyid = ASN1_OCTET_STRING_dup(key_id);
    if (authority->keyid != NULL)
        return authority;
    AUTHORITY_KEYID_free(authority);
    return NULL;
}

bool field_time(const ASN1_TIME *t, time_t *out)
{
    struct tm parts;

    if (t == NULL || ASN1_TIME_to_tm(t, &parts) != 1)
        return false;
    *out = timegm(&parts);
    return true;
}

void field_time_text(time_t t, char out[FIELD_TIME_MAX])
{
    struct tm parts;

    if (gmtime_r(&t, &parts) == NULL ||
        strftime(out, FIELD_TIME_MAX, "%Y-%m-%dT%H:%M:%S.000Z", &parts) == 0)
        snprintf(out, FIELD_TIME_MAX, "an unknown time");
}
