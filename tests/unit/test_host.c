#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/host.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (s), sizeof(s) - 1

static void one_form_for_all_spellings(void **state)
{
    static const struct {
        const char *in, *out;
        bool is_address;
    } cases[] = {
        {"OK.TEST", "ok.test", false},
        {"ok.test.", "ok.test", false},
        {"OK.TEST.", "ok.test", false},
        {"ok_test", "ok_test", false},
        {"XN--BCHER-KVA.example", "xn--bcher-kva.example", false},
        {"xn--.example", "xn--.example", false}, /* labels are not decoded */
        {"[Example.COM.]", "example.com", false},
        {"1.2.3.4.nip.io", "1.2.3.4.nip.io", false},
        {"0x.com", "0x.com", false},
        {"a.0xg", "a.0xg", false},
        {"127.1", "127.0.0.1", true},
        {"0x7f000001", "127.0.0.1", true},
        {"2130706433", "127.0.0.1", true},
        {"0177.0.0.1", "127.0.0.1", true},
        {"127.0.0.1.", "127.0.0.1", true},
        {"0", "0.0.0.0", true},
        {"0x", "0.0.0.0", true},
        {"0X7F.0x1", "127.0.0.1", true},
        {"1.2.65535", "1.2.255.255", true},
        {"4294967295", "255.255.255.255", true},
        {"[::ffff:127.0.0.1]", "127.0.0.1", true},
        {"::FFFF:7f00:1", "127.0.0.1", true},
        {"[64:ff9b::7f00:1]", "64:ff9b::7f00:1", true},
        {"::1.2.3.4", "::102:304", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct host h;
        if (host_canonicalise(cases[i].in, strlen(cases[i].in), &h) != HOST_OK)
            fail_msg("%s", cases[i].in);
        assert_string_equal(h.text, cases[i].out);
        assert_int_equal(h.len, strlen(cases[i].out));
        assert_int_equal(h.is_address, cases[i].is_address);
    }
}

static void forbidden_characters_are_invalid(void **state)
{
    static const struct {
        const char *s;
        size_t n;
    } cases[] = {
        {SPAN("")},
        {SPAN("no.test\0.ok.test")},
        {SPAN("ok.test\0")},
        {SPAN("ok.test%00")},
        {SPAN("ok.test ")},
        {SPAN(" ok.test")},
        {SPAN("ok.test\t")},
        {SPAN("ok.test\r\n")},
        {SPAN("ok\\test")},
        {SPAN("ok.test#x")},
        {SPAN("user@ok.test")},
        {SPAN("ok.test:443")},
        {SPAN("ok.test/")},
        {SPAN("*.test")},
        {SPAN("b\xC3\xBC"
              "cher.example")},
        {SPAN("ok\xEF\xBC\x8Etest")}, /* full-width dot */
        {SPAN("ok\xE3\x80\x82test")}, /* ideographic dot */
        {SPAN("ok.test\x7F")},
        {SPAN("fe80::1%eth0")},
        {SPAN("[fe80::1%25eth0]")},
        {SPAN("::01.2.3.4")},
        {SPAN("[[::1]]")},
        {SPAN("[::1")},
        {SPAN("[]")},
        {SPAN("::1]")},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct host h;
        assert_false(host_valid(cases[i].s, cases[i].n));
        assert_int_equal(host_canonicalise(cases[i].s, cases[i].n, &h), HOST_INVALID);
        assert_string_equal(h.text, "");
    }
}

static void length_is_counted_with_brackets(void **state)
{
    char text[300];
    struct host h;
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(host_canonicalise(text, 255, &h), HOST_OK);
    assert_int_equal(h.len, 255);
    assert_int_equal(host_canonicalise(text, 256, &h), HOST_INVALID);
    text[0] = '[';
    text[254] = ']';
    assert_true(host_valid(text, 255));
    text[254] = 'a';
    text[255] = ']';
    assert_false(host_valid(text, 256));
}

static void number_forms_that_are_no_address_have_no_canonical_form(void **state)
{
    static const char *const cases[] = {
        "256.1.1.1", "1.2.3.08",
        "a.1",       "a.b.c.0x1",
        "1.2.3.4.5", "08.1",
        "1.2.65536", "4294967296",
        "1.256.1",   "0x100000000",
        "1..2",      ".1",
        "a.0x",      "99999999999999999999999",
        "0xg.1",     "1.2.3.256",
        "-1.2",
    };
    struct host h;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_true(host_valid(cases[i], strlen(cases[i])));
        if (host_canonicalise(cases[i], strlen(cases[i]), &h) != HOST_NO_CANONICAL)
            fail_msg("%s", cases[i]);
        assert_int_equal(h.len, 0);
    }
}

static void empty_labels_are_reported(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a..b", "a..b"},         {".", ""}, {"..", "."}, {".a", ".a"}, {"OK.test..", "ok.test."},
        {"1.2.3.4..", "1.2.3.4."}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct host h;
        assert_int_equal(host_canonicalise(cases[i].in, strlen(cases[i].in), &h), HOST_EMPTY_LABEL);
        assert_string_equal(h.text, cases[i].out);
    }
}

static void localhost_and_what_is_under_it(void **state)
{
    static const struct {
        const char *in;
        bool is;
    } cases[] = {{"localhost", true},     {"LOCALHOST.", true},
                 {"a.LocalHost", true},   {"a.b.localhost.", true},
                 {"notlocalhost", false}, {"localhost.example.com", false},
                 {"127.0.0.1", false},    {"localhos", false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct host h;
        assert_int_equal(host_canonicalise(cases[i].in, strlen(cases[i].in), &h), HOST_OK);
        assert_int_equal(host_is_localhost(&h), cases[i].is);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_form_for_all_spellings),
        cmocka_unit_test(forbidden_characters_are_invalid),
        cmocka_unit_test(length_is_counted_with_brackets),
        cmocka_unit_test(number_forms_that_are_no_address_have_no_canonical_form),
        cmocka_unit_test(empty_labels_are_reported),
        cmocka_unit_test(localhost_and_what_is_under_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
