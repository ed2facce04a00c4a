/* Authorities made here, and the lists of revoked certificates of all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/x509v3.h>

#include "certs/ca.h"
#include "certs/fields.h"
#include "tests/unit/ca_fixture.h"

static struct buf error;
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    buf_init(&error, 1 << 16);
    buf_init(&text, 1 << 16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&error);
    buf_free(&text);
    return 0;
}

static void check_extension(const X509 *x, int nid, const char *want)
{
    int at = X509_get_ext_by_NID(x, nid, -1);
    char *shown = NULL;

    assert_true(at >= 0);
    BIO *bio = BIO_new(BIO_s_mem());
    X509_EXTENSION *e = X509_get_ext(x, at);
    BIO_puts(bio, X509_EXTENSION_get_critical(e) != 0 ? "critical " : "");
    assert_int_equal(X509V3_EXT_print(bio, e, 0, 0), 1);
    long n = BIO_get_mem_data(bio, &shown);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(shown, want, (size_t)n);
    BIO_free(bio);
}

static void check_made(struct ca *ca, const char *subject, int days, int bits)
{
    X509 *x = ca_certificate(ca);
    char name[256];
    int between;
    int seconds;

    X509_NAME_oneline(X509_get_subject_name(x), name, sizeof name);
    assert_string_equal(name, subject);
    assert_int_equal(X509_NAME_cmp(X509_get_subject_name(x), X509_get_issuer_name(x)), 0);
    assert_int_equal(X509_get_version(x), X509_VERSION_3);
    assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(x)), bits);
    assert_int_equal(
        ASN1_TIME_diff(&between, &seconds, X509_get0_notBefore(x), X509_get0_notAfter(x)), 1);
    assert_true(between == days + 1 && seconds == 0);
    assert_int_equal(ASN1_TIME_diff(&between, &seconds, X509_get0_notBefore(x), NULL), 1);
    assert_true(between == 1 && seconds < 60);
    check_extension(x, NID_basic_constraints, "critical CA:TRUE");
    check_extension(x, NID_key_usage, "critical Digital Signature, Certificate Sign, CRL Sign");
    assert_int_equal(X509_get_ext_count(x), 3);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;
    X509_pubkey_digest(x, EVP_sha1(), digest, &n);
    const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(x);
    assert_non_null(id);
    assert_int_equal(ASN1_STRING_length(id), 20);
    assert_memory_equal(ASN1_STRING_get0_data(id), digest, n);
    assert_int_equal(X509_verify(x, X509_get0_pubkey(x)), 1);
    buf_clear(&error);
    ca_warnings(ca, &error);
    assert_int_equal(buf_len(&error), 0);
}

static void test_ephemeral(void **state)
{
    (void)state;
    struct ca *ca = ca_ephemeral(&error);
    assert_non_null(ca);
    check_made(ca, "/CN=sandbox-runtime ephemeral CA/O=sandbox-runtime", 825, 2048);
    assert_int_equal(X509_get_signature_nid(ca_certificate(ca)), NID_sha256WithRSAEncryption);
    ca_unref(ca);
}

static void test_create(void **state)
{
    (void)state;
    struct ca *ca =
        ca_create("A name that is longer than the sixty-four bytes of ub-common-name", &error);
    assert_non_null(ca);
    check_made(ca, "/CN=A name that is longer than the sixty-four bytes of ub-common-name", 3650,
               256);
    ca_unref(ca);
}

static void test_references(void **state)
{
    (void)state;
    struct ca *ca = ca_create("x", &error);
    assert_ptr_equal(ca_ref(ca), ca);
    ca_unref(ca);
    assert_non_null(X509_get0_pubkey(ca_certificate(ca)));
    ca_unref(ca);
    ca_unref(NULL);
}

static void check_crl(const struct fixture_options *options, bool until_end)
{
    struct fixture f = fixture_make(NULL, options);
    int days;
    int seconds;

    buf_clear(&text);
    fixture_certificate_pem(&text, f.certificate);
    fixture_key_pem(&text, f.key, NULL);
    struct ca *ca = ca_load_pem(buf_data(&text), buf_len(&text), &error);
    assert_non_null(ca);
    const struct buf *der = ca_crl(ca);
    assert_non_null(der);
    assert_ptr_equal(ca_crl(ca), der);
    const unsigned char *p = buf_data(der);
    X509_CRL *crl = d2i_X509_CRL(NULL, &p, (long)buf_len(der));
    assert_non_null(crl);
    assert_ptr_equal(p, buf_data(der) + buf_len(der));
    assert_int_equal(X509_CRL_get_version(crl), X509_CRL_VERSION_2);
    assert_int_equal(X509_CRL_verify(crl, f.key), 1);
    assert_null(X509_CRL_get_REVOKED(crl));
    assert_int_equal(X509_NAME_cmp(X509_CRL_get_issuer(crl), X509_get_subject_name(f.certificate)),
                     0);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_CRL_get0_lastUpdate(crl), NULL), 1);
    assert_true(days == 0 && seconds >= 0 && seconds < 60);
    if (until_end) {
        assert_int_equal(
            ASN1_TIME_compare(X509_CRL_get0_nextUpdate(crl), X509_get0_notAfter(f.certificate)), 0);
    } else {
        ASN1_TIME_diff(&days, &seconds, X509_CRL_get0_lastUpdate(crl),
                       X509_CRL_get0_nextUpdate(crl));
        assert_true(days == 1 && seconds == 0);
    }
    ASN1_INTEGER *number = X509_CRL_get_ext_d2i(crl, NID_crl_number, NULL, NULL);
    assert_int_equal(ASN1_INTEGER_get(number), 1);
    ASN1_INTEGER_free(number);
    AUTHORITY_KEYID *id = X509_CRL_get_ext_d2i(crl, NID_authority_key_identifier, NULL, NULL);
    ASN1_OCTET_STRING *want = field_key_id(f.certificate);
    assert_int_equal(ASN1_OCTET_STRING_cmp(id->keyid, want), 0);
    assert_int_equal(X509_CRL_get_ext_count(crl), 2);
    ASN1_OCTET_STRING_free(want);
    AUTHORITY_KEYID_free(id);
    X509_CRL_free(crl);
    ca_unref(ca);
    fixture_free(&f);
}

static void test_crl(void **state)
{
    (void)state;
    check_crl(&(struct fixture_options){.kind = FIXTURE_RSA}, true);
    check_crl(&(struct fixture_options){.kind = FIXTURE_EC, .no_key_id = true}, true);
    check_crl(&(struct fixture_options){.kind = FIXTURE_ED25519}, true);
    check_crl(&(struct fixture_options){.begin_days = -9, .end_days = -1}, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ephemeral),
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_crl),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
