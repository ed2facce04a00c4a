/* The empty revocation list of a CA: chapter 30 section 2.4. */
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "certs/ca_internal.h"
#include "certs/fields.h"

static bool set_times(X509_CRL *crl, const struct ca *ca, time_t now)
{
    ASN1_TIME *from = ASN1_TIME_set(NULL, now);
    ASN1_TIME *until = ASN1_TIME_set(NULL, now + SECONDS_A_DAY);
    time_t end;
    bool lasts = field_time(X509_get0_notAfter(ca->certificate), &end) && end > now;
    bool ok =
        from != NULL && until != NULL && X509_CRL_set1_lastUpdate(crl, from) == 1 &&
        X509_CRL_set1_nextUpdate(crl, lasts ? X509_get0_notAfter(ca->certificate) : until) == 1;

    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    return ok;
}

static bool set_extensions(X509_CRL *crl, const struct ca *ca)
{
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    bool ok = number != NULL && ASN1_INTEGER_set(number, 1) == 1 &&
              X509_CRL_add1_ext_i2d(crl, NID_authority_key_identifier, ca->authority, 0,
                                    X509V3_ADD_APPEND) == 1 &&
              X509_CRL_add1_ext_i2d(crl, NID_crl_number, number, 0, X509V3_ADD_APPEND) == 1;

    ASN1_INTEGER_free(number);
    return ok;
}

const struct buf *ca_crl(struct ca *ca)
{
    if (buf_len(&ca->crl) != 0)
        return &ca->crl;
    X509_CRL *crl = X509_CRL_new();
    unsigned char *der = NULL;
    int n = 0;

    if (crl != NULL && X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1 &&
        X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->certificate)) == 1 &&
        set_times(crl, ca, time(NULL)) && set_extensions(crl, ca) &&
        X509_CRL_sign(crl, ca->key, ca->digest) > 0)
        n = i2d_X509_CRL(crl, &der);
    bool ok = n > 0 && buf_append(&ca->crl, der, (size_t)n);
    OPENSSL_free(der);
    X509_CRL_free(crl);
    ERR_clear_error();
    return ok ? &ca->crl : NULL;
}
