/*
 * A CA as PEM text: nothing asks for a password, a refusal has its message, and
 * what is accepted signs leaves and a list of revoked certificates that verify.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include "certs/ca.h"
#include "certs/leaf.h"

enum { INPUT_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct ca *ca)
{
    EVP_PKEY *key = X509_get0_pubkey(ca_certificate(ca));
    const struct buf *crl = ca_crl(ca);
    struct leaf leaf;

    assert(sk_X509_num(ca_chain(ca)) == 1);
    assert(crl != NULL && buf_len(crl) != 0);
    assert(leaf_get(ca, "ok.test", strlen("ok.test"), LEAF_EC, &leaf));
    assert(X509_verify(leaf.certificate, key) == 1);
    assert(X509_NAME_cmp(X509_get_issuer_name(leaf.certificate),
                         X509_get_subject_name(ca_certificate(ca))) == 0);
    leaf_release(&leaf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text;

    if (size > INPUT_MAX)
        return 0;
    buf_init(&text, 2 * INPUT_MAX + 1024);
    struct ca *ca = ca_load_pem(data, size, &text);
    assert((ca == NULL) == (buf_len(&text) != 0));
    assert(ERR_peek_error() == 0);
    if (ca != NULL) {
        use(ca);
        ca_warnings(ca, &text);
        buf_clear(&text);
        assert(ca_certificates_pem(ca, &text));
        assert(strstr(buf_cstr(&text), "PRIVATE KEY") == NULL);
    }
    ca_unref(ca);
    buf_free(&text);
    return 0;
}
