/* What a command in a box is given to trust: whose certificates, in which order, and no keys. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>

#include "certs/bundle.h"
#include "certs/certificate_set.h"
#include "certs/trust_store.h"
#include "tests/unit/ca_fixture.h"

enum { SOURCES = 7, TEXT_MAX = 1 << 22 };

static struct buf error;
static struct buf text;
static struct fixture made[SOURCES];
static struct ca *ca;

static int set_up(void **state)
{
    if (fixture_directory_make(state) != 0)
        return -1;
    buf_init(&error, 1 << 16);
    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < SOURCES; i++)
        made[i] = fixture_make(NULL, &(struct fixture_options){0});
    ca = ca_create("bundle", &error);
    unsetenv("NODE_EXTRA_CA_CERTS");
    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    return ca != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    ca_unref(ca);
    for (size_t i = 0; i < SOURCES; i++)
        fixture_free(&made[i]);
    buf_free(&error);
    buf_free(&text);
    return fixture_directory_remove(state);
}

/* A file with a certificate and the key of it. */
static const char *write_source(const char *name, const struct fixture *f)
{
    buf_clear(&text);
    buf_puts(&text, "# words\r\n");
    fixture_key_pem(&text, f->key, NULL);
    fixture_certificate_pem(&text, f->certificate);
    fixture_old_key_pem(&text, f->key, NULL);
    return fixture_write(name, &text);
}

/* The entries of the temp directory that begin like ours. */
static unsigned left_behind(void)
{
    DIR *directory = opendir(fixture_directory);
    const struct dirent *entry;
    unsigned count = 0;

    while ((entry = readdir(directory)) != NULL)
        count += strncmp(entry->d_name, "srt-ca-", 7) == 0;
    closedir(directory);
    return count;
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & (S_IFMT | 07777);
}

static void expect_bundle(const struct bundle *b, const struct fixture *const *want, size_t count)
{
    struct buf wanted;
    struct buf got;

    buf_init(&wanted, TEXT_MAX);
    buf_init(&got, TEXT_MAX);
    assert_true(ca_certificates_pem(ca, &wanted));
    for (size_t i = 0; i < count; i++)
        fixture_certificate_pem(&wanted, want[i]->certificate);
    fixture_read(b->path, &got);
    assert_string_equal(buf_cstr(&got), buf_cstr(&wanted));
    assert_null(strstr(buf_cstr(&got), "PRIVATE KEY"));
    buf_free(&wanted);
    buf_free(&got);
}

static void write_bundle(bool ephemeral, char *const *extra, struct bundle *b)
{
    buf_clear(&error);
    if (!bundle_write(ca, ephemeral, extra, b, &error))
        fail_msg("%s", buf_cstr(&error));
    assert_int_equal(buf_len(&error), 0);
}

static void test_files(void **state)
{
    struct bundle b;
    char prefix[96];

    (void)state;
    mode_t mask = umask(0077);
    write_bundle(true, NULL, &b);
    umask(mask);
    snprintf(prefix, sizeof prefix, "%s/srt-ca-", fixture_directory);
    assert_memory_equal(b.trust.path, prefix, strlen(prefix));
    assert_int_equal(strlen(b.trust.path), strlen(prefix) + 6);
    assert_memory_equal(b.ca.path, prefix, strlen(prefix));
    assert_string_not_equal(b.trust.path, b.ca.path);
    assert_string_equal(b.path + strlen(b.trust.path), "/trust-bundle.crt");
    assert_string_equal(b.store + strlen(b.trust.path), "/trust-store.p12");
    assert_string_equal(b.ca_path + strlen(b.ca.path), "/ca.crt");
    assert_int_equal(mode_of(b.trust.path), S_IFDIR | 0700);
    assert_int_equal(mode_of(b.ca.path), S_IFDIR | 0700);
    assert_int_equal(mode_of(b.path), S_IFREG | 0644);
    assert_int_equal(mode_of(b.store), S_IFREG | 0644);
    assert_int_equal(mode_of(b.ca_path), S_IFREG | 0644);
    expect_bundle(&b, NULL, 0);
    struct buf want;
    buf_init(&want, TEXT_MAX);
    ca_certificates_pem(ca, &want);
    buf_clear(&text);
    fixture_read(b.ca_path, &text);
    assert_string_equal(buf_cstr(&text), buf_cstr(&want));
    buf_free(&want);
    bundle_remove(&b);
    assert_null(b.path);
    assert_null(b.store);
    assert_int_equal(left_behind(), 0);
    bundle_remove(&b);
}

/* Every certificate of the bundle, in its order, each trusted, under names of their own. */
static void test_store(void **state)
{
    struct bundle b;
    char *extra[] = {strdup(write_source("e.pem", &made[0])),
                     strdup(write_source("f.pem", &made[1])), NULL};
    const X509 *want[] = {ca_certificate(ca), made[0].certificate, made[1].certificate};

    (void)state;
    write_bundle(false, extra, &b);
    buf_clear(&text);
    fixture_read(b.store, &text);
    const unsigned char *p = buf_data(&text);
    PKCS12 *store = d2i_PKCS12(NULL, &p, (long)buf_len(&text));
    assert_non_null(store);
    assert_ptr_equal(p, buf_data(&text) + buf_len(&text));
    assert_int_equal(PKCS12_verify_mac(store, TRUST_STORE_PASSWORD, -1), 1);
    assert_int_equal(PKCS12_verify_mac(store, "another", -1), 0);
    STACK_OF(PKCS7) *safes = PKCS12_unpack_authsafes(store);
    assert_int_equal(sk_PKCS7_num(safes), 1);
    STACK_OF(PKCS12_SAFEBAG) *bags = PKCS12_unpack_p7data(sk_PKCS7_value(safes, 0));
    assert_int_equal(sk_PKCS12_SAFEBAG_num(bags), 3);
    ASN1_OBJECT *usage = OBJ_txt2obj("2.16.840.1.113894.746875.1.1", 1);
    for (int i = 0; i < 3; i++) {
        PKCS12_SAFEBAG *bag = sk_PKCS12_SAFEBAG_value(bags, i);
        char alias[16];
        assert_int_equal(PKCS12_SAFEBAG_get_nid(bag), NID_certBag);
        X509 *x = PKCS12_SAFEBAG_get1_cert(bag);
        assert_int_equal(X509_cmp(x, want[i]), 0);
        X509_free(x);
        snprintf(alias, sizeof alias, "srt-%d", i);
        char *name = PKCS12_get_friendlyname(bag);
        assert_string_equal(name, alias);
        OPENSSL_free(name);
        const STACK_OF(X509_ATTRIBUTE) *attributes = PKCS12_SAFEBAG_get0_attrs(bag);
        int at = X509at_get_attr_by_OBJ(attributes, usage, -1);
        assert_true(at >= 0);
        X509_ATTRIBUTE *attribute = X509at_get_attr(attributes, at);
        assert_int_equal(X509_ATTRIBUTE_count(attribute), 1);
        const ASN1_OBJECT *any = X509_ATTRIBUTE_get0_data(attribute, 0, V_ASN1_OBJECT, NULL);
        assert_int_equal(OBJ_obj2nid(any), NID_anyExtendedKeyUsage);
    }
    ASN1_OBJECT_free(usage);
    sk_PKCS12_SAFEBAG_pop_free(bags, PKCS12_SAFEBAG_free);
    sk_PKCS7_pop_free(safes, PKCS7_free);
    PKCS12_free(store);
    bundle_remove(&b);
    free(extra[0]);
    free(extra[1]);
}

/* A run's directories, as its kill leaves them: without the lock. */
static void leave(struct bundle *b)
{
    write_bundle(true, NULL, b);
    close(b->ca.fd);
    close(b->trust.fd);
    b->ca.fd = b->trust.fd = -1;
}

static void test_what_a_killed_run_left(void **state)
{
    struct bundle killed, alive, next;
    const char *stranger = fixture_path("srt-ca-abcdef");

    (void)state;
    write_bundle(true, NULL, &alive);
    leave(&killed);
    /* A directory of somebody else's with such a name and such files. */
    assert_int_equal(mkdir(stranger, 0700), 0);
    buf_clear(&text);
    buf_puts(&text, "theirs");
    const char *file = fixture_write("srt-ca-abcdef/ca.crt", &text);
    assert_int_equal(symlink("srt-ca-abcdef", fixture_path("srt-ca-ghijkl")), 0);
    assert_int_equal(left_behind(), 6);

    write_bundle(true, NULL, &next);
    assert_int_not_equal(access(killed.path, F_OK), 0);
    assert_int_not_equal(access(killed.ca_path, F_OK), 0);
    assert_int_equal(access(alive.path, F_OK), 0);
    assert_int_equal(access(alive.ca_path, F_OK), 0);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(left_behind(), 6);

    bundle_remove(&killed);
    bundle_remove(&alive);
    bundle_remove(&next);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(unlink(fixture_path("srt-ca-ghijkl")), 0);
    assert_int_equal(rmdir(fixture_path("srt-ca-abcdef")), 0);
    assert_int_equal(left_behind(), 0);
}

/* What is removed is what was made, even where the name has become somebody else's. */
static void test_a_directory_that_was_replaced(void **state)
{
    struct bundle b;
    char elsewhere[256];

    (void)state;
    write_bundle(false, NULL, &b);
    snprintf(elsewhere, sizeof elsewhere, "%s", fixture_path("elsewhere"));
    assert_int_equal(mkdir(elsewhere, 0700), 0);
    buf_clear(&text);
    const char *precious = fixture_write("elsewhere/trust-bundle.crt", &text);
    char *moved = strdup(fixture_path("moved"));
    assert_int_equal(rename(b.trust.path, moved), 0);
    assert_int_equal(symlink(elsewhere, b.trust.path), 0);
    char *link = strdup(b.trust.path);
    bundle_remove(&b);
    assert_int_equal(access(precious, F_OK), 0);
    assert_int_equal(rmdir(moved), 0);
    assert_int_equal(unlink(link), 0);
    free(moved);
    free(link);
}

static void test_given_authority(void **state)
{
    struct bundle b;

    (void)state;
    write_bundle(false, NULL, &b);
    assert_null(b.ca_path);
    assert_null(b.ca.path);
    assert_int_equal(left_behind(), 1);
    bundle_remove(&b);
    assert_int_equal(left_behind(), 0);
}

/* CA, host's file, host's directories, NODE_EXTRA_CA_CERTS, extras; keys nowhere; each once. */
static void test_order(void **state)
{
    const struct fixture *want[] = {&made[0], &made[1], &made[2], &made[3], &made[4], &made[5]};
    char directory[256];
    char list[1024];
    struct bundle b;

    (void)state;
    snprintf(directory, sizeof directory, "%s", fixture_path("roots"));
    assert_int_equal(mkdir(directory, 0700), 0);
    setenv("SSL_CERT_FILE", write_source("host.pem", &made[0]), 1);
    write_source("roots/a.crt", &made[1]);
    write_source("roots/b.crt", &made[2]);
    assert_int_equal(symlink("a.crt", fixture_path("roots/0f3b.0")), 0);
    assert_int_equal(mkfifo(fixture_path("roots/c.crt"), 0600), 0);
    write_source("roots/.hidden", &made[6]);
    snprintf(list, sizeof list, "/nonexistent::%s", directory);
    setenv("SSL_CERT_DIR", list, 1);
    setenv("NODE_EXTRA_CA_CERTS", write_source("node.pem", &made[3]), 1);
    char *extra[8] = {
        strdup(fixture_path("nothing")),
        strdup(write_source("x.pem", &made[4])),
        strdup(fixture_directory),
        strdup(write_source("again.pem", &made[0])),
        strdup(fixture_path("roots/c.crt")),
        strdup(fixture_write("empty.pem", &(struct buf){0})),
        strdup(write_source("y.pem", &made[5])),
        NULL,
    };
    write_bundle(true, extra, &b);
    expect_bundle(&b, want, 6);
    bundle_remove(&b);
    for (size_t i = 0; extra[i] != NULL; i++)
        free(extra[i]);
    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    setenv("NODE_EXTRA_CA_CERTS", fixture_path("nothing"), 1);
    write_bundle(false, NULL, &b);
    expect_bundle(&b, NULL, 0);
    bundle_remove(&b);
    unsetenv("NODE_EXTRA_CA_CERTS");
}

/* Whatever the host has, the library reads all of it. */
static void test_system_roots(void **state)
{
    struct bundle b;

    (void)state;
    unsetenv("SSL_CERT_FILE");
    unsetenv("SSL_CERT_DIR");
    write_bundle(false, NULL, &b);
    setenv("SSL_CERT_FILE", "/nonexistent", 1);
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    buf_clear(&text);
    fixture_read(b.path, &text);
    unsigned blocks = 0;
    for (const char *p = buf_cstr(&text); (p = strstr(p, "-----BEGIN CERTIFICATE-----")) != NULL;
         p++)
        blocks++;
    X509_STORE *store = X509_STORE_new();
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    assert_int_equal(X509_load_cert_file(lookup, b.path, X509_FILETYPE_PEM), blocks);
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(store);
    assert_int_equal(sk_X509_OBJECT_num(objects), blocks); /* it drops doubles, too */
    X509_STORE_free(store);
    bundle_remove(&b);
}

static void test_temporary_directory(void **state)
{
    char other[256];
    char slashes[300];
    char here[1024];
    struct bundle b;

    (void)state;
    snprintf(other, sizeof other, "%s", fixture_path("other"));
    snprintf(slashes, sizeof slashes, "%s//", other);
    assert_int_equal(mkdir(other, 0700), 0);
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP"};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 3; j++)
            setenv(names[j], j < i ? "" : j == i ? slashes : "/nonexistent", 1);
        write_bundle(false, NULL, &b);
        assert_memory_equal(b.path, other, strlen(other));
        assert_memory_equal(b.path + strlen(other), "/srt-ca-", 8);
        bundle_remove(&b);
    }
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(fixture_directory), 0);
    setenv("TMPDIR", "other", 1);
    write_bundle(false, NULL, &b);
    assert_int_equal(b.path[0], '/');
    assert_int_equal(mode_of(b.path), S_IFREG | 0644);
    bundle_remove(&b);
    assert_int_equal(chdir(here), 0);
    setenv("TMPDIR", fixture_directory, 1);
    unsetenv("TMP");
    unsetenv("TEMP");
}

static void test_failure(void **state)
{
    struct bundle b;

    (void)state;
    setenv("TMPDIR", "/nonexistent/below", 1);
    buf_clear(&error);
    assert_false(bundle_write(ca, true, NULL, &b, &error));
    assert_non_null(strstr(buf_cstr(&error), "/nonexistent/below"));
    assert_null(b.ca_path);
    assert_null(b.path);
    setenv("TMPDIR", fixture_directory, 1);
    assert_int_equal(left_behind(), 0);
}

/* Texts with one good certificate at most, or none. */
static void test_filter(void **state)
{
    struct certificate_set *set;
    struct buf out;
    struct buf good;

    (void)state;
    buf_init(&out, TEXT_MAX);
    buf_init(&good, TEXT_MAX);
    fixture_certificate_pem(&good, made[0].certificate);
    const char *one = buf_cstr(&good);
    static const char *const others[] = {
        "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n\n-----END PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\nMAA=\n",
        "-----BEGIN TRUSTED CERTIFICATE-----\nMAA=\n-----END TRUSTED CERTIFICATE-----\n",
        "-----BEGIN -----\n-----BEGIN -----BEGIN ",
        "",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        set = certificate_set_new();
        buf_clear(&text);
        buf_clear(&out);
        buf_puts(&text, others[i]);
        assert_int_equal(certificate_set_add_pem(set, buf_data(&text), buf_len(&text), &out), 0);
        assert_int_equal(buf_len(&out), 0);
        buf_puts(&text, one);
        buf_puts(&text, others[i]);
        buf_puts(&text, one);
        assert_int_equal(certificate_set_add_pem(set, buf_data(&text), buf_len(&text), &out), 2);
        assert_string_equal(buf_cstr(&out), one);
        certificate_set_free(set);
    }
    /* A key that calls itself a certificate, alone and behind one in the same block. */
    set = certificate_set_new();
    unsigned char *der = NULL;
    int n = i2d_PrivateKey(made[0].key, &der);
    unsigned char *both = NULL;
    int m = i2d_X509(made[0].certificate, &both);
    struct buf joined;
    buf_init(&joined, TEXT_MAX);
    buf_append(&joined, both, (size_t)m);
    buf_append(&joined, der, (size_t)n);
    buf_clear(&out);
    for (int i = 0; i < 2; i++) {
        BIO *bio = BIO_new(BIO_s_mem());
        char *shown = NULL;
        PEM_write_bio(bio, "CERTIFICATE", "", i == 0 ? der : buf_data(&joined),
                      i == 0 ? n : (long)buf_len(&joined));
        long length = BIO_get_mem_data(bio, &shown);
        assert_int_equal(certificate_set_add_pem(set, shown, (size_t)length, &out), 0);
        BIO_free(bio);
    }
    assert_int_equal(buf_len(&out), 0);
    OPENSSL_free(der);
    OPENSSL_free(both);
    buf_free(&joined);
    certificate_set_free(set);
    buf_free(&out);
    buf_free(&good);
}

/* More certificates than the table has room for at first. */
static void test_many(void **state)
{
    struct certificate_set *set = certificate_set_new();
    struct buf out;

    (void)state;
    buf_init(&out, TEXT_MAX);
    buf_clear(&text);
    X509 *x = X509_dup(made[0].certificate);
    for (long i = 0; i < 700; i++) {
        ASN1_INTEGER_set(X509_get_serialNumber(x), 1000 + i);
        X509_sign(x, made[0].key, EVP_sha256());
        fixture_certificate_pem(&text, x);
    }
    X509_free(x);
    assert_int_equal(certificate_set_add_pem(set, buf_data(&text), buf_len(&text), &out), 700);
    assert_string_equal(buf_cstr(&out), buf_cstr(&text));
    size_t n = buf_len(&out);
    assert_int_equal(certificate_set_add_pem(set, buf_data(&text), buf_len(&text), &out), 700);
    assert_int_equal(buf_len(&out), n);
    certificate_set_free(set);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_store),
        cmocka_unit_test(test_what_a_killed_run_left),
        cmocka_unit_test(test_a_directory_that_was_replaced),
        cmocka_unit_test(test_given_authority),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_system_roots),
        cmocka_unit_test(test_temporary_directory),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
