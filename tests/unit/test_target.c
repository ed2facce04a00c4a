/* Destinations, forwarded targets, the two forms a filter sees, exact mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/http/target.h"

enum { ROOM = 4096 };

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct destination {
    const char *target;
    const char *host; /* NULL: refused by the parser */
    uint16_t port;
    const char *rest; /* absolute form: what follows the authority */
};

static void check_destination(const struct destination *want, bool connect)
{
    size_t n = strlen(want->target);
    /* Memory of exactly its size, so that a read past it is seen. */
    char *s = mem_resize(mem_dup_n(want->target, n), n, 1);
    struct authority a;
    bool ok = connect ? authority_parse_connect(s, n, &a) : authority_parse_absolute(s, n, &a);
    if (ok != (want->host != NULL))
        print_error("%s\n", want->target);
    assert_int_equal(ok, want->host != NULL);
    if (ok) {
        assert_int_equal(a.host_len, strlen(want->host));
        assert_memory_equal(a.host, want->host, a.host_len);
        assert_int_equal(a.port, want->port);
        assert_int_equal(a.bracketed, strchr(want->target, '[') != NULL);
        if (!connect)
            assert_string_equal(want->target + a.path, want->rest);
    }
    free(s);
}

static void connect_targets(void **state)
{
    (void)state;
    static const struct destination rows[] = {
        {"a.test:443", "a.test", 443, NULL},
        {"a.test:00443", "a.test", 443, NULL},
        {"a.test:65535", "a.test", 65535, NULL},
        {"A%41:1", "A%41", 1, NULL}, /* malformed for the policy, not here */
        {"u@a:1", "u@a", 1, NULL},
        {"[::1]:443", "::1", 443, NULL},
        {"[::ffff:1.2.3.4]:443", "::ffff:1.2.3.4", 443, NULL},
        {"a.test:65536", NULL, 0, NULL},
        {"a.test:99999999999999999999", NULL, 0, NULL},
        {"a.test:0", NULL, 0, NULL},
        {"a.test:000", NULL, 0, NULL},
        {"a.test:", NULL, 0, NULL},
        {"a.test", NULL, 0, NULL},
        {":443", NULL, 0, NULL},
        {"", NULL, 0, NULL},
        {"a.test:+443", NULL, 0, NULL},
        {"a.test:0x1bb", NULL, 0, NULL},
        {"a.test:443/", NULL, 0, NULL},
        {"a:b:443", NULL, 0, NULL},
        {"::1:443", NULL, 0, NULL},
        {"[a.test]:443", NULL, 0, NULL},
        {"[1.2.3.4]:443", NULL, 0, NULL},
        {"[::1%lo]:443", NULL, 0, NULL},
        {"[::1%251]:443", NULL, 0, NULL},
        {"[]:443", NULL, 0, NULL},
        {"[::1]443", NULL, 0, NULL},
        {"[::1]", NULL, 0, NULL},
        {"[::1", NULL, 0, NULL},
        {"[[::1]]:443", NULL, 0, NULL},
        {"[::1]x:443", NULL, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_destination(&rows[i], true);
}

static void absolute_targets(void **state)
{
    (void)state;
    static const struct destination rows[] = {
        {"http://a.test", "a.test", 80, ""},
        {"http://a.test/", "a.test", 80, "/"},
        {"HTTPS://a.test/b", "a.test", 443, "/b"},
        {"http://a.test?b", "a.test", 80, "?b"},
        {"http://a.test#b", "a.test", 80, "#b"},
        {"http://a.test:8080/b:c@d", "a.test", 8080, "/b:c@d"},
        {"http://a.test:/", "a.test", 80, "/"},
        {"https://a.test:00080/", "a.test", 80, "/"},
        {"http://u:p@a.test/", "a.test", 80, "/"},
        {"http://u@v@a.test:1/", "a.test", 1, "/"},
        {"http://@a.test/", "a.test", 80, "/"},
        {"http://u:p@[::1]:1/", "::1", 1, "/"},
        {"http://[::1]/", "::1", 80, "/"},
        {"http://[::1]:/", "::1", 80, "/"},
        {"http://a%41/", "a%41", 80, "/"},
        {"http://a.test:0/", NULL, 0, NULL},
        {"http://a.test:65536/", NULL, 0, NULL},
        {"http://a.test:x/", NULL, 0, NULL},
        {"http://a.test:1:2/", NULL, 0, NULL},
        {"http:///a", NULL, 0, NULL},
        {"http://", NULL, 0, NULL},
        {"http://?a", NULL, 0, NULL},
        {"http://u@/", NULL, 0, NULL},
        {"http://:80/", NULL, 0, NULL},
        {"http://::1/", NULL, 0, NULL},
        {"http://[::1/", NULL, 0, NULL},
        {"http://[a.test]/", NULL, 0, NULL},
        {"http://[::1%lo]/", NULL, 0, NULL},
        {"http://[::1]x/", NULL, 0, NULL},
        {"http://a[b/", NULL, 0, NULL},
        {"http://a]b/", NULL, 0, NULL},
        {"http://[::1]@/", NULL, 0, NULL},
        {"http://a\\b/", NULL, 0, NULL},
        {"http://a\\@b/", NULL, 0, NULL},
        {"http://u|@b/", NULL, 0, NULL},
        {"http:/a", NULL, 0, NULL},
        {"http:a", NULL, 0, NULL},
        {"ftp://a/", NULL, 0, NULL},
        {"ws://a/", NULL, 0, NULL},
        {"httpss://a/", NULL, 0, NULL},
        {"//a/", NULL, 0, NULL},
        {"/a", NULL, 0, NULL},
        {"*", NULL, 0, NULL},
        {"a.test:80", NULL, 0, NULL},
        {"", NULL, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_destination(&rows[i], false);
}

static void spelling_in_a_record(void **state)
{
    (void)state;
    static const struct {
        const char *target, *shown;
        bool connect;
    } rows[] = {
        {"http://A.Test./", "a.test.", false},
        {"http://0x7f.1/", "127.0.0.1", false},
        {"http://127.0.0.1./", "127.0.0.1", false},
        {"http://[0:0::1]/", "::1", false},
        {"http://[::FFFF:1.2.3.4]/", "::ffff:102:304", false},
        {"http://A,b/", "A,b", false},
        {"http://A..b/", "a..b", false},
        {"http://1.2.3.08/", "1.2.3.08", false},
        {"A.Test.:1", "A.Test.", true},
        {"0x7F.1:1", "0x7F.1", true},
        {"[0:0::1]:1", "0:0::1", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct authority a;
        struct buf out;
        size_t n = strlen(rows[i].target);
        buf_init(&out, ROOM);
        assert_true(rows[i].connect ? authority_parse_connect(rows[i].target, n, &a)
                                    : authority_parse_absolute(rows[i].target, n, &a));
        authority_spelling(&out, &a, rows[i].connect);
        assert_string_equal(buf_cstr(&out), rows[i].shown);
        buf_free(&out);
    }
}

static void authorities_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        uint16_t port, default_port;
        const char *want;
    } rows[] = {
        {"a.test", 80, 80, "a.test"},        {"a.test", 8080, 80, "a.test:8080"},
        {"a.test", 443, 0, "a.test:443"},    {"::1", 80, 80, "[::1]"},
        {"::1", 65535, 0, "[::1]:65535"},    {"::ffff:1.2.3.4", 80, 80, "1.2.3.4"},
        {"127.1", 443, 80, "127.0.0.1:443"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct host host;
        struct buf out;
        buf_init(&out, ROOM);
        assert_int_equal(host_canonicalise(rows[i].host, strlen(rows[i].host), &host), HOST_OK);
        authority_format(&out, &host, rows[i].port, rows[i].default_port);
        assert_string_equal(buf_cstr(&out), rows[i].want);
        buf_free(&out);
    }
}

struct mapping {
    const char *from, *to;
};

static void forwarded_without_a_filter(void **state)
{
    (void)state;
    static const struct mapping rows[] = {
        {"", "/"},
        {"?a", "/?a"},
        {"?", "/"},
        {"#a", "/"},
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a?b#c", "/a?b"},
        {"/a#b?c", "/a"},
        {"/a?", "/a"},
        {"/a?#", "/a"},
        {"/a??", "/a??"},
        {"/a/../b", "/b"},
        {"/../../b", "/b"},
        {"/a/..", "/"},
        {"/a/.", "/a/"},
        {"/a/%2E%2e/b", "/b"},
        {"/a/.%2e", "/"},
        {"/a/%2e./b", "/b"},
        {"/a/...", "/a/..."},
        {"/a/%2e%2e%2e", "/a/%2e%2e%2e"},
        {"/a/%2", "/a/%2"},
        {"/%2f%5c;x", "/%2f%5c;x"},
        {"//a/b", "//a/b"},
        {"///a/../b", "///b"},
        {"//..", "/"},
        {"/.//a", "//a"},
        {"/a\\..\\b", "/b"},
        {"/\\a", "//a"},
        {"/a?\\..\\", "/a?\\..\\"},
        {"/a/../?/../", "/?/../"},
        {"/\"<>`{}^|'[]", "/%22%3C%3E%60%7B%7D^|'[]"},
        {"/?\"<>`{}^|'[]", "/?%22%3C%3E`{}^|%27[]"},
        {"/%22", "/%22"},
        {"/\x01 \x7f\xc3", "/%01%20%7F%C3"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        buf_init(&out, ROOM);
        assert_true(buf_puts(&out, "before"));
        assert_true(target_forwarded(&out, rows[i].from, strlen(rows[i].from)));
        assert_memory_equal(buf_cstr(&out), "before", 6);
        assert_string_equal(buf_cstr(&out) + 6, rows[i].to);
        buf_free(&out);
    }
}

static void forwarded_within_the_maximum(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 4);
    assert_false(target_forwarded(&out, "/\"\"", 3));
    assert_int_equal(buf_len(&out), 0);
    assert_true(target_forwarded(&out, "/\"", 2));
    assert_string_equal(buf_cstr(&out), "/%22");
    buf_free(&out);
}

struct forms {
    const char *method, *target;
    const char *spelled; /* NULL: malformed */
    const char *normalized;
    bool ambiguous;
};

static void forms_under_a_filter(void **state)
{
    (void)state;
    static const struct forms rows[] = {
        {"GET", "/a?b#c", "/a?b", "/a?b", false},
        {"GET", "http://a.test", "/", "/", false},
        {"GET", "http://a.test?b", "/?b", "/?b", false},
        {"GET", "http://u:p@a.test:1/b", "/b", "/b", false},
        {"GET", "/a?", "/a?", "/a", false},
        {"GET", "//a", "//a", "/a", true},
        {"GET", "/.//a", "/.//a", "/a", true},
        {"GET", "/a/../..//b", "/a/../..//b", "/b", true},
        {"GET", "/\\a", "/\\a", "/a", true},
        {"GET", "/a\\b", "/a\\b", "/a/b", true},
        {"GET", "/a/%2e", "/a/%2e", "/a/", true},
        {"GET", "/a/../b?", "/a/../b?", "/b", true},
        {"GET", "/a?\\", "/a?\\", "/a?\\", false},
        {"GET", "/{a}?{b}'", "/{a}?{b}'", "/%7Ba%7D?{b}%27", false},
        {"GET", "/^'`", "/^'`", "/^'%60", false},
        {"OPTIONS", "*", "*", "*", false},
        {"OPTIONS", "*#x", "*", "*", false},
        {"options", "*", NULL, NULL, false},
        {"GET", "*", NULL, NULL, false},
        {"OPTIONS", "*a", NULL, NULL, false},
        {"GET", "", NULL, NULL, false},
        {"GET", "#", NULL, NULL, false},
        {"GET", "a", NULL, NULL, false},
        {"GET", "?a", NULL, NULL, false},
        {"GET", "\\a", NULL, NULL, false},
        {"GET", "/a b", NULL, NULL, false},
        {"GET", "/a\x7f", NULL, NULL, false},
        {"GET", "/\xc3\xa9", NULL, NULL, false},
        {"GET", "http://a.test/\xc3\xa9", NULL, NULL, false},
        {"GET", "http://a.test\\b/", NULL, NULL, false},
        {"GET", "http://a.test:0/", NULL, NULL, false},
        {"GET", "http://1.2.3.08/", NULL, NULL, false},
        {"GET", "http://a..b/", NULL, NULL, false},
        {"GET", "http://a%41/", NULL, NULL, false},
        {"GET", "http:///a", NULL, NULL, false},
        {"GET", "ftp://a/", NULL, NULL, false},
    };
    struct target_forms f;
    target_forms_init(&f, ROOM);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct forms *want = &rows[i];
        bool ok = target_forms_parse(&f, want->target, strlen(want->target), want->method,
                                     strlen(want->method));
        assert_int_equal(ok, want->spelled != NULL);
        const struct buf *chosen;
        if (!ok) {
            assert_int_equal(target_choose(&f, TARGET_AS_SPELLED, &chosen), TARGET_MALFORMED);
            assert_null(chosen);
            continue;
        }
        assert_string_equal(buf_cstr(&f.spelled), want->spelled);
        assert_string_equal(buf_cstr(&f.normalized), want->normalized);
        assert_int_equal(f.ambiguous, want->ambiguous);
        assert_int_equal(target_choose(&f, TARGET_AS_SPELLED, &chosen), TARGET_OK);
        assert_ptr_equal(chosen, &f.spelled);
        assert_int_equal(target_choose(&f, TARGET_NORMALIZE, &chosen), TARGET_OK);
        assert_ptr_equal(chosen, &f.normalized);
        assert_int_equal(target_choose(&f, TARGET_REFUSE, &chosen),
                         want->ambiguous ? TARGET_AMBIGUOUS : TARGET_OK);
        assert_ptr_equal(chosen, want->ambiguous ? NULL : &f.spelled);
    }
    target_forms_free(&f);
}

static void exact_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        bool absolute;
        const char *want;
    } rows[] = {
        {"/a/../b?", false, "/a/../b?"},
        {"/", false, "/"},
        {"/a//b", false, "/a//b"},
        {"/a\\", false, "/a\\"},
        {"//a", false, NULL},
        {"/\\a", false, NULL},
        {"/a#b", false, NULL},
        {"/a b", false, NULL},
        {"/a\x7f", false, NULL},
        {"/a\x1f", false, NULL},
        {"", false, NULL},
        {"*", false, NULL},
        {"a", false, NULL},
        {"http://a/b", false, NULL},
        {"http://a/b", true, "/b"},
        {"hTTps://a?b", true, "/?b"},
        {"http://a", true, "/"},
        {"http://", true, "/"},
        {"http://a//b", true, NULL},
        {"http://a/\\b", true, NULL},
        {"http://a#b", true, NULL},
        {"http://a/#", true, NULL},
        {"http:/a", true, NULL},
        {"http:", true, NULL},
        {"http", true, NULL},
        {"ftp://a/b", true, NULL},
        {"/a", true, NULL},
        {"", true, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        buf_init(&out, ROOM);
        bool ok = target_exact(&out, rows[i].target, strlen(rows[i].target), rows[i].absolute);
        assert_int_equal(ok, rows[i].want != NULL);
        assert_string_equal(buf_cstr(&out), ok ? rows[i].want : "");
        buf_free(&out);
    }
}

static void plain_authorities(void **state)
{
    static const struct {
        const char *target;
        bool plain;
    } rows[] = {
        {"http://a-b.C9.test/", true},
        {"http://a.test./", true},
        {"http://127.0.0.1:80/", true},
        {"http://localhost/", true},
        {"http://[::1]/", true},
        {"http://[::ffff:127.0.0.1]/", true},
        {"http://[::ffff:7f00:1]/", true},
        {"http://[fe80::1%25eth0]/", false},
        {"http://[127.0.0.1]/", false},
        {"http://a..test/", false},
        {"http://.a.test/", false},
        {"http://a.test../", false},
        {"http://./", false},
        {"http://a_b.test/", false},
        {"http://a%2etest/", false},
        {"http://*.test/", false},
        {"http://u@a.test/", false},
        {"http://u:p@a.test/", false},
        {"http://@a.test/", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct authority a;
        bool plain = authority_parse_absolute(rows[i].target, strlen(rows[i].target), &a) &&
                     authority_is_plain(&a);
        if (plain != rows[i].plain)
            print_error("%s\n", rows[i].target);
        assert_int_equal(plain, rows[i].plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_targets),
        cmocka_unit_test(absolute_targets),
        cmocka_unit_test(spelling_in_a_record),
        cmocka_unit_test(authorities_are_written),
        cmocka_unit_test(forwarded_without_a_filter),
        cmocka_unit_test(forwarded_within_the_maximum),
        cmocka_unit_test(forms_under_a_filter),
        cmocka_unit_test(exact_targets),
        cmocka_unit_test(plain_authorities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
