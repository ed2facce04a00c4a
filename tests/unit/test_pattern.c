#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/pattern.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct pattern_list *list_of(enum pattern_kind kind, const char *const *entries, size_t n)
{
    struct pattern_list *list = pattern_list_new(kind);
    for (size_t i = 0; i < n; i++)
        pattern_list_add(list, entries[i]);
    pattern_list_seal(list);
    return list;
}

static long match(const struct pattern_list *list, const char *text, uint16_t port)
{
    struct host host;
    assert_int_equal(host_canonicalise(text, strlen(text), &host), HOST_OK);
    return pattern_list_match(list, &host, port);
}

static void validity_by_kind_of_list(void **state)
{
    static const struct {
        const char *entry;
        bool allowed, denied, plain;
    } cases[] = {
        {"ok.test", true, true, true},
        {"*.wild.test", true, true, true},
        {"localhost", true, true, true},
        {"wild.test:443", true, true, false},
        {"localhost:65535", true, true, false},
        {"*", false, true, false},
        {"*:22", false, true, false},
        {"[::1]", true, true, false},
        {"[::1]:443", true, true, false},
        {"[fe80::1%]", true, true, false},
        {"::1", false, false, true},
        {"fe80::1%eth0", false, false, true},
        {"fe80::1%", false, false, false},
        {"127.1", true, true, true},
        {"*.", false, false, false},
        {"*.test", false, false, false},
        {"*.localhost", false, false, false},
        {"a.*.test", false, false, false},
        {"LOCALHOST", false, false, false},
        {"intranet", false, false, false},
        {"http://x", false, false, false},
        {"http://x.test", false, false, false},
        {"10.0.0.0/8", false, false, false},
        {"ok.test.", false, false, false},
        {".ok.test", false, false, false},
        {"*.a..b", false, false, false},
        {"ok.test:0", false, false, false},
        {"ok.test:0443", false, false, false},
        {"ok.test:65536", false, false, false},
        {"ok.test:https", false, false, false},
        {"ok.test:", false, false, false},
        {"[::1]443", false, false, false},
        {"[::1]:", false, false, false},
        {"[::1", false, false, false},
        {"", false, false, false},
        /* brackets hold IPv6 and nothing else */
        {"[1]", false, false, false},
        {"[1.2.3.4]", false, false, false},
        {"[ok.test]", false, false, false},
        {"[ok.test]:443", false, false, false},
        {"[*]", false, false, false},
        {"[*.ok.test]", false, false, false},
        {"[user@example.com]", false, false, false},
        /* inert, warned of, but accepted */
        {"a b.test", true, true, true},
        {"*.*.com", true, true, true},
        {"*.example.com*", true, true, true},
        {"b\xC3\xBC.example", true, true, true},
        {"a..b", true, true, true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *s = cases[i].entry;
        size_t n = strlen(s);
        if (pattern_valid(PATTERN_ALLOWED, s, n) != cases[i].allowed ||
            pattern_valid(PATTERN_DENIED, s, n) != cases[i].denied ||
            pattern_valid(PATTERN_PLAIN, s, n) != cases[i].plain)
            fail_msg("%s", s);
    }
}

static void entries_that_match_nothing_are_found(void **state)
{
    static const struct {
        const char *entry;
        bool nothing;
    } cases[] = {
        {"ok.test", false},
        {"*.ok.test", false},
        {"ok.test:443", false},
        {"[::1]:22", false},
        {"127.1", false},
        {"*", false},
        {"*:22", false},
        {"_dmarc.ok_.test", false},
        {"localhost", false},
        {"*.1.2.3.4x", false},
        {"a b.test", true},
        {"a@b.test", true},
        {"a%b.test", true},
        {"*.*.com", true},
        {"*.example.com*", true},
        {"a..b", true},
        {"*.0.0.1", true},
        {"*.2.0x3", true},
        {"1.2.3.08", true},
        {"256.1.1.1", true},
        {"a.1", true},
        {"b\xC3\xBC.example", true},
        {"a b.test:443", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *s = cases[i].entry;
        assert_true(pattern_valid(PATTERN_DENIED, s, strlen(s)));
        if (pattern_matches_nothing(PATTERN_DENIED, s, strlen(s)) != cases[i].nothing)
            fail_msg("%s", s);
    }
    assert_false(pattern_matches_nothing(PATTERN_PLAIN, "::1", 3));
    assert_false(pattern_matches_nothing(PATTERN_PLAIN, "fe80::1%eth0", 12));
}

static void entries_longer_than_a_host_match_nothing(void **state)
{
    char text[400];
    (void)state;
    memset(text, 'a', sizeof text);
    text[0] = '*';
    text[1] = text[200] = '.';
    assert_false(pattern_matches_nothing(PATTERN_DENIED, text, 255));
    assert_true(pattern_matches_nothing(PATTERN_DENIED, text, 256));
    text[0] = 'a';
    assert_false(pattern_matches_nothing(PATTERN_DENIED, text, 255));
    assert_true(pattern_matches_nothing(PATTERN_DENIED, text, 256));
    assert_true(pattern_matches_nothing(PATTERN_DENIED, text, sizeof text));
}

static void splitting_keeps_the_text_and_canonicalises_ipv6(void **state)
{
    static const struct {
        const char *entry, *host;
        unsigned port;
    } cases[] = {
        {"Ok.Test", "Ok.Test", 0},
        {"Ok.Test:443", "Ok.Test", 443},
        {"*:22", "*", 22},
        {"[2001:DB8:0::1]:8443", "2001:db8::1", 8443},
        {"[fe80::1%eth0]", "fe80::1", 0},
        {"[::ffff:1.2.3.4]:80", "1.2.3.4", 80},
        {"::1:443", "::1:443", 0},
        {"127.1", "127.1", 0},
        {"ok.test:0", "ok.test:0", 0},
        {"[::1]x", "[::1]x", 0},
        {"[1]:443", "[1]:443", 0},
        {"", "", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf host;
        buf_init(&host, 256);
        unsigned port = pattern_split(cases[i].entry, strlen(cases[i].entry), &host);
        assert_int_equal(port, cases[i].port);
        assert_string_equal(buf_cstr(&host), cases[i].host);
        buf_free(&host);
    }
}

static void matching_of_one_entry(void **state)
{
    static const struct {
        const char *entry, *host;
        uint16_t port;
        bool match;
    } cases[] = {
        {"Ok.Test", "oK.tEST.", 1, true},
        {"ok.test", "www.ok.test", 443, false},
        {"ok.test:443", "ok.test", 443, true},
        {"ok.test:443", "ok.test", 80, false},
        {"*.wild.test", "a.wild.test", 443, true},
        {"*.wild.test", "a.b.wild.test", 443, true},
        {"*.wild.test", "wild.test", 443, false},
        {"*.wild.test", "notwild.test", 443, false},
        {"*.wild.test", "a.wild.test.evil.example", 443, false},
        {"*.WILD.test:8443", "A.wild.TEST", 8443, true},
        {"*.WILD.test:8443", "a.wild.test", 443, false},
        {"*.0.1", "127.0.0.1", 443, false},
        {"*", "anything.at.all", 443, true},
        {"*", "::1", 443, true},
        {"*", "10.0.0.1", 443, true},
        {"*:22", "anything", 22, true},
        {"*:22", "anything", 23, false},
        {"127.1", "127.0.0.1", 443, true},
        {"0x7f.1", "2130706433", 443, true},
        {"0177.0.0.1:80", "::ffff:127.0.0.1", 80, true},
        {"[::ffff:10.0.0.5]", "10.0.0.5", 443, true},
        {"10.0.0.5", "::ffff:a00:5", 443, true},
        {"10.0.0.5", "::a00:5", 443, false},
        {"[2001:DB8:0::1]:443", "2001:db8::1", 443, true},
        {"[fe80::1%eth0]", "fe80::1", 443, true},
        {"localhost", "127.0.0.1", 443, false},
        {"localhost", "a.localhost", 443, false},
        {"[127.1]", "127.0.0.1", 443, false},
        {"[*]", "ok.test", 443, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pattern_list *list = list_of(PATTERN_DENIED, &cases[i].entry, 1);
        if (match(list, cases[i].host, cases[i].port) != (cases[i].match ? 0 : -1))
            fail_msg("%s %s:%u", cases[i].entry, cases[i].host, cases[i].port);
        pattern_list_free(list);
    }
}

static void plain_lists_canonicalise_bare_ipv6(void **state)
{
    static const char *const entries[] = {"2001:DB8:0::1", "::ffff:10.0.0.5", "a.test"};
    struct pattern_list *list = list_of(PATTERN_PLAIN, entries, COUNT(entries));
    (void)state;
    assert_int_equal(match(list, "2001:db8::1", 443), 0);
    assert_int_equal(match(list, "10.0.0.5", 443), 1);
    assert_int_equal(match(list, "A.test.", 1), 2);
    assert_int_equal(match(list, "b.test", 1), -1);
    pattern_list_free(list);
}

static void the_first_entry_of_the_list_is_reported(void **state)
{
    static const char *const entries[] = {
        "*.b.test:443", "a.b.test:80", "*.test.example", "*.b.test", "a.b.test",
        "*:443",        "*",           "a.b.test",       "*.b.test"};
    struct pattern_list *list = list_of(PATTERN_DENIED, entries, COUNT(entries));
    (void)state;
    assert_int_equal(match(list, "a.b.test", 443), 0);
    assert_int_equal(match(list, "a.b.test", 80), 1);
    assert_int_equal(match(list, "a.b.test", 22), 3);
    assert_int_equal(match(list, "c.d.b.test", 22), 3);
    assert_int_equal(match(list, "b.test", 443), 5);
    assert_int_equal(match(list, "b.test", 22), 6);
    assert_int_equal(match(list, "10.0.0.1", 443), 5);
    assert_int_equal(pattern_list_count(list), COUNT(entries));
    assert_string_equal(pattern_list_entry(list, 1), "a.b.test:80");
    pattern_list_free(list);
}

static void entries_are_reported_as_written(void **state)
{
    static const char *const entries[] = {"0x7F.1", "[2001:DB8:0::1]:443", "*.WILD.Test"};
    struct pattern_list *list = list_of(PATTERN_ALLOWED, entries, COUNT(entries));
    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++)
        assert_string_equal(pattern_list_entry(list, i), entries[i]);
    pattern_list_free(list);
    pattern_list_free(NULL);
}

static void coverage_ignores_ports(void **state)
{
    static const struct {
        const char *entry, *inject;
        bool covered;
    } cases[] = {
        {"api.test.example:8443", "API.test.example", true},
        {"*.test.example:8443", "api.test.example", true},
        {"*.test.example", "test.example", false},
        {"*.test.example", "*.test.example", true},
        {"*.Test.example:1", "*.a.TEST.example", true},
        {"*.a.test.example", "*.test.example", false},
        {"*.test.example", "*.atest.example", false},
        {"a.test.example", "*.test.example", false},
        {"*", "a.test", true},
        {"*:22", "a.test", true},
        {"*", "*.a.test", false},
        {"[2001:DB8:0::1]:443", "2001:db8::1", true},
        {"[::ffff:10.0.0.5]", "10.0.0.5", true},
        {"127.0.0.1:80", "127.1", true},
        {"*.0.1", "127.0.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pattern_list *list = list_of(PATTERN_DENIED, &cases[i].entry, 1);
        if (pattern_list_covers(list, cases[i].inject, strlen(cases[i].inject)) != cases[i].covered)
            fail_msg("%s %s", cases[i].entry, cases[i].inject);
        pattern_list_free(list);
    }
}

static void address_literals_are_found_by_port(void **state)
{
    static const char *const entries[] = {"10.0.0.5:443", "127.1", "[2001:db8::1]", "*", "*.0.0.9"};
    static const struct {
        const char *address;
        uint16_t port;
        bool has;
    } cases[] = {{"10.0.0.5", 443, true},      {"10.0.0.5", 80, false},
                 {"127.0.0.1", 1, true},       {"::ffff:127.0.0.1", 1, true},
                 {"2001:db8::1", 65535, true}, {"10.0.0.9", 443, false}};
    struct pattern_list *list = list_of(PATTERN_DENIED, entries, COUNT(entries));
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a;
        assert_true(address_parse(cases[i].address, strlen(cases[i].address), false, &a));
        assert_int_equal(pattern_list_has_address(list, &a, cases[i].port), cases[i].has);
    }
    pattern_list_free(list);
}

static void an_empty_list_matches_nothing(void **state)
{
    struct pattern_list *list = list_of(PATTERN_ALLOWED, NULL, 0);
    (void)state;
    assert_int_equal(match(list, "ok.test", 443), -1);
    assert_false(pattern_list_covers(list, "*.ok.test", 9));
    pattern_list_free(list);
}

/* Every entry of a long list is found, at its own index, and nothing beside it. */
static void long_lists_stay_exact(void **state)
{
    enum { MANY = 10000 };
    struct pattern_list *list = pattern_list_new(PATTERN_ALLOWED);
    char text[64];
    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, i % 2 != 0 ? "*.w%d.test" : "h%d.test:%d", i, i + 1);
        pattern_list_add(list, text);
    }
    pattern_list_seal(list);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, i % 2 != 0 ? "x.w%d.test" : "h%d.test", i);
        assert_int_equal(match(list, text, (uint16_t)(i + 1)), i);
        assert_int_equal(match(list, text, (uint16_t)(i + 2)), i % 2 != 0 ? i : -1);
        snprintf(text, sizeof text, "w%d.test", i);
        assert_int_equal(match(list, text, (uint16_t)(i + 1)), -1);
    }
    pattern_list_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validity_by_kind_of_list),
        cmocka_unit_test(entries_that_match_nothing_are_found),
        cmocka_unit_test(entries_longer_than_a_host_match_nothing),
        cmocka_unit_test(splitting_keeps_the_text_and_canonicalises_ipv6),
        cmocka_unit_test(matching_of_one_entry),
        cmocka_unit_test(plain_lists_canonicalise_bare_ipv6),
        cmocka_unit_test(the_first_entry_of_the_list_is_reported),
        cmocka_unit_test(entries_are_reported_as_written),
        cmocka_unit_test(coverage_ignores_ports),
        cmocka_unit_test(address_literals_are_found_by_port),
        cmocka_unit_test(an_empty_list_matches_nothing),
        cmocka_unit_test(long_lists_stay_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
