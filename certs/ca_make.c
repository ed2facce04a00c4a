/* CAs that are made here: one for a run, and one to keep. Chapter 30 section 2.2. */
#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

#include "certs/ca_internal.h"
#include "certs/fields.h"

enum { EPHEMERAL_BITS = 2048, EPHEMERAL_DAYS = 825, KEPT_DAYS = 3650 };

static const char ephemeral_name[] = "sandbox-runtime ephemeral CA";
static const char ephemeral_organisation[] = "sandbox-runtime";

static bool fill(X509 *x, EVP_PKEY *key, const char *common_name, const char *organisation,
                 int days)
{
    X509_NAME *name = X509_NAME_new();
    ASN1_OCTET_STRING *id = NULL;
    time_t now = time(NULL);
    bool ok = name != NULL &&
              field_basics(x, now - SECONDS_A_DAY, now + (time_t)days * SECONDS_A_DAY) &&
              field_name(name, NID_commonName, common_name, strlen(common_name)) &&
              (organisation == NULL ||
               field_name(name, NID_organizationName, organisation, strlen(organisation))) &&
              X509_set_subject_name(x, name) == 1 && X509_set_issuer_name(x, name) == 1 &&
              X509_set_pubkey(x, key) == 1 && (id = field_key_digest(x)) != NULL &&
              field_constraints(x, true) &&
              field_key_usage(x, USAGE_SIGN | USAGE_SIGN_CERTIFICATES | USAGE_SIGN_CRL) &&
              field_subject_key_id(x, id) && X509_sign(x, key, ca_key_digest(key)) > 0;

    ASN1_OCTET_STRING_free(id);
    X509_NAME_free(name);
    return ok;
}

/* Takes key over; NULL is one that could not be made. */
static struct ca *make(EVP_PKEY *key, const char *common_name, const char *organisation, int days,
                       const char *origin, struct buf *error)
{
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509 *x = X509_new();
    struct ca *ca = NULL;

    if (key == NULL || chain == NULL || x == NULL ||
        !fill(x, key, common_name, organisation, days) || sk_X509_push(chain, x) <= 0)
        goto out;
    x = NULL;
    ca = ca_new(chain, key, origin);
    chain = NULL;
    key = NULL;
out:
    if (ca == NULL)
        buf_puts(error, "tlsTerminate: no CA could be made");
    EVP_PKEY_free(key);
    X509_free(x);
    sk_X509_pop_free(chain, X509_free);
    ERR_clear_error();
    return ca;
}

struct ca *ca_ephemeral(struct buf *error)
{
    return make(EVP_RSA_gen(EPHEMERAL_BITS), ephemeral_name, ephemeral_organisation, EPHEMERAL_DAYS,
                "ephemeral CA", error);
}

struct ca *ca_create(const char *common_name, struct buf *error)
{
    return make(EVP_EC_gen("P-256"), common_name, NULL, KEPT_DAYS, "new CA", error);
}
