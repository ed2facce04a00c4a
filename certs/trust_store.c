#include "certs/trust_store.h"

#include <stdio.h>

#include <openssl/err.h>
#include <openssl/pkcs12.h>

/* The uses an entry is trusted for; without it the JDK takes a certificate for part of a chain. */
static const char trusted_usage[] = "2.16.840.1.113894.746875.1.1";

enum { ALIAS_MAX = 32 };

/* Of entries with one alias a JVM keeps the last. */
static bool add_certificate(STACK_OF(PKCS12_SAFEBAG) * *bags, X509 *certificate, int number)
{
    char alias[ALIAS_MAX];
    const ASN1_OBJECT *any = OBJ_nid2obj(NID_anyExtendedKeyUsage);
    PKCS12_SAFEBAG *bag = PKCS12_add_cert(bags, certificate);

    snprintf(alias, sizeof alias, "srt-%d", number);
    /* Length -1: the value is an object, not the bytes of one. */
    return bag != NULL && PKCS12_add_friendlyname_utf8(bag, alias, -1) == 1 &&
           PKCS12_add1_attr_by_txt(bag, trusted_usage, V_ASN1_OBJECT, (const unsigned char *)any,
                                   -1) == 1;
}

static bool add_all(STACK_OF(PKCS12_SAFEBAG) * *bags, STACK_OF(X509) * certificates)
{
    bool ok = true;

    for (int i = 0; ok && i < sk_X509_num(certificates); i++)
        ok = add_certificate(bags, sk_X509_value(certificates, i), i);
    return ok;
}

/* Nothing is encrypted; the digest of the whole is there because some readers want one, with the
 * algorithm that all of them know. */
static PKCS12 *pack(STACK_OF(PKCS12_SAFEBAG) * bags)
{
    STACK_OF(PKCS7) *safes = NULL;
    PKCS12 *store = NULL;

    if (PKCS12_add_safe(&safes, bags, -1, 0, NULL) == 1)
        store = PKCS12_add_safes(safes, 0);
    if (store != NULL &&
        PKCS12_set_mac(store, TRUST_STORE_PASSWORD, -1, NULL, 0, 1, EVP_sha1()) != 1) {
        PKCS12_free(store);
        store = NULL;
    }
    sk_PKCS7_pop_free(safes, PKCS7_free);
    return store;
}

bool trust_store_make(STACK_OF(X509) * certificates, struct buf *out)
{
    STACK_OF(PKCS12_SAFEBAG) *bags = sk_PKCS12_SAFEBAG_new_null();
    PKCS12 *store = NULL;
    unsigned char *der = NULL;
    bool ok = false;

    if (bags != NULL && add_all(&bags, certificates))
        store = pack(bags);
    int n = store != NULL ? i2d_PKCS12(store, &der) : -1;
    if (n > 0)
        ok = buf_append(out, der, (size_t)n);
    OPENSSL_free(der);
    PKCS12_free(store);
    sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
    ERR_clear_error();
    return ok;
}
