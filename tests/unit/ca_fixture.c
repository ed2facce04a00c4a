#include "tests/unit/ca_fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

enum { DAY = 86400, YEAR = 365 };

char fixture_directory[64];

EVP_PKEY *fixture_key(enum fixture_kind kind)
{
    static const char *const names[] = {[FIXTURE_ED25519] = "ED25519", [FIXTURE_ED448] = "ED448"};
    EVP_PKEY *key = kind == FIXTURE_EC         ? EVP_EC_gen("P-256")
                    : kind == FIXTURE_RSA      ? EVP_RSA_gen(2048)
                    : kind == FIXTURE_RSA_1024 ? EVP_RSA_gen(1024)
                                               : EVP_PKEY_Q_keygen(NULL, NULL, names[kind]);

    assert_non_null(key);
    return key;
}

static void extend(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
}

struct fixture fixture_make(const struct fixture *issuer, const struct fixture_options *o)
{
    static long serial = 1;
    struct fixture f = {.key = fixture_key(o->kind), .certificate = X509_new()};
    const char *name = o->name != NULL ? o->name : "fixture";
    X509 *x = f.certificate;
    X509 *signer = issuer != NULL ? issuer->certificate : x;
    EVP_PKEY *key = issuer != NULL ? issuer->key : f.key;
    int kind = EVP_PKEY_get_base_id(key);

    assert_non_null(x);
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    ASN1_TIME_set(X509_getm_notBefore(x), time(NULL) + (time_t)o->begin_days * DAY);
    ASN1_TIME_set(X509_getm_notAfter(x),
                  time(NULL) + (time_t)(o->end_days != 0 ? o->end_days : YEAR) * DAY);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(signer));
    X509_set_pubkey(x, f.key);
    extend(x, signer, NID_basic_constraints, o->no_ca ? "critical,CA:FALSE" : "critical,CA:TRUE");
    extend(x, signer, NID_key_usage,
           o->no_signing_usage ? "critical,digitalSignature" : "critical,keyCertSign,cRLSign");
    if (!o->no_key_id) {
        extend(x, signer, NID_subject_key_identifier, "hash");
        extend(x, signer, NID_authority_key_identifier, "keyid");
    }
    const EVP_MD *digest = kind == EVP_PKEY_ED25519 || kind == EVP_PKEY_ED448 ? NULL : EVP_sha256();
    assert_true(X509_sign(x, key, digest) > 0);
    return f;
}

void fixture_free(struct fixture *f)
{
    EVP_PKEY_free(f->key);
    X509_free(f->certificate);
    *f = (struct fixture){0};
}

static void take(struct buf *out, BIO *bio)
{
    char *text = NULL;
    long n = BIO_get_mem_data(bio, &text);

    assert_true(n > 0 && buf_append(out, text, (size_t)n));
    BIO_free(bio);
}

void fixture_certificate_pem(struct buf *out, X509 *x)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_X509(bio, x), 1);
    take(out, bio);
}

static const EVP_CIPHER *cipher_for(const char *password)
{
    return password != NULL ? EVP_aes_128_cbc() : NULL;
}

static int password_length(const char *password)
{
    return password != NULL ? (int)strlen(password) : 0;
}

void fixture_key_pem(struct buf *out, EVP_PKEY *key, const char *password)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, cipher_for(password), password,
                                                   password_length(password), NULL, NULL),
                     1);
    take(out, bio);
}

void fixture_old_key_pem(struct buf *out, EVP_PKEY *key, const char *password)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_PrivateKey_traditional(bio, key, cipher_for(password),
                                                          (const unsigned char *)password,
                                                          password_length(password), NULL, NULL),
                     1);
    take(out, bio);
}

int fixture_directory_make(void **state)
{
    (void)state;
    snprintf(fixture_directory, sizeof fixture_directory, "/tmp/test_certs.XXXXXX");
    if (mkdtemp(fixture_directory) == NULL)
        return -1;
    return setenv("TMPDIR", fixture_directory, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

int fixture_directory_remove(void **state)
{
    (void)state;
    return nftw(fixture_directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fixture_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", fixture_directory, name);
    return path;
}

const char *fixture_write(const char *name, const struct buf *text)
{
    const char *path = fixture_path(name);
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_int_equal(
        fwrite(buf_len(text) != 0 ? buf_data(text) : (const uint8_t *)"", 1, buf_len(text), f),
        buf_len(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

void fixture_read(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "re");
    char bytes[4096];
    size_t n;

    assert_non_null(f);
    while ((n = fread(bytes, 1, sizeof bytes, f)) > 0)
        assert_true(buf_append(out, bytes, n));
    fclose(f);
}

/* In the child: stdout and stderr go to fd. */
static void redirect(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

/* In the parent: what comes until the child is gone, and its status. */
static int collect(pid_t child, int fd, struct buf *out)
{
    char bytes[4096];
    ssize_t n;
    int status;

    while ((n = read(fd, bytes, sizeof bytes)) > 0)
        if (out != NULL)
            assert_true(buf_append(out, bytes, (size_t)n));
    close(fd);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int fixture_run(const char *const *argv, struct buf *out)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        redirect(ends[1]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    return collect(child, ends[0], out);
}

int fixture_call(int (*function)(int, char **), int argc, char **argv, struct buf *out)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        redirect(ends[1]);
        int status = function(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    close(ends[1]);
    return collect(child, ends[0], out);
}
