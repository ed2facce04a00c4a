/* Chapter 30 section 4: subject, alternative name and validity of leaves. */
#include "tests/vectors/vectors.h"

#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "certs/ca.h"
#include "certs/leaf.h"

enum { DAY = 86400 };

/* Any authority that ends so many days from now; NULL when the library fails. */
static struct ca *authority(int days, struct buf *why)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    struct ca *ca = NULL;

    if (key != NULL && x != NULL && bio != NULL && X509_set_version(x, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set(X509_get_serialNumber(x), 1) == 1 &&
        ASN1_TIME_set(X509_getm_notBefore(x), time(NULL) - DAY) != NULL &&
        ASN1_TIME_set(X509_getm_notAfter(x), time(NULL) + (time_t)days * DAY) != NULL &&
        X509_set_pubkey(x, key) == 1 && X509_sign(x, key, EVP_sha256()) > 0 &&
        PEM_write_bio_X509(bio, x) == 1 &&
        PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1) {
        long n = BIO_get_mem_data(bio, &text);
        ca = ca_load_pem(text, (size_t)n, why);
    }
    BIO_free(bio);
    X509_free(x);
    EVP_PKEY_free(key);
    return ca;
}

static bool validity_row(const json_t *row, struct buf *why)
{
    struct ca *ca = authority((int)json_integer_value(json_object_get(row, "caDays")), why);
    json_int_t want = json_integer_value(json_object_get(row, "validity"));
    struct leaf leaf = {0};
    int days = 0;
    int seconds = 0;
    bool ok = ca != NULL && leaf_get(ca, "ok.test", strlen("ok.test"), LEAF_EC, &leaf) &&
              ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(leaf.certificate),
                             X509_get0_notAfter(leaf.certificate)) == 1;

    /* A second may pass between the making of the two. */
    if (seconds > DAY / 2)
        days++;
    buf_printf(why, "got %d days, wanted %d", days, (int)want);
    leaf_release(&leaf);
    ca_unref(ca);
    return ok && days == want;
}

static bool same_text(const ASN1_STRING *got, const char *want, const char *what, struct buf *why)
{
    const unsigned char *p = ASN1_STRING_get0_data(got);
    size_t n = (size_t)ASN1_STRING_length(got);

    if (want != NULL && n == strlen(want) && memcmp(p, want, n) == 0)
        return true;
    buf_printf(why, "%s: got %.*s, wanted %s; ", what, (int)n, (const char *)p,
               want != NULL ? want : "nothing");
    return false;
}

static bool same_bytes(const ASN1_STRING *got, const char *want, struct buf *why)
{
    char *hex = OPENSSL_buf2hexstr(ASN1_STRING_get0_data(got), ASN1_STRING_length(got));
    size_t at = 0;
    bool ok = hex != NULL && want != NULL;

    /* "7F:00:00:01" beside "7f000001". */
    for (const char *p = hex; ok && *p != '\0'; p++)
        if (*p != ':')
            ok = want[at] != '\0' && OPENSSL_hexchar2int((unsigned char)*p) ==
                                         OPENSSL_hexchar2int((unsigned char)want[at++]);
    ok = ok && want[at] == '\0';
    if (!ok)
        buf_printf(why, "ip: got %s, wanted %s; ", hex, want != NULL ? want : "nothing");
    OPENSSL_free(hex);
    return ok;
}

static bool same_names(const GENERAL_NAMES *names, const json_t *want, struct buf *why)
{
    bool ok = sk_GENERAL_NAME_num(names) == (int)json_array_size(want);

    if (!ok)
        buf_printf(why, "got %d names; ", sk_GENERAL_NAME_num(names));
    for (int i = 0; ok && i < sk_GENERAL_NAME_num(names); i++) {
        const json_t *entry = json_array_get(want, (size_t)i);
        const char *kind = json_string_value(json_object_get(entry, "type"));
        const char *value = json_string_value(json_object_get(entry, "value"));
        int type;
        const ASN1_STRING *got = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        bool address = kind != NULL && strcmp(kind, "ip") == 0;
        if (type != (address ? GEN_IPADD : GEN_DNS)) {
            buf_printf(why, "got a name of type %d; ", type);
            ok = false;
        } else {
            ok = address ? same_bytes(got, value, why) : same_text(got, value, "dns", why);
        }
    }
    return ok;
}

static bool name_row(const json_t *row, struct buf *why)
{
    const json_t *host = json_object_get(row, "host");
    struct ca *ca = authority(825, why);
    struct leaf leaf = {0};
    bool ok = ca != NULL &&
              leaf_get(ca, json_string_value(host), json_string_length(host), LEAF_EC, &leaf);

    if (!ok) {
        buf_puts(why, "no leaf");
    } else {
        GENERAL_NAMES *names = X509_get_ext_d2i(leaf.certificate, NID_subject_alt_name, NULL, NULL);
        const X509_NAME *subject = X509_get_subject_name(leaf.certificate);
        int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
        ok = at >= 0 && X509_NAME_entry_count(subject) == 1 &&
             same_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)),
                       json_string_value(json_object_get(row, "cn")), "cn", why);
        ok = same_names(names, json_object_get(row, "san"), why) && ok;
        GENERAL_NAMES_free(names);
    }
    leaf_release(&leaf);
    ca_unref(ca);
    return ok;
}

static bool leaf_row(const json_t *row, struct buf *why)
{
    return json_object_get(row, "caDays") != NULL ? validity_row(row, why) : name_row(row, why);
}

const struct vector_file vectors_tls[] = {
    {"tls-leaf", leaf_row},
    {NULL, NULL},
};
