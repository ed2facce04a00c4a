#include "certs/ca_show.h"

#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "certs/ca_internal.h"
#include "certs/fields.h"
#include "certs/file.h"
#include "certs/pem.h"

enum { FILE_MAX = 1 << 20, SAFE_RSA_BITS = 2048, CURVE_NAME_MAX = 64 };

/* What else than the first certificate a file holds. */
struct rest {
    unsigned certificates;
    bool key;
};

static X509 *first_certificate(const struct buf *text, struct rest *rest)
{
    X509 *first = NULL;
    struct pem_block block;
    struct pem pem;

    *rest = (struct rest){0};
    pem_start(&pem, buf_data(text), buf_len(text));
    while (pem_next(&pem, &block)) {
        X509 *x = pem_is_certificate(&block) ? pem_certificate(&block) : NULL;
        if (first == NULL)
            first = x;
        else if (x != NULL) {
            rest->certificates++;
            X509_free(x);
        }
    }
    rest->key = pem_names(buf_data(text), buf_len(text), "PRIVATE KEY");
    return first;
}

/* Everything but printable ASCII comes out escaped. */
static void show_name(struct buf *out, const char *title, const X509_NAME *name)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;

    if (bio != NULL && X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~XN_FLAG_SPC_EQ) >= 0) {
        long n = BIO_get_mem_data(bio, &text);
        buf_printf(out, "%-22s %.*s\n", title, (int)n, n > 0 ? text : "");
    }
    BIO_free(bio);
}

static void show_time(struct buf *out, const char *title, const ASN1_TIME *when)
{
    char text[FIELD_TIME_MAX] = "an unknown time";
    time_t t;

    if (field_time(when, &t))
        field_time_text(t, text);
    buf_printf(out, "%-22s %s\n", title, text);
}

static void show_key(struct buf *out, EVP_PKEY *key)
{
    char curve[CURVE_NAME_MAX];
    const char *kind = key != NULL ? EVP_PKEY_get0_type_name(key) : NULL;

    buf_printf(out, "%-22s ", "key:");
    if (kind == NULL) {
        buf_puts(out, "of an unknown kind\n");
        return;
    }
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
        EVP_PKEY_get_group_name(key, curve, sizeof curve, NULL) == 1) {
        const char *common = EC_curve_nid2nist(OBJ_sn2nid(curve));
        buf_printf(out, "EC %s\n", common != NULL ? common : curve);
    } else if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA) {
        buf_printf(out, "RSA, %d bits\n", EVP_PKEY_get_bits(key));
    } else {
        buf_printf(out, "%s\n", EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? "Ed25519" : kind);
    }
}

static void show_fingerprint(struct buf *out, const char *title, const unsigned char *digest,
                             unsigned n)
{
    buf_printf(out, "%-22s ", title);
    for (unsigned i = 0; i < n; i++)
        buf_printf(out, "%s%02X", i != 0 ? ":" : "", digest[i]);
    buf_puts(out, "\n");
}

static void show_fingerprints(struct buf *out, X509 *x)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char *der = NULL;
    unsigned n;
    int length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &der);

    if (X509_digest(x, EVP_sha256(), digest, &n) == 1)
        show_fingerprint(out, "SHA-256:", digest, n);
    if (length > 0 && EVP_Digest(der, (size_t)length, digest, &n, EVP_sha256(), NULL) == 1)
        show_fingerprint(out, "SHA-256 of the key:", digest, n);
    OPENSSL_free(der);
}

static bool has_critical_constraints(const X509 *x)
{
    int at = X509_get_ext_by_NID(x, NID_basic_constraints, -1);

    return at >= 0 && X509_EXTENSION_get_critical(X509_get_ext(x, at)) == 1;
}

static void show_time_warnings(struct buf *out, const X509 *x)
{
    time_t now = time(NULL);
    time_t t;

    if (field_time(X509_get0_notBefore(x), &t) && t > now)
        buf_puts(out, "warning: it is not valid yet: srt refuses to start with it\n");
    if (field_time(X509_get0_notAfter(x), &t) && t < now)
        buf_puts(out, "warning: it has expired: clients will refuse what it signs\n");
}

static void show_warnings(struct buf *out, X509 *x, const struct rest *rest)
{
    EVP_PKEY *key = X509_get0_pubkey(x);

    show_time_warnings(out, x);
    if (key == NULL || !ca_key_kind_ok(key))
        buf_puts(out, "warning: srt signs with RSA, EC and Ed25519 keys only\n");
    else if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) < SAFE_RSA_BITS)
        buf_puts(out, "warning: many clients refuse RSA keys of fewer than 2048 bits\n");
    else if (EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519)
        buf_puts(out, "warning: browsers and some other clients do not know Ed25519\n");
    if (ca_unfit(x) == NULL && !has_critical_constraints(x))
        buf_puts(out, "warning: basicConstraints is not critical: strict clients refuse it\n");
    if (X509_get0_subject_key_id(x) == NULL)
        buf_puts(out, "warning: there is no subjectKeyIdentifier: strict clients refuse it\n");
    if (rest->key)
        buf_puts(out, "warning: the file holds a private key, too: give nobody a copy of it\n");
}

bool ca_show(const char *path, struct buf *out, struct buf *error)
{
    struct buf content;
    struct rest rest;
    X509 *x = NULL;

    int number = file_read(path, FILE_MAX, false, &content);
    if (number != 0) {
        buf_printf(error, "%s: %s", path, strerror(number));
    } else if ((x = first_certificate(&content, &rest)) == NULL) {
        buf_printf(error, "%s: there is no certificate in it", path);
    } else {
        const char *unfit = ca_unfit(x);
        show_name(out, "subject:", X509_get_subject_name(x));
        if (X509_NAME_cmp(X509_get_subject_name(x), X509_get_issuer_name(x)) != 0)
            show_name(out, "issuer:", X509_get_issuer_name(x));
        show_time(out, "valid from:", X509_get0_notBefore(x));
        show_time(out, "valid until:", X509_get0_notAfter(x));
        show_key(out, X509_get0_pubkey(x));
        show_fingerprints(out, x);
        buf_printf(out, "%-22s %s%s\n", "can serve as a CA:", unfit == NULL ? "yes" : "no: ",
                   unfit == NULL ? "" : unfit);
        if (rest.certificates != 0)
            buf_printf(out, "%-22s %u, sent behind each leaf\n",
                       "further certificates:", rest.certificates);
        show_warnings(out, x, &rest);
    }
    X509_free(x);
    ERR_clear_error();
    buf_wipe(&content);
    return x != NULL;
}
