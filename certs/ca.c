#include "certs/ca.h"

#include <stdlib.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "certs/ca_internal.h"
#include "certs/fields.h"
#include "certs/pem.h"

enum { CRL_MAX = 65536 };

bool ca_key_kind_ok(const EVP_PKEY *key)
{
    int kind = EVP_PKEY_get_base_id(key);

    return kind == EVP_PKEY_RSA || kind == EVP_PKEY_EC || kind == EVP_PKEY_ED25519;
}

const EVP_MD *ca_key_digest(const EVP_PKEY *key)
{
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

struct ca *ca_new(STACK_OF(X509) * chain, EVP_PKEY *key, const char *origin)
{
    struct ca *ca = mem_alloc(sizeof *ca);

    ca->references = 1;
    ca->chain = chain;
    ca->certificate = sk_X509_value(chain, 0);
    ca->key = key;
    ca->digest = ca_key_digest(key);
    ca->origin = mem_dup(origin);
    buf_init(&ca->crl, CRL_MAX);
    ca->key_id = field_key_id(ca->certificate);
    if (ca->key_id != NULL)
        ca->authority = field_authority(ca->key_id);
    if (ca->authority != NULL)
        return ca;
    ERR_clear_error();
    ca_unref(ca);
    return NULL;
}

struct ca *ca_ref(struct ca *ca)
{
    ca->references++;
    return ca;
}

void ca_unref(struct ca *ca)
{
    if (ca == NULL || --ca->references != 0)
        return;
    leaves_free(ca->leaves);
    buf_free(&ca->crl);
    AUTHORITY_KEYID_free(ca->authority);
    ASN1_OCTET_STRING_free(ca->key_id);
    EVP_PKEY_free(ca->key);
    sk_X509_pop_free(ca->chain, X509_free);
    free(ca->origin);
    free(ca);
}

const char *ca_unfit(X509 *certificate)
{
    int purpose = X509_check_ca(certificate);

    ERR_clear_error();
    if (purpose == 1)
        return NULL;
    if ((X509_get_extension_flags(certificate) & EXFLAG_BCONS) == 0)
        return "it has no basicConstraints with CA:TRUE";
    if ((X509_get_extension_flags(certificate) & EXFLAG_CA) == 0)
        return "its basicConstraints say CA:FALSE";
    return "its keyUsage does not include keyCertSign";
}

void ca_warnings(const struct ca *ca, struct buf *warnings)
{
    const char *unfit = ca_unfit(ca->certificate);
    char text[FIELD_TIME_MAX];
    time_t end;

    if (field_time(X509_get0_notAfter(ca->certificate), &end) && end < time(NULL)) {
        field_time_text(end, text);
        buf_printf(warnings,
                   "srt: warning: tlsTerminate: %s expired on %s: clients will refuse what it "
                   "signs\n",
                   ca->origin, text);
    }
    if (unfit != NULL)
        buf_printf(
            warnings,
            "srt: warning: tlsTerminate: %s is not a CA certificate: %s: clients will refuse "
            "what it signs\n",
            ca->origin, unfit);
}

X509 *ca_certificate(const struct ca *ca)
{
    return ca->certificate;
}

STACK_OF(X509) * ca_chain(const struct ca *ca)
{
    return ca->chain;
}

bool ca_certificates_pem(const struct ca *ca, struct buf *out)
{
    for (int i = 0; i < sk_X509_num(ca->chain); i++)
        if (!pem_append_certificate(out, sk_X509_value(ca->chain, i)))
            return false;
    return true;
}

bool ca_key_pem(const struct ca *ca, struct buf *out)
{
    PKCS8_PRIV_KEY_INFO *info = EVP_PKEY2PKCS8(ca->key);
    unsigned char *der = NULL;
    int n = info != NULL ? i2d_PKCS8_PRIV_KEY_INFO(info, &der) : 0;
    bool ok = n > 0 && pem_append(out, "PRIVATE KEY", der, (size_t)n);

    OPENSSL_clear_free(der, n > 0 ? (size_t)n : 0);
    PKCS8_PRIV_KEY_INFO_free(info);
    ERR_clear_error();
    return ok;
}
