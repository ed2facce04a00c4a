/* CAs that are given: two files, or PEM text. Chapter 30 sections 2.1 and 10. */
#include <string.h>
#include <time.h>

#include <openssl/err.h>

#include "certs/ca_internal.h"
#include "certs/fields.h"
#include "certs/file.h"
#include "certs/pem.h"

enum { FILE_MAX = 1 << 20, REASON_MAX = 4096 };

static const char *errno_name(int number)
{
    const char *name = strerrorname_np(number);

    return name != NULL ? name : "EIO";
}

/* Reads a file and looks for its label. */
static bool read_file(const char *setting, const char *path, const char *label, struct buf *content,
                      struct buf *error)
{
    int number = file_read(path, FILE_MAX, false, content);

    if (number != 0) {
        buf_printf(error, "tlsTerminate.%s: cannot read %s (%s)", setting, path,
                   errno_name(number));
        return false;
    }
    if (!pem_names(buf_data(content), buf_len(content), label)) {
        buf_printf(error, "tlsTerminate.%s: %s is not a PEM %s", setting, path, label);
        return false;
    }
    return true;
}

static bool is_plain_key(const struct pem_block *block)
{
    return pem_is(block, "PRIVATE KEY") || pem_is(block, "RSA PRIVATE KEY") ||
           pem_is(block, "EC PRIVATE KEY");
}

/* RFC 1421 headers, which traditional encrypted keys have. */
static bool has_headers(const struct pem_block *block)
{
    return memchr(block->body, ':', block->body_len) != NULL;
}

static EVP_PKEY *parse_key(const struct pem_block *block, struct buf *reason)
{
    EVP_PKEY *key = NULL;
    struct buf der;

    if (pem_is(block, "ENCRYPTED PRIVATE KEY") || (is_plain_key(block) && has_headers(block))) {
        buf_puts(reason, "parse: the private key is encrypted");
        return NULL;
    }
    if (!is_plain_key(block)) {
        buf_puts(reason, "parse: the first PEM block is not a private key");
        return NULL;
    }
    buf_init(&der, block->body_len);
    if (pem_decode(block, &der)) {
        const unsigned char *p = buf_data(&der);
        key = d2i_AutoPrivateKey(NULL, &p, (long)buf_len(&der));
    }
    buf_wipe(&der);
    if (key != NULL && ca_key_kind_ok(key))
        return key;
    buf_puts(reason, key == NULL ? "parse: the private key does not parse"
                                 : "parse: the private key is not RSA, EC or Ed25519");
    EVP_PKEY_free(key);
    return NULL;
}

static X509 *parse_certificate(const struct pem_block *block, struct buf *reason)
{
    X509 *x = pem_is_certificate(block) ? pem_certificate(block) : NULL;

    if (x == NULL)
        buf_puts(reason, pem_is_certificate(block)
                             ? "parse: a certificate does not parse"
                             : "parse: the first PEM block is not a certificate");
    return x;
}

/* The first block, which has to be a certificate, and every further certificate. */
static STACK_OF(X509) * parse_chain(const struct buf *text, struct buf *reason)
{
    STACK_OF(X509) *chain = sk_X509_new_null();
    struct pem_block block;
    struct pem pem;
    X509 *x;

    pem_start(&pem, buf_data(text), buf_len(text));
    while (chain != NULL && pem_next(&pem, &block)) {
        if (sk_X509_num(chain) != 0 && !pem_is_certificate(&block))
            continue;
        x = parse_certificate(&block, reason);
        if (x != NULL && sk_X509_push(chain, x) > 0)
            continue;
        X509_free(x);
        break;
    }
    if (buf_len(reason) == 0 && sk_X509_num(chain) > 0)
        return chain;
    if (buf_len(reason) == 0)
        buf_puts(reason, "parse: there is no whole PEM block");
    sk_X509_pop_free(chain, X509_free);
    return NULL;
}

/* The first block. The parameters that some tools write ahead of an EC key are in the key, too. */
static EVP_PKEY *parse_key_file(const struct buf *text, struct buf *reason)
{
    struct pem_block block;
    struct pem pem;

    pem_start(&pem, buf_data(text), buf_len(text));
    while (pem_next(&pem, &block))
        if (!pem_is(&block, "EC PARAMETERS"))
            return parse_key(&block, reason);
    buf_puts(reason, "parse: there is no whole PEM block");
    return NULL;
}

/* Signs something and verifies it: parts of a private key that were tampered with show, where a
 * comparison of public keys would not see them. */
static bool key_works(EVP_PKEY *key, EVP_PKEY *public_key)
{
    static const unsigned char text[] = "srt";
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const EVP_MD *digest = ca_key_digest(key);
    unsigned char *signature = NULL;
    size_t n = 0;
    bool ok = ctx != NULL && EVP_DigestSignInit(ctx, NULL, digest, NULL, key) == 1 &&
              EVP_DigestSign(ctx, NULL, &n, text, sizeof text) == 1 &&
              (signature = OPENSSL_malloc(n)) != NULL &&
              EVP_DigestSign(ctx, signature, &n, text, sizeof text) == 1;

    ok = ok && EVP_MD_CTX_reset(ctx) == 1 &&
         EVP_DigestVerifyInit(ctx, NULL, digest, NULL, public_key) == 1 &&
         EVP_DigestVerify(ctx, signature, n, text, sizeof text) == 1;
    OPENSSL_free(signature);
    EVP_MD_CTX_free(ctx);
    return ok;
}

static bool check_pair(X509 *x, EVP_PKEY *key, struct buf *reason)
{
    EVP_PKEY *public_key = X509_get0_pubkey(x);
    char text[FIELD_TIME_MAX];
    time_t begin;
    time_t end;

    if (public_key == NULL || !ca_key_kind_ok(public_key)) {
        buf_puts(reason, "parse: the certificate's key is not RSA, EC or Ed25519");
        return false;
    }
    if (!field_time(X509_get0_notBefore(x), &begin) || !field_time(X509_get0_notAfter(x), &end)) {
        buf_puts(reason, "parse: the certificate's validity does not parse");
        return false;
    }
    if (begin > time(NULL)) {
        field_time_text(begin, text);
        buf_printf(reason, "notBefore %s is in the future (clock skew?)", text);
        return false;
    }
    if (EVP_PKEY_eq(public_key, key) != 1 || !key_works(key, public_key)) {
        buf_puts(reason, "key does not match certificate public key");
        return false;
    }
    return true;
}

/* Takes chain and key over; NULL stands for one that did not parse, with its reason. */
static struct ca *pair(STACK_OF(X509) * chain, EVP_PKEY *key, const char *origin,
                       struct buf *reason, struct buf *error)
{
    struct ca *ca = NULL;

    if (chain != NULL && key != NULL && check_pair(sk_X509_value(chain, 0), key, reason)) {
        ca = ca_new(chain, key, origin);
        if (ca == NULL)
            buf_puts(reason, "parse: the certificate has no usable key identifier");
    } else {
        sk_X509_pop_free(chain, X509_free);
        EVP_PKEY_free(key);
    }
    if (ca == NULL)
        buf_printf(error, "tlsTerminate: %s: %s", origin, buf_cstr(reason));
    ERR_clear_error();
    return ca;
}

struct ca *ca_load(const char *certificate_path, const char *key_path, struct buf *error)
{
    struct buf certificate;
    struct buf key;
    struct buf reason;
    struct buf origin;
    struct ca *ca = NULL;

    buf_init(&certificate, 0);
    buf_init(&key, 0);
    buf_init(&reason, REASON_MAX);
    buf_init(&origin, strlen(certificate_path) + 16);
    if (!read_file("caCertPath", certificate_path, "CERTIFICATE", &certificate, error) ||
        !read_file("caKeyPath", key_path, "PRIVATE KEY", &key, error))
        goto out;
    buf_printf(&origin, "CA at %s", certificate_path);
    STACK_OF(X509) *chain = parse_chain(&certificate, &reason);
    EVP_PKEY *private_key = chain != NULL ? parse_key_file(&key, &reason) : NULL;
    ca = pair(chain, private_key, buf_cstr(&origin), &reason, error);
out:
    /* The certificate's file may hold a key, too. */
    buf_wipe(&certificate);
    buf_wipe(&key);
    buf_free(&reason);
    buf_free(&origin);
    return ca;
}

/* The first certificate and the first key, each block NULL-labelled when there is none. */
static void find_pair(const void *text, size_t n, struct pem_block *certificate,
                      struct pem_block *key)
{
    struct pem_block block;
    struct pem pem;

    *certificate = *key = (struct pem_block){0};
    pem_start(&pem, text, n);
    while ((certificate->label == NULL || key->label == NULL) && pem_next(&pem, &block)) {
        if (certificate->label == NULL && pem_is_certificate(&block))
            *certificate = block;
        else if (key->label == NULL && is_plain_key(&block))
            *key = block;
    }
}

struct ca *ca_load_pem(const void *pem, size_t n, struct buf *error)
{
    struct pem_block certificate;
    struct pem_block key;
    struct buf reason;

    find_pair(pem, n, &certificate, &key);
    if (certificate.label == NULL || key.label == NULL) {
        buf_puts(error, "proxy-only: the CA PEM needs a private key and a certificate");
        return NULL;
    }
    buf_init(&reason, REASON_MAX);
    STACK_OF(X509) *chain = sk_X509_new_null();
    EVP_PKEY *private_key = NULL;
    X509 *x = parse_certificate(&certificate, &reason);
    if (x != NULL && chain != NULL && sk_X509_push(chain, x) > 0) {
        private_key = parse_key(&key, &reason);
    } else {
        X509_free(x);
        sk_X509_free(chain);
        chain = NULL;
    }
    struct ca *ca = pair(chain, private_key, "CA PEM pair", &reason, error);
    buf_free(&reason);
    return ca;
}
