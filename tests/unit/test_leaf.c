/* Leaves: what is in them, that strict verifiers take them, and which are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "certs/ca_internal.h"
#include "certs/leaf.h"
#include "tests/unit/ca_fixture.h"

enum { DAY = 86400 };

static struct buf error;
static struct buf text;
static struct ca *ca; /* EC, ten years */

static int set_up(void **state)
{
    if (fixture_directory_make(state) != 0)
        return -1;
    buf_init(&error, 1 << 16);
    buf_init(&text, 1 << 20);
    ca = ca_create("leaves", &error);
    return ca != NULL && leaf_prepare(ca, LEAF_EC) ? 0 : -1;
}

static int tear_down(void **state)
{
    ca_unref(ca);
    buf_free(&error);
    buf_free(&text);
    return fixture_directory_remove(state);
}

/* A CA of a fixture, with further certificates behind its own. */
static struct ca *ca_of(const struct fixture *f, const struct fixture *behind)
{
    buf_clear(&text);
    fixture_certificate_pem(&text, f->certificate);
    if (behind != NULL)
        fixture_certificate_pem(&text, behind->certificate);
    const char *certificate = fixture_write("ca.crt", &text);
    buf_clear(&text);
    fixture_key_pem(&text, f->key, NULL);
    buf_clear(&error);
    struct ca *made = ca_load(certificate, fixture_write("ca.key", &text), &error);
    if (made == NULL)
        fail_msg("%s", buf_cstr(&error));
    return made;
}

static struct leaf get(struct ca *from, const char *name, enum leaf_kind kind)
{
    struct leaf leaf;

    assert_true(leaf_get(from, name, strlen(name), kind, &leaf));
    assert_int_equal(ERR_peek_error(), 0);
    return leaf;
}

/* The certificate alone stays: the cache's reference holds it. */
static X509 *cached(const char *name, time_t now)
{
    struct leaf leaf;

    assert_true(leaf_get_at(ca, name, strlen(name), LEAF_EC, now, &leaf));
    X509 *x = leaf.certificate;
    leaf_release(&leaf);
    return x;
}

/* As OpenSSL verifies a server in its strictest way. */
static void verify(X509 *leaf, X509 *root, STACK_OF(X509) * chain, const char *name)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();

    X509_STORE_add_cert(store, root);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, chain), 1);
    X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
    X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) != 1)
        assert_int_equal(X509_VERIFY_PARAM_set1_host(param, name, 0), 1);
    if (X509_verify_cert(ctx) != 1)
        fail_msg("%s: %s", name, X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    ERR_clear_error();
}

/* The same by the program; what stands behind the leaf comes from the CA's file. */
static void verify_by_program(X509 *leaf, X509 *root, const char *chain_file)
{
    struct buf said;

    buf_clear(&text);
    fixture_certificate_pem(&text, root);
    const char *root_file = fixture_write("root.pem", &text);
    buf_clear(&text);
    fixture_certificate_pem(&text, leaf);
    const char *argv[] = {
        "openssl", "verify",  "-x509_strict", "-purpose", "sslserver",
        "-CAfile", root_file, "-untrusted",   chain_file, fixture_write("leaf.pem", &text),
        NULL};
    buf_init(&said, 1 << 16);
    if (fixture_run(argv, &said) != 0)
        fail_msg("%s", buf_cstr(&said));
    buf_free(&said);
}

static void test_strict(void **state)
{
    static const char *const names[] = {"ok.test", "127.0.0.1", "::1", "foo_bar.example.com"};
    static const enum fixture_kind kinds[] = {FIXTURE_RSA, FIXTURE_EC, FIXTURE_ED25519};

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct fixture f = fixture_make(NULL, &(struct fixture_options){.kind = kinds[k]});
        struct ca *from = ca_of(&f, NULL);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            for (int kind = LEAF_EC; kind <= LEAF_RSA; kind++) {
                struct leaf leaf = get(from, names[i], (enum leaf_kind)kind);
                verify(leaf.certificate, f.certificate, ca_chain(from), names[i]);
                verify_by_program(leaf.certificate, f.certificate, fixture_path("ca.crt"));
                assert_int_equal(X509_check_private_key(leaf.certificate, leaf.key), 1);
                leaf_release(&leaf);
            }
        ca_unref(from);
        fixture_free(&f);
    }
}

static void test_strict_below_an_intermediate(void **state)
{
    struct fixture root = fixture_make(NULL, &(struct fixture_options){.name = "root"});
    struct fixture middle =
        fixture_make(&root, &(struct fixture_options){.kind = FIXTURE_RSA, .name = "middle"});

    (void)state;
    struct ca *from = ca_of(&middle, &root);
    struct leaf leaf = get(from, "ok.test", LEAF_EC);
    verify(leaf.certificate, root.certificate, ca_chain(from), "ok.test");
    verify_by_program(leaf.certificate, root.certificate, fixture_path("ca.crt"));
    leaf_release(&leaf);
    ca_unref(from);
    fixture_free(&middle);
    fixture_free(&root);
}

static void test_strict_below_made_authorities(void **state)
{
    struct ca *made[] = {ca_ephemeral(&error), ca_create("to keep", &error)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct leaf leaf = get(made[i], "ok.test", LEAF_EC);
        verify(leaf.certificate, ca_certificate(made[i]), ca_chain(made[i]), "ok.test");
        leaf_release(&leaf);
        ca_unref(made[i]);
    }
}

static void show_extension(const X509 *x, int nid, char *out, size_t room)
{
    int at = X509_get_ext_by_NID(x, nid, -1);
    BIO *bio = BIO_new(BIO_s_mem());
    char *shown = NULL;

    assert_true(at >= 0);
    assert_int_equal(X509_get_ext_by_NID(x, nid, at), -1);
    X509_EXTENSION *e = X509_get_ext(x, at);
    assert_int_equal(X509V3_EXT_print(bio, e, 0, 0), 1);
    long n = BIO_get_mem_data(bio, &shown);
    snprintf(out, room, "%s%.*s", X509_EXTENSION_get_critical(e) != 0 ? "critical " : "", (int)n,
             shown);
    BIO_free(bio);
}

static void check_common(const struct leaf *leaf, const char *name, X509 *issuer)
{
    char shown[1024];
    char want[1024];
    const X509 *x = leaf->certificate;
    const X509_NAME *subject = X509_get_subject_name(x);

    assert_int_equal(X509_get_version(x), X509_VERSION_3);
    assert_int_equal(X509_NAME_entry_count(subject), 1);
    const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, 0);
    assert_int_equal(OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry)), NID_commonName);
    const ASN1_STRING *cn = X509_NAME_ENTRY_get_data(entry);
    assert_int_equal(ASN1_STRING_length(cn), strlen(name));
    assert_memory_equal(ASN1_STRING_get0_data(cn), name, strlen(name));
    assert_int_equal(X509_NAME_cmp(X509_get_issuer_name(x), X509_get_subject_name(issuer)), 0);
    static const struct {
        int nid;
        const char *want;
    } fixed[] = {
        {NID_basic_constraints, "critical CA:FALSE"},
        {NID_key_usage, "critical Digital Signature, Key Encipherment"},
        {NID_ext_key_usage, "TLS Web Server Authentication"},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        show_extension(x, fixed[i].nid, shown, sizeof shown);
        assert_string_equal(shown, fixed[i].want);
    }
    snprintf(want, sizeof want, "DNS:%s", name);
    show_extension(x, NID_subject_alt_name, shown, sizeof shown);
    assert_string_equal(shown, want);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;
    X509_pubkey_digest(x, EVP_sha1(), digest, &n);
    const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(leaf->certificate);
    assert_int_equal(ASN1_STRING_length(id), 20);
    assert_memory_equal(ASN1_STRING_get0_data(id), digest, n);
    assert_int_equal(X509_get_ext_count(x), 6);
}

static void test_fields(void **state)
{
    static const enum fixture_kind kinds[] = {FIXTURE_RSA_1024, FIXTURE_EC, FIXTURE_ED25519};
    static const int signatures[] = {NID_sha256WithRSAEncryption, NID_ecdsa_with_SHA256,
                                     NID_ED25519};

    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct fixture f = fixture_make(NULL, &(struct fixture_options){.kind = kinds[k]});
        struct ca *from = ca_of(&f, NULL);
        struct leaf leaf = get(from, "www.example.com", LEAF_EC);
        check_common(&leaf, "www.example.com", f.certificate);
        assert_int_equal(X509_get_signature_nid(leaf.certificate), signatures[k]);
        assert_int_equal(X509_verify(leaf.certificate, f.key), 1);
        assert_int_equal(EVP_PKEY_get_bits(leaf.key), 256);
        leaf_release(&leaf);
        leaf = get(from, "www.example.com", LEAF_RSA);
        check_common(&leaf, "www.example.com", f.certificate);
        assert_int_equal(EVP_PKEY_get_base_id(leaf.key), EVP_PKEY_RSA);
        assert_int_equal(EVP_PKEY_get_bits(leaf.key), 2048);
        leaf_release(&leaf);
        ca_unref(from);
        fixture_free(&f);
    }
}

/* The issuer's own identifier, whatever it is; the digest of its key where it has none. */
static void test_authority_key_id(void **state)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;

    (void)state;
    for (int without = 0; without < 2; without++) {
        struct fixture f = fixture_make(NULL, &(struct fixture_options){.no_key_id = true});
        if (without == 0) {
            ASN1_OCTET_STRING *own = ASN1_OCTET_STRING_new();
            ASN1_OCTET_STRING_set(own, (const unsigned char *)"\1\2\3", 3);
            X509_add1_ext_i2d(f.certificate, NID_subject_key_identifier, own, 0, 0);
            ASN1_OCTET_STRING_free(own);
            X509_sign(f.certificate, f.key, EVP_sha256());
        }
        struct ca *from = ca_of(&f, NULL);
        struct leaf leaf = get(from, "ok.test", LEAF_EC);
        const ASN1_OCTET_STRING *id = X509_get0_authority_key_id(leaf.certificate);
        assert_non_null(id);
        X509_pubkey_digest(f.certificate, EVP_sha1(), digest, &n);
        assert_int_equal(ASN1_STRING_length(id), without != 0 ? (int)n : 3);
        assert_memory_equal(ASN1_STRING_get0_data(id),
                            without != 0 ? digest : (const unsigned char *)"\1\2\3",
                            (size_t)ASN1_STRING_length(id));
        assert_null(X509_get0_authority_issuer(leaf.certificate));
        assert_null(X509_get0_authority_serial(leaf.certificate));
        leaf_release(&leaf);
        ca_unref(from);
        fixture_free(&f);
    }
}

static void test_alternative_names(void **state)
{
    static const struct {
        const char *name;
        int length; /* of an address; 0: a DNS name, as it is */
        const char *bytes;
    } cases[] = {
        {"127.0.0.1", 4, "\x7f\0\0\1"},
        {"255.255.255.255", 4, "\xff\xff\xff\xff"},
        {"::1", 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"},
        {"::", 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"},
        {"fe80::1", 16, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1"},
        {"::ffff:1.2.3.4", 16, "\0\0\0\0\0\0\0\0\0\0\xff\xff\1\2\3\4"},
        {"fe80::1%eth0", 0, NULL},
        {"[::1]", 0, NULL},
        {"01.2.3.4", 0, NULL},
        {"1.2.3", 0, NULL},
        {"1.2.3.4.5", 0, NULL},
        {"1.2.3.256", 0, NULL},
        {"127.1", 0, NULL},
        {"1.2.3.4.", 0, NULL},
        {"0x7f.0.0.1", 0, NULL},
        {"1::2::3", 0, NULL},
        {"12345::", 0, NULL},
        {"foo_bar.test", 0, NULL},
        {"_dmarc.test", 0, NULL},
        {"xn--bcher-kva.test", 0, NULL},
        {"a-.b", 0, NULL},
        {"a..b", 0, NULL},
        {"As.It.Is", 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct leaf leaf = get(ca, cases[i].name, LEAF_EC);
        GENERAL_NAMES *names = X509_get_ext_d2i(leaf.certificate, NID_subject_alt_name, NULL, NULL);
        assert_int_equal(sk_GENERAL_NAME_num(names), 1);
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, 0), &type);
        const char *want = cases[i].length != 0 ? cases[i].bytes : cases[i].name;
        assert_int_equal(type, cases[i].length != 0 ? GEN_IPADD : GEN_DNS);
        assert_int_equal(ASN1_STRING_length(value),
                         cases[i].length != 0 ? (size_t)cases[i].length : strlen(want));
        assert_memory_equal(ASN1_STRING_get0_data(value), want, (size_t)ASN1_STRING_length(value));
        GENERAL_NAMES_free(names);
        leaf_release(&leaf);
    }
}

static void test_long_names(void **state)
{
    char name[LEAF_NAME_MAX + 2];
    static const size_t lengths[] = {63, 64, 65, 128, 200, LEAF_NAME_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        size_t n = lengths[i];
        for (size_t at = 0; at < n; at++)
            name[at] = at % 50 == 49 && at + 1 < n ? '.' : (char)('a' + at % 26);
        name[n] = '\0';
        struct leaf leaf = get(ca, name, LEAF_EC);
        check_common(&leaf, name, ca_certificate(ca));
        verify(leaf.certificate, ca_certificate(ca), ca_chain(ca), name);
        leaf_release(&leaf);
    }
    memset(name, 'a', sizeof name);
    struct leaf leaf;
    assert_false(leaf_get(ca, name, LEAF_NAME_MAX + 1, LEAF_EC, &leaf));
    assert_null(leaf.certificate);
}

static void test_names_that_are_refused(void **state)
{
    static const char *const names[] = {"",    "*",    "*.test", "a.*.test",
                                        "a b", "a\tb", "a\177b", "\xc3\xa4.test"};
    struct leaf leaf;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_false(leaf_get(ca, names[i], strlen(names[i]), LEAF_EC, &leaf));
        assert_null(leaf.certificate);
        assert_null(leaf.key);
    }
    assert_false(leaf_get(ca, "a\0b", 3, LEAF_EC, &leaf));
}

static time_t time_of(const ASN1_TIME *t)
{
    struct tm parts;

    assert_int_equal(ASN1_TIME_to_tm(t, &parts), 1);
    return timegm(&parts);
}

static void test_validity(void **state)
{
    static const struct {
        int ca_days, leaf_days;
    } cases[] = {{825, 99}, {99, 99}, {98, 99}, {97, 98}, {1, 2}, {-1, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = fixture_make(
            NULL, &(struct fixture_options){.begin_days = -9, .end_days = cases[i].ca_days});
        struct ca *from = ca_of(&f, NULL);
        struct leaf leaf;
        time_t ca_end = time_of(X509_get0_notAfter(f.certificate));
        time_t now = ca_end - (time_t)cases[i].ca_days * DAY;
        assert_true(leaf_get_at(from, "ok.test", 7, LEAF_EC, now, &leaf));
        time_t begin = time_of(X509_get0_notBefore(leaf.certificate));
        time_t end = time_of(X509_get0_notAfter(leaf.certificate));
        assert_int_equal(begin, now - DAY);
        assert_int_equal(end - begin, (time_t)cases[i].leaf_days * DAY);
        assert_true(end <= ca_end);
        leaf_release(&leaf);
        ca_unref(from);
        fixture_free(&f);
    }
}

static void test_serial_numbers(void **state)
{
    unsigned char seen[200][16];
    char name[32];

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "s%zu.serial.test", i);
        struct leaf leaf = get(ca, name, LEAF_EC);
        const ASN1_INTEGER *serial = X509_get0_serialNumber(leaf.certificate);
        unsigned char *der = NULL;
        assert_int_equal(i2d_ASN1_INTEGER(serial, &der), 18);
        assert_memory_equal(der, "\x02\x10", 2);
        assert_int_equal(der[2] >> 6, 1);
        memcpy(seen[i], der + 2, 16);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(seen[i], seen[j], 16);
        OPENSSL_free(der);
        leaf_release(&leaf);
    }
}

static void test_cached(void **state)
{
    (void)state;
    struct leaf first = get(ca, "cached.test", LEAF_EC);
    struct leaf again = get(ca, "cached.test", LEAF_EC);
    struct leaf upper = get(ca, "Cached.TEST", LEAF_EC);
    struct leaf other = get(ca, "cached.tesT.", LEAF_EC);
    struct leaf rsa = get(ca, "cached.test", LEAF_RSA);
    assert_ptr_equal(first.certificate, again.certificate);
    assert_ptr_equal(first.certificate, upper.certificate);
    assert_ptr_not_equal(first.certificate, other.certificate);
    assert_ptr_not_equal(first.certificate, rsa.certificate);
    assert_ptr_equal(first.key, other.key);
    assert_ptr_not_equal(first.key, rsa.key);
    leaf_release(&first);
    leaf_release(&again);
    leaf_release(&upper);
    leaf_release(&other);
    leaf_release(&rsa);
}

/* LEAVES_MAX names stay; a further one takes the place of the one used longest ago. */
static void test_least_recently_used(void **state)
{
    static X509 *first[LEAVES_MAX];
    char name[32];
    time_t now = time(NULL);

    (void)state;
    for (int i = 0; i < LEAVES_MAX; i++) {
        snprintf(name, sizeof name, "n%d.lru.test", i);
        first[i] = cached(name, now);
        X509_up_ref(first[i]); /* so that no other certificate gets its address */
    }
    for (int i = 0; i < LEAVES_MAX; i++) {
        snprintf(name, sizeof name, "N%d.lru.test", i);
        assert_ptr_equal(cached(name, now), first[i]);
    }
    assert_ptr_equal(cached("n0.lru.test", now), first[0]); /* used again: n1 is now the oldest */
    cached("one-more.lru.test", now);
    assert_ptr_equal(cached("n0.lru.test", now), first[0]);
    assert_ptr_equal(cached("n2.lru.test", now), first[2]);
    assert_ptr_not_equal(cached("n1.lru.test", now), first[1]);
    assert_ptr_not_equal(cached("n3.lru.test", now), first[3]); /* which n1 has driven out */
    assert_ptr_equal(cached("n5.lru.test", now), first[5]);
    for (int i = 0; i < LEAVES_MAX; i++)
        X509_free(first[i]);
}

static void test_minted_again(void **state)
{
    time_t now = time(NULL);
    time_t end = now + 98L * DAY;

    (void)state;
    X509 *first = cached("again.test", now);
    X509_up_ref(first);
    assert_int_equal(time_of(X509_get0_notAfter(first)), end);
    assert_ptr_equal(cached("again.test", end - DAY - 1), first);
    X509 *second = cached("again.test", end - DAY);
    assert_ptr_not_equal(second, first);
    assert_int_equal(time_of(X509_get0_notAfter(second)), end + 97L * DAY);
    assert_ptr_equal(cached("again.test", end - DAY), second);
    X509_free(first);
}

/* Near the CA's own end a new leaf would last no longer. */
static void test_not_minted_in_vain(void **state)
{
    struct fixture f =
        fixture_make(NULL, &(struct fixture_options){.begin_days = -9, .end_days = 1});
    struct ca *from = ca_of(&f, NULL);

    (void)state;
    struct leaf first = get(from, "ok.test", LEAF_EC);
    struct leaf second = get(from, "ok.test", LEAF_EC);
    assert_ptr_equal(first.certificate, second.certificate);
    leaf_release(&first);
    leaf_release(&second);
    ca_unref(from);
    fixture_free(&f);
}

static void test_outlives_its_authority(void **state)
{
    (void)state;
    struct ca *from = ca_create("short", &error);
    struct leaf leaf = get(from, "ok.test", LEAF_EC);
    ca_unref(from);
    assert_int_equal(X509_check_private_key(leaf.certificate, leaf.key), 1);
    leaf_release(&leaf);
    assert_null(leaf.certificate);
    assert_null(leaf.key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict),
        cmocka_unit_test(test_strict_below_an_intermediate),
        cmocka_unit_test(test_strict_below_made_authorities),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_authority_key_id),
        cmocka_unit_test(test_alternative_names),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_validity),
        cmocka_unit_test(test_serial_numbers),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_least_recently_used),
        cmocka_unit_test(test_minted_again),
        cmocka_unit_test(test_not_minted_in_vain),
        cmocka_unit_test(test_outlives_its_authority),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
