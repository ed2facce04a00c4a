/* `srt ca`: what it writes, what it will not overwrite, and what it says of a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "certs/ca.h"
#include "certs/ca_command.h"
#include "tests/unit/ca_fixture.h"

static struct buf said;
static struct buf text;

static int set_up(void **state)
{
    buf_init(&said, 1 << 20);
    buf_init(&text, 1 << 20);
    return fixture_directory_make(state);
}

static int tear_down(void **state)
{
    buf_free(&said);
    buf_free(&text);
    return fixture_directory_remove(state);
}

/* Words behind "ca"; NULL ends them. */
static int run(const char *first, const char *second, const char *third, const char *fourth,
               const char *fifth)
{
    const char *words[] = {"ca", first, second, third, fourth, fifth, NULL};
    int count = 1;

    while (words[count] != NULL)
        count++;
    buf_clear(&said);
    return fixture_call(ca_main, count, (char **)words, &said);
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & (S_IFMT | 07777);
}

static void expect_said(const char *words)
{
    if (strstr(buf_cstr(&said), words) == NULL)
        fail_msg("no \"%s\" in: %s", words, buf_cstr(&said));
}

static void test_create(void **state)
{
    (void)state;
    mode_t mask = umask(0);
    assert_int_equal(run("create", "--out", fixture_path("new"), NULL, NULL), 0);
    umask(mask);
    assert_int_equal(mode_of(fixture_path("new/ca.crt")), S_IFREG | 0644);
    assert_int_equal(mode_of(fixture_path("new/ca.key")), S_IFREG | 0600);
    buf_clear(&text);
    struct ca *ca = ca_load(fixture_path("new/ca.crt"), fixture_path("new/ca.key"), &text);
    assert_non_null(ca);
    ca_warnings(ca, &text);
    assert_int_equal(buf_len(&text), 0);
    char name[64];
    X509_NAME_oneline(X509_get_subject_name(ca_certificate(ca)), name, sizeof name);
    assert_string_equal(name, "/CN=srt CA");
    ca_unref(ca);
}

/* What it says belongs into the settings does belong there. */
static void test_create_says_how(void **state)
{
    json_error_t why;
    struct buf document;

    (void)state;
    assert_int_equal(
        run("create", "--name=\xc3\x84 \"name\"", "--out", fixture_path("say \"x\""), NULL), 0);
    const char *begin = strstr(buf_cstr(&said), "  \"network\"");
    const char *end = strstr(buf_cstr(&said), "\n\nClients");
    assert_true(begin != NULL && end != NULL);
    buf_init(&document, 1 << 16);
    buf_printf(&document, "{%.*s}", (int)(end - begin), begin);
    json_t *settings = json_loadb(buf_chars(&document), buf_len(&document), 0, &why);
    assert_non_null(settings);
    const json_t *tls = json_object_get(json_object_get(settings, "network"), "tlsTerminate");
    assert_string_equal(json_string_value(json_object_get(tls, "caCertPath")),
                        fixture_path("say \"x\"/ca.crt"));
    assert_string_equal(json_string_value(json_object_get(tls, "caKeyPath")),
                        fixture_path("say \"x\"/ca.key"));
    json_decref(settings);
    buf_free(&document);
    assert_null(strstr(buf_cstr(&said), "PRIVATE KEY"));
    assert_int_equal(run("show", fixture_path("say \"x\"/ca.crt"), NULL, NULL, NULL), 0);
    expect_said("CN=\\C3\\84 \\\"name\\\"\n");
}

static void test_never_overwrites(void **state)
{
    static const char *const names[] = {"ca.crt", "ca.key"};
    char path[64];

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (int link = 0; link < 2; link++) {
            snprintf(path, sizeof path, "kept%zu%d", i, link);
            const char *directory = fixture_path(path);
            assert_int_equal(mkdir(directory, 0700), 0);
            snprintf(path, sizeof path, "kept%zu%d/%s", i, link, names[i]);
            const char *file = fixture_path(path);
            buf_clear(&text);
            buf_puts(&text, "mine");
            if (link != 0)
                assert_int_equal(symlink("elsewhere", file), 0);
            else
                fixture_write(path, &text);
            assert_int_equal(run("create", "--out", directory, NULL, NULL), 1);
            expect_said(names[i]);
            expect_said("is there already");
            snprintf(path, sizeof path, "kept%zu%d/%s", i, link, names[1 - i]);
            assert_int_equal(access(fixture_path(path), F_OK), -1); /* the other is not there */
            snprintf(path, sizeof path, "kept%zu%d/elsewhere", i, link);
            assert_int_equal(access(fixture_path(path), F_OK), -1);
            if (link == 0) {
                buf_clear(&text);
                fixture_read(file, &text);
                assert_string_equal(buf_cstr(&text), "mine");
            }
        }
}

static void test_usage(void **state)
{
    (void)state;
    assert_int_equal(run(NULL, NULL, NULL, NULL, NULL), 2);
    assert_int_equal(run("destroy", NULL, NULL, NULL, NULL), 2);
    assert_int_equal(run("create", NULL, NULL, NULL, NULL), 2);
    assert_int_equal(run("create", "--out", NULL, NULL, NULL), 2);
    assert_int_equal(run("create", "--out=", NULL, NULL, NULL), 2);
    assert_int_equal(run("create", "--outer", "x", NULL, NULL), 2);
    assert_int_equal(run("create", "--out", "/tmp", "more", NULL), 2);
    assert_int_equal(run("create", "--out", "/tmp", "--name", NULL), 2);
    assert_int_equal(run("create", "--out", "/tmp", "--name", ""), 2);
    assert_int_equal(run("create", "--out", "/tmp", "--name", "a\nb"), 2);
    assert_int_equal(run("create", "--out", "/tmp", "--name", "\xff"), 2);
    assert_int_equal(run("show", NULL, NULL, NULL, NULL), 2);
    assert_int_equal(run("show", "a", "b", NULL, NULL), 2);
    assert_int_equal(run("--help", NULL, NULL, NULL, NULL), 0);
    expect_said("usage: srt ca create --out DIR [--name TEXT]\n");
    assert_int_equal(run("create", "--out", "/dev/null/x", NULL, NULL), 1);
    assert_int_equal(run("show", fixture_path("nothing"), NULL, NULL, NULL), 1);
    buf_clear(&text);
    buf_puts(&text, "words");
    assert_int_equal(run("show", fixture_write("words", &text), NULL, NULL, NULL), 1);
    expect_said("there is no certificate in it");
}

static void show(const struct fixture *f, const struct fixture *behind, bool key)
{
    buf_clear(&text);
    if (key)
        fixture_key_pem(&text, f->key, NULL);
    fixture_certificate_pem(&text, f->certificate);
    if (behind != NULL)
        fixture_certificate_pem(&text, behind->certificate);
    assert_int_equal(run("show", fixture_write("shown", &text), NULL, NULL, NULL), 0);
}

static void test_show(void **state)
{
    static const struct {
        struct fixture_options options;
        const char *words[3];
    } cases[] = {
        {{.name = "shown"},
         {"subject:               CN=shown\n", "EC P-256\n", "serve as a CA:     yes\n"}},
        {{.kind = FIXTURE_RSA}, {"RSA, 2048 bits\n", NULL}},
        {{.kind = FIXTURE_RSA_1024},
         {"RSA, 1024 bits\n", "warning: many clients refuse RSA", NULL}},
        {{.kind = FIXTURE_ED25519}, {"key:                   Ed25519\n", NULL}},
        {{.kind = FIXTURE_ED448}, {"warning: srt signs with RSA, EC and Ed25519 keys only", NULL}},
        {{.no_ca = true}, {" no: its basicConstraints say CA:FALSE\n", NULL}},
        {{.no_signing_usage = true}, {" no: its keyUsage does not include keyCertSign\n", NULL}},
        {{.begin_days = -9, .end_days = -1}, {"warning: it has expired", NULL}},
        {{.begin_days = 9}, {"warning: it is not valid yet", NULL}},
        {{.no_key_id = true}, {"warning: there is no subjectKeyIdentifier", NULL}},
        {{.name = "a\x1b[31m\xe2\x80\xae"}, {"CN=a\\1B[31m\\E2\\80\\AE\n", NULL}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = fixture_make(NULL, &cases[i].options);
        show(&f, NULL, false);
        for (size_t j = 0; j < 3 && cases[i].words[j] != NULL; j++)
            expect_said(cases[i].words[j]);
        assert_null(strstr(buf_cstr(&said), "private key"));
        fixture_free(&f);
    }
}

static void test_show_fingerprints(void **state)
{
    struct fixture f = fixture_make(NULL, &(struct fixture_options){0});
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;
    char want[128] = "SHA-256:               ";

    (void)state;
    show(&f, NULL, false);
    X509_digest(f.certificate, EVP_sha256(), digest, &n);
    for (unsigned i = 0; i < n; i++)
        snprintf(want + 23 + 3 * (size_t)i, 4, "%02X%c", digest[i], i + 1 < n ? ':' : '\n');
    expect_said(want);
    expect_said("SHA-256 of the key:");
    fixture_free(&f);
}

static void test_show_what_else_is_there(void **state)
{
    struct fixture root = fixture_make(NULL, &(struct fixture_options){.name = "root"});
    struct fixture middle = fixture_make(&root, &(struct fixture_options){.name = "middle"});

    (void)state;
    show(&middle, &root, true);
    expect_said("subject:               CN=middle\n");
    expect_said("issuer:                CN=root\n");
    expect_said("further certificates:  1, sent behind each leaf\n");
    expect_said("warning: the file holds a private key, too");
    assert_null(strstr(buf_cstr(&said), "BEGIN"));
    fixture_free(&middle);
    fixture_free(&root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_create_says_how),
        cmocka_unit_test(test_never_overwrites),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_show_fingerprints),
        cmocka_unit_test(test_show_what_else_is_there),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
