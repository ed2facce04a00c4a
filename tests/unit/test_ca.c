/* The authority that signs, as it is given: what is taken, refused, and warned of. */
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>

#include "certs/ca.h"
#include "certs/fields.h"
#include "tests/unit/ca_fixture.h"

static struct buf error;
static struct buf text;
static struct fixture good; /* EC */
static const char *good_certificate;
static const char *good_key;

static int set_up(void **state)
{
    if (fixture_directory_make(state) != 0)
        return -1;
    buf_init(&error, 1 << 16);
    buf_init(&text, 1 << 21);
    good = fixture_make(NULL, &(struct fixture_options){.name = "good"});
    fixture_certificate_pem(&text, good.certificate);
    good_certificate = strdup(fixture_write("good.crt", &text));
    buf_clear(&text);
    fixture_key_pem(&text, good.key, NULL);
    good_key = strdup(fixture_write("good.key", &text));
    return 0;
}

static int tear_down(void **state)
{
    free((char *)good_certificate);
    free((char *)good_key);
    buf_free(&error);
    buf_free(&text);
    fixture_free(&good);
    return fixture_directory_remove(state);
}

/* Loads and expects the message, in which %s is a path; no CA then. */
static void refused(const char *certificate, const char *key, const char *format, const char *path)
{
    char want[1024];

    buf_clear(&error);
    struct ca *ca = ca_load(certificate, key, &error);
    assert_null(ca);
    snprintf(want, sizeof want, "%s", "");
    const char *at = strstr(format, "%s");
    assert_non_null(at);
    snprintf(want, sizeof want, "%.*s%s%s", (int)(at - format), format, path, at + 2);
    assert_string_equal(buf_cstr(&error), want);
    assert_int_equal(ERR_peek_error(), 0);
}

/* The same for whatever stands behind "parse: ". */
static void does_not_parse(const char *certificate, const char *key)
{
    char want[1024];

    buf_clear(&error);
    assert_null(ca_load(certificate, key, &error));
    snprintf(want, sizeof want, "tlsTerminate: CA at %s: parse: ", certificate);
    assert_memory_equal(buf_cstr(&error), want, strlen(want));
    assert_true(buf_len(&error) > strlen(want));
    assert_int_equal(ERR_peek_error(), 0);
}

static struct ca *accepted(const char *certificate, const char *key)
{
    buf_clear(&error);
    struct ca *ca = ca_load(certificate, key, &error);
    if (ca == NULL)
        fail_msg("%s", buf_cstr(&error));
    assert_int_equal(buf_len(&error), 0);
    return ca;
}

static const char *write_text(const char *name, const char *content)
{
    buf_clear(&text);
    buf_puts(&text, content);
    return fixture_write(name, &text);
}

static void test_kinds(void **state)
{
    static const enum fixture_kind kinds[] = {FIXTURE_EC, FIXTURE_RSA, FIXTURE_RSA_1024,
                                              FIXTURE_ED25519};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct fixture f = fixture_make(NULL, &(struct fixture_options){.kind = kinds[i]});
        buf_clear(&text);
        buf_puts(&text, "Somebody's words before.\n");
        fixture_certificate_pem(&text, f.certificate);
        const char *certificate = fixture_write("kind.crt", &text);
        buf_clear(&text);
        fixture_key_pem(&text, f.key, NULL);
        const char *key = fixture_write("kind.key", &text);
        struct ca *ca = accepted(certificate, key);
        assert_int_equal(X509_cmp(ca_certificate(ca), f.certificate), 0);
        assert_int_equal(sk_X509_num(ca_chain(ca)), 1);
        ca_warnings(ca, &error);
        assert_int_equal(buf_len(&error), 0);
        ca_unref(ca);
        fixture_free(&f);
    }
}

static void test_older_key_forms(void **state)
{
    struct fixture rsa = fixture_make(NULL, &(struct fixture_options){.kind = FIXTURE_RSA});

    (void)state;
    buf_clear(&text);
    fixture_certificate_pem(&text, rsa.certificate);
    const char *certificate = fixture_write("old.crt", &text);
    buf_clear(&text);
    fixture_old_key_pem(&text, rsa.key, NULL);
    assert_non_null(strstr(buf_cstr(&text), "BEGIN RSA PRIVATE KEY"));
    ca_unref(accepted(certificate, fixture_write("old.key", &text)));
    buf_clear(&text);
    buf_puts(&text, "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC "
                    "PARAMETERS-----\n");
    fixture_old_key_pem(&text, good.key, NULL);
    assert_non_null(strstr(buf_cstr(&text), "BEGIN EC PRIVATE KEY"));
    ca_unref(accepted(good_certificate, fixture_write("old.key", &text)));
    fixture_free(&rsa);
}

static void test_unreadable(void **state)
{
    const char *none = fixture_path("none");

    (void)state;
    refused(none, none, "tlsTerminate.caCertPath: cannot read %s (ENOENT)", none);
    refused(good_certificate, none, "tlsTerminate.caKeyPath: cannot read %s (ENOENT)", none);
    refused(fixture_directory, good_key, "tlsTerminate.caCertPath: cannot read %s (EISDIR)",
            fixture_directory);
    refused(good_certificate, fixture_directory, "tlsTerminate.caKeyPath: cannot read %s (EISDIR)",
            fixture_directory);
    const char *below = fixture_path("good.crt/below");
    refused(below, good_key, "tlsTerminate.caCertPath: cannot read %s (ENOTDIR)", below);
    refused("/dev/zero", good_key, "tlsTerminate.caCertPath: cannot read %s (EFBIG)", "/dev/zero");
    /* To another user the directory is closed. */
    const char *closed = write_text("closed", "x");
    assert_int_equal(chmod(closed, 0), 0);
    bool root = geteuid() == 0;
    assert_true(!root || seteuid(65534) == 0);
    refused(closed, good_key, "tlsTerminate.caCertPath: cannot read %s (EACCES)", closed);
    assert_true(!root || seteuid(0) == 0);
}

static void test_label(void **state)
{
    static const char *const texts[] = {
        "",
        "words",
        "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n",
        "-----BEGIN X509 PRIVATE KEY-----\n",
        "-----BEGIN X509 CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE REQUEST-----\n",
        "-----BEGIN private key-----\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *path = write_text("label", texts[i]);
        refused(path, good_key, "tlsTerminate.caCertPath: %s is not a PEM CERTIFICATE", path);
        refused(good_certificate, path, "tlsTerminate.caKeyPath: %s is not a PEM PRIVATE KEY",
                path);
    }
    /* The certificate's label is judged before the key is read. */
    refused(fixture_path("label"), fixture_path("none"),
            "tlsTerminate.caCertPath: %s is not a PEM CERTIFICATE", fixture_path("label"));
    unsigned char *der = NULL;
    int n = i2d_X509(good.certificate, &der);
    buf_clear(&text);
    buf_append(&text, der, (size_t)n);
    OPENSSL_free(der);
    const char *path = fixture_write("label", &text);
    refused(path, good_key, "tlsTerminate.caCertPath: %s is not a PEM CERTIFICATE", path);
}

static void test_certificate_that_does_not_parse(void **state)
{
    static const char *const texts[] = {
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        "-----BEGIN SOME CERTIFICATE-----\nAA==\n-----END SOME CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END PRIVATE KEY-----\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        does_not_parse(write_text("broken", texts[i]), good_key);
    /* A key ahead of the certificate. */
    buf_clear(&text);
    fixture_key_pem(&text, good.key, NULL);
    fixture_certificate_pem(&text, good.certificate);
    does_not_parse(fixture_write("broken", &text), good_key);
    /* A second certificate that is none. */
    buf_clear(&text);
    fixture_certificate_pem(&text, good.certificate);
    buf_puts(&text, texts[2]);
    does_not_parse(fixture_write("broken", &text), good_key);
}

static void test_key_that_does_not_parse(void **state)
{
    (void)state;
    does_not_parse(good_certificate, write_text("broken", "-----BEGIN PRIVATE KEY-----\n"));
    does_not_parse(good_certificate,
                   write_text("broken", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE "
                                        "KEY-----\n"));
    buf_clear(&text);
    fixture_certificate_pem(&text, good.certificate);
    fixture_key_pem(&text, good.key, NULL);
    does_not_parse(good_certificate, fixture_write("broken", &text));
    struct fixture other = fixture_make(NULL, &(struct fixture_options){.kind = FIXTURE_ED448});
    buf_clear(&text);
    fixture_key_pem(&text, other.key, NULL);
    const char *key = fixture_write("other.key", &text);
    does_not_parse(good_certificate, key);
    buf_clear(&text);
    fixture_certificate_pem(&text, other.certificate);
    does_not_parse(fixture_write("other.crt", &text), good_key);
    fixture_free(&other);
}

/* PKCS #8 and the older form; and with the label of a key in the clear, which a library would hand
 * on to whatever asks for passwords. */
static void make_encrypted(struct buf *out, int form)
{
    buf_clear(out);
    if (form == 0) {
        fixture_old_key_pem(out, good.key, "secret");
        return;
    }
    fixture_key_pem(out, good.key, "secret");
    if (form == 1)
        return;
    char *copy = strdup(buf_cstr(out));
    buf_clear(out);
    for (const char *at = copy; *at != '\0';) {
        bool word = strncmp(at, "ENCRYPTED ", 10) == 0;
        if (!word)
            buf_append(out, at, 1);
        at += word ? 10 : 1;
    }
    free(copy);
}

static void test_encrypted_key(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        make_encrypted(&text, form);
        does_not_parse(good_certificate, fixture_write("encrypted.key", &text));
        if (form < 2)
            assert_non_null(strstr(buf_cstr(&error), "encrypted"));
    }
}

/* With a terminal there to ask. */
static void test_never_prompts(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        int terminal;
        make_encrypted(&text, form);
        const char *key = fixture_write("encrypted.key", &text);
        pid_t child = forkpty(&terminal, NULL, NULL, NULL);
        assert_true(child >= 0);
        if (child == 0)
            _exit(ca_load(good_certificate, key, &error) == NULL ? 0 : 1);
        struct pollfd readable = {.fd = terminal, .events = POLLIN};
        char bytes[64];
        int status;
        assert_true(poll(&readable, 1, 20000) == 1); /* a hang-up, without a byte */
        assert_true(read(terminal, bytes, sizeof bytes) <= 0);
        close(terminal);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void test_not_yet_valid(void **state)
{
    struct fixture f = fixture_make(NULL, &(struct fixture_options){.begin_days = 2});
    char want[128];
    time_t begin;

    (void)state;
    assert_true(field_time(X509_get0_notBefore(f.certificate), &begin));
    buf_clear(&text);
    fixture_certificate_pem(&text, f.certificate);
    const char *path = fixture_write("future.crt", &text);
    struct tm parts;
    gmtime_r(&begin, &parts);
    strftime(want, sizeof want,
             "tlsTerminate: CA at %%s: notBefore %Y-%m-%dT%H:%M:%S.000Z is in the future (clock "
             "skew?)",
             &parts);
    /* Judged before the key, which is another one here. */
    refused(path, good_key, want, path);
    fixture_free(&f);
}

static void test_mismatch(void **state)
{
    static const enum fixture_kind kinds[] = {FIXTURE_EC, FIXTURE_RSA, FIXTURE_ED25519};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        EVP_PKEY *other = fixture_key(kinds[i]);
        buf_clear(&text);
        fixture_key_pem(&text, other, NULL);
        refused(good_certificate, fixture_write("other.key", &text),
                "tlsTerminate: CA at %s: key does not match certificate public key",
                good_certificate);
        EVP_PKEY_free(other);
    }
}

/* The public half in the key's file is the certificate's, the private one is not. */
static void test_tampered_key(void **state)
{
    unsigned char *der = NULL;

    (void)state;
    int n = i2d_PrivateKey(good.key, &der);
    assert_true(n > 40 && der[5] == 0x04 && der[6] == 32); /* ECPrivateKey: version, octets */
    der[10] ^= 0x55;
    const unsigned char *p = der;
    EVP_PKEY *tampered = d2i_AutoPrivateKey(NULL, &p, n);
    assert_non_null(tampered);
    buf_clear(&text);
    fixture_old_key_pem(&text, tampered, NULL);
    refused(good_certificate, fixture_write("tampered.key", &text),
            "tlsTerminate: CA at %s: key does not match certificate public key", good_certificate);
    EVP_PKEY_free(tampered);
    OPENSSL_free(der);
}

static void test_chain(void **state)
{
    struct fixture middle = fixture_make(&good, &(struct fixture_options){.name = "middle"});

    (void)state;
    buf_clear(&text);
    fixture_certificate_pem(&text, middle.certificate);
    buf_puts(&text, "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----\n");
    fixture_certificate_pem(&text, good.certificate);
    fixture_key_pem(&text, middle.key, NULL);
    const char *certificate = fixture_write("chain.crt", &text);
    buf_clear(&text);
    fixture_key_pem(&text, middle.key, NULL);
    struct ca *ca = accepted(certificate, fixture_write("chain.key", &text));
    assert_int_equal(sk_X509_num(ca_chain(ca)), 2);
    assert_int_equal(X509_cmp(sk_X509_value(ca_chain(ca), 0), middle.certificate), 0);
    assert_int_equal(X509_cmp(sk_X509_value(ca_chain(ca), 1), good.certificate), 0);
    struct buf want;
    buf_init(&want, 1 << 16);
    fixture_certificate_pem(&want, middle.certificate);
    fixture_certificate_pem(&want, good.certificate);
    buf_clear(&text);
    assert_true(ca_certificates_pem(ca, &text));
    assert_string_equal(buf_cstr(&text), buf_cstr(&want));
    buf_free(&want);
    ca_unref(ca);
    fixture_free(&middle);
}

/* What ca_load_pem makes of the blocks named: c and k of the good pair, C and K of another, e an
 * encrypted key, x no PEM. NULL: it loads. */
static void test_pem_text(void **state)
{
    static const struct {
        const char *blocks;
        const char *message;
    } cases[] = {
        {"ck", NULL},
        {"kc", NULL},
        {"xkxcx", NULL},
        {"ckCK", NULL},
        {"kKcC", NULL},
        {"eck", NULL},
        {"", "proxy-only: the CA PEM needs a private key and a certificate"},
        {"c", "proxy-only: the CA PEM needs a private key and a certificate"},
        {"k", "proxy-only: the CA PEM needs a private key and a certificate"},
        {"ce", "proxy-only: the CA PEM needs a private key and a certificate"},
        {"cK", "tlsTerminate: CA PEM pair: key does not match certificate public key"},
        {"KkcC", "tlsTerminate: CA PEM pair: key does not match certificate public key"},
        {"bk", "tlsTerminate: CA PEM pair: parse: a certificate does not parse"},
        {"bck", "tlsTerminate: CA PEM pair: parse: a certificate does not parse"},
        {"cd", "tlsTerminate: CA PEM pair: parse: the private key is encrypted"},
    };
    struct fixture other = fixture_make(NULL, &(struct fixture_options){.name = "other"});

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buf_clear(&text);
        for (const char *block = cases[i].blocks; *block != '\0'; block++)
            switch (*block) {
            case 'c':
            case 'C':
                fixture_certificate_pem(&text,
                                        *block == 'c' ? good.certificate : other.certificate);
                break;
            case 'k':
            case 'K':
                fixture_key_pem(&text, *block == 'k' ? good.key : other.key, NULL);
                break;
            case 'e':
                fixture_key_pem(&text, good.key, "secret");
                break;
            case 'd':
                fixture_old_key_pem(&text, good.key, "secret");
                break;
            case 'b':
                buf_puts(&text, "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
                break;
            default:
                buf_puts(&text, "words\n\n-----\n");
            }
        buf_clear(&error);
        struct ca *ca = ca_load_pem(buf_data(&text), buf_len(&text), &error);
        assert_string_equal(buf_cstr(&error), cases[i].message != NULL ? cases[i].message : "");
        assert_true((ca != NULL) == (cases[i].message == NULL));
        if (ca != NULL) {
            assert_int_equal(sk_X509_num(ca_chain(ca)), 1);
            assert_int_equal(X509_cmp(ca_certificate(ca), good.certificate), 0);
        }
        ca_unref(ca);
    }
    fixture_free(&other);
}

static void test_warnings(void **state)
{
    static const struct {
        struct fixture_options options;
        const char *words[2];
    } cases[] = {
        {{.begin_days = -9, .end_days = -1}, {"expired on 20", NULL}},
        {{.no_ca = true}, {"is not a CA certificate: its basicConstraints say CA:FALSE", NULL}},
        {{.no_signing_usage = true}, {"its keyUsage does not include keyCertSign", NULL}},
        {{.no_ca = true, .begin_days = -9, .end_days = -1}, {"expired on", "is not a CA"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = fixture_make(NULL, &cases[i].options);
        buf_clear(&text);
        fixture_certificate_pem(&text, f.certificate);
        fixture_key_pem(&text, f.key, NULL);
        buf_clear(&error);
        struct ca *ca = ca_load_pem(buf_data(&text), buf_len(&text), &error);
        assert_non_null(ca);
        ca_warnings(ca, &error);
        size_t lines = 0;
        for (const char *p = buf_cstr(&error); (p = strchr(p, '\n')) != NULL; p++)
            lines++;
        assert_int_equal(lines, cases[i].words[1] != NULL ? 2 : 1);
        for (size_t j = 0; j < 2 && cases[i].words[j] != NULL; j++)
            assert_non_null(strstr(buf_cstr(&error), cases[i].words[j]));
        assert_memory_equal(buf_cstr(&error), "srt: warning: ", 14);
        ca_unref(ca);
        fixture_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_older_key_forms),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_label),
        cmocka_unit_test(test_certificate_that_does_not_parse),
        cmocka_unit_test(test_key_that_does_not_parse),
        cmocka_unit_test(test_encrypted_key),
        cmocka_unit_test(test_never_prompts),
        cmocka_unit_test(test_not_yet_valid),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_tampered_key),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_pem_text),
        cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
