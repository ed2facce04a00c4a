#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (s), sizeof(s) - 1

typedef void text_maker(struct buf *out, const char *s, size_t n);

static void assert_made(text_maker *make, const char *s, size_t n, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    make(&out, s, n);
    assert_string_equal(buf_cstr(&out), want);
    assert_int_equal(buf_len(&out), strlen(want));
    buf_free(&out);
}

static void utf8_accepts_exactly_rfc_3629(void **state)
{
    static const struct {
        const char *s;
        size_t n, length;
        uint32_t code;
    } cases[] = {
        {SPAN("a"), 1, 'a'},
        {SPAN("\0"), 1, 0},
        {SPAN("\x7F"), 1, 0x7F},
        {SPAN("\xC2\x80"), 2, 0x80},
        {SPAN("\xDF\xBF"), 2, 0x7FF},
        {SPAN("\xE0\xA0\x80"), 3, 0x800},
        {SPAN("\xED\x9F\xBF"), 3, 0xD7FF},
        {SPAN("\xEE\x80\x80"), 3, 0xE000},
        {SPAN("\xF0\x90\x80\x80"), 4, 0x10000},
        {SPAN("\xF4\x8F\xBF\xBF"), 4, 0x10FFFF},
        {SPAN(""), 0, 0},
        {SPAN("\x80"), 0, 0},
        {SPAN("\xC0\x80"), 0, 0},         /* overlong */
        {SPAN("\xC1\xBF"), 0, 0},         /* overlong */
        {SPAN("\xE0\x9F\xBF"), 0, 0},     /* overlong */
        {SPAN("\xF0\x8F\xBF\xBF"), 0, 0}, /* overlong */
        {SPAN("\xED\xA0\x80"), 0, 0},     /* surrogate */
        {SPAN("\xED\xBF\xBF"), 0, 0},     /* surrogate */
        {SPAN("\xF4\x90\x80\x80"), 0, 0}, /* above U+10FFFF */
        {SPAN("\xF5\x80\x80\x80"), 0, 0},
        {SPAN("\xFF"), 0, 0},
        {SPAN("\xE2\x82"), 0, 0}, /* cut short */
        {SPAN("\xC2"), 0, 0},
        {SPAN("\xE2\x41\x80"), 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t code = 77;
        assert_int_equal(text_utf8_decode((const uint8_t *)cases[i].s, cases[i].n, &code),
                         cases[i].length);
        assert_int_equal(code, cases[i].code);
        assert_int_equal(text_utf8_valid(cases[i].s, cases[i].n), cases[i].length == cases[i].n);
    }
}

static void repair_replaces_each_maximal_subpart_once(void **state)
{
    (void)state;
    assert_made(text_utf8_repair, SPAN("plain \xC3\xA9"), "plain \xC3\xA9");
    assert_made(text_utf8_repair, SPAN("a\xFF\xFE"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_made(text_utf8_repair, SPAN("\xE2\x82z"), "\xEF\xBF\xBDz");
    assert_made(text_utf8_repair, SPAN("\xF0\x9F\x98"), "\xEF\xBF\xBD");
    assert_made(text_utf8_repair, SPAN("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void equality_folds_ascii_only(void **state)
{
    (void)state;
    assert_true(text_equal_fold(SPAN("HoSt"), SPAN("hOsT")));
    assert_true(text_equal_fold(SPAN(""), SPAN("")));
    assert_false(text_equal_fold(SPAN("host"), SPAN("hos")));
    assert_false(text_equal_fold(SPAN("["
                                      "a"),
                                 SPAN("{"
                                      "a")));
    assert_false(text_equal_fold(SPAN("\xC3\x89"), SPAN("\xC3\xA9")));
    assert_true(text_equal_fold(SPAN("a\0B"), SPAN("A\0b")));
}

static void cleaning_turns_runs_into_one_space(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        const char *want;
    } cases[] = {
        {SPAN("a \n b"), "a   b"},
        {SPAN("a\r\n\tb"), "a b"},
        {SPAN("a\0\0b"), "a b"},
        {SPAN("a\n<\nb"), "a  b"}, /* the runs are joined before the bracket goes */
        {SPAN("<b>x</b>"), "bx/b"},
        {SPAN("\xEF\xBB\xBFx\xEF\xBB\xBF"), "x"},
        {SPAN("\xE2\x80\x83x\xE3\x80\x80"), "x"},
        {SPAN("a\xE2\x80\xAE"
              "b"),
         "a b"}, /* U+202E */
        {SPAN("a\xE2\x80\xAF"
              "b"),
         "a\xE2\x80\xAF"
         "b"}, /* U+202F is only white space */
        {SPAN("a\xF3\xA0\x81\xBF"
              "b"),
         "a b"}, /* U+E007F */
        {SPAN("a\xF3\xA0\x82\x80"
              "b"),
         "a\xF3\xA0\x82\x80"
         "b"},
        {SPAN("a\xC2\x9B"
              "31m"),
         "a 31m"},
        {SPAN("\xFFx"), "\xEF\xBF\xBDx"},
        {SPAN(" \n "), ""},
        {SPAN(""), ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_made(text_clean, cases[i].s, cases[i].n, cases[i].want);
}

static void cleaning_appends_all_or_nothing(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 4);
    buf_puts(&out, "ab");
    text_clean(&out, SPAN("cde"));
    assert_string_equal(buf_cstr(&out), "ab");
    text_clean(&out, SPAN("cd"));
    assert_string_equal(buf_cstr(&out), "abcd");
    buf_free(&out);
}

static void cuts_count_utf16_units(void **state)
{
    (void)state;
    assert_int_equal(text_cut(SPAN("abc"), 2), 2);
    assert_int_equal(text_cut(SPAN("abc"), 3), 3);
    assert_int_equal(text_cut(SPAN("abc"), 9), 3);
    assert_int_equal(text_cut(SPAN("abc"), 0), 0);
    assert_int_equal(text_cut(SPAN("\xC3\xA9\xC3\xA9"), 1), 2);
    assert_int_equal(text_cut(SPAN("\xF0\x9F\x98\x80z"), 1), 0); /* never half a pair */
    assert_int_equal(text_cut(SPAN("\xF0\x9F\x98\x80z"), 2), 4);
    assert_int_equal(text_cut(SPAN("\xFF\xFFz"), 2), 2);
}

static void a_reason_is_trimmed_after_the_cut_and_a_key_is_not(void **state)
{
    char text[600];
    struct buf out;
    (void)state;

    memset(text, 'r', sizeof text);
    text[499] = ' ';
    buf_init(&out, sizeof text);
    text_clean_reason(&out, text, sizeof text);
    assert_int_equal(buf_len(&out), 499);
    buf_clear(&out);
    text[99] = ' ';
    text_clean_key(&out, text, sizeof text);
    assert_int_equal(buf_len(&out), 100);
    assert_int_equal(buf_data(&out)[99], ' ');
    buf_free(&out);
}

static void a_phrase_is_printable_ascii(void **state)
{
    (void)state;
    assert_made(text_phrase, SPAN("caf\xC3\xA9 \xF0\x9F\x98\x80\r\nX-Evil: 1"), "caf? ? X-Evil: 1");
    assert_made(text_phrase, SPAN("\xFF~\x7F"), "?~");
}

static void json_strings_are_safe_to_show(void **state)
{
    (void)state;
    assert_made(text_json, SPAN(""), "\"\"");
    assert_made(text_json, SPAN("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    assert_made(text_json, SPAN("\b\f\n\r\t\x01\0"), "\"\\b\\f\\n\\r\\t\\u0001\\u0000\"");
    assert_made(text_json, SPAN("\x7F\xC2\x9B\xE2\x80\xA8"), "\"\\u007f\\u009b\\u2028\"");
    assert_made(text_json, SPAN("\xC3\xA9\xFF"), "\"\xC3\xA9\xEF\xBF\xBD\"");
}

static void base64_matches_rfc_4648(void **state)
{
    static const struct {
        const char *plain, *encoded;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xFB\xFF", "+/8="}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 64);
        text_base64(&out, cases[i].plain, strlen(cases[i].plain));
        assert_string_equal(buf_cstr(&out), cases[i].encoded);
        buf_clear(&out);
        assert_true(text_base64_decode(&out, cases[i].encoded, strlen(cases[i].encoded)));
        assert_string_equal(buf_cstr(&out), cases[i].plain);
        buf_free(&out);
    }
}

static void base64_decoding_is_lenient_about_padding_only(void **state)
{
    static const struct {
        const char *s;
        bool ok;
    } cases[] = {{"Zg", true},      {"Zg=", true},   {"Zm8", true},    {"Zh==", true},
                 {"Z", false},      {"Z===", false}, {"Zg===", false}, {"Zg= =", false},
                 {"Zm9v\n", false}, {"Zm-v", false}, {"Z=g=", false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 64);
        assert_int_equal(text_base64_decode(&out, cases[i].s, strlen(cases[i].s)), cases[i].ok);
        if (!cases[i].ok)
            assert_int_equal(buf_len(&out), 0);
        buf_free(&out);
    }
}

static void base64_decoding_respects_the_maximum(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 2);
    assert_false(text_base64_decode(&out, SPAN("Zm9v")));
    assert_int_equal(buf_len(&out), 0);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_accepts_exactly_rfc_3629),
        cmocka_unit_test(repair_replaces_each_maximal_subpart_once),
        cmocka_unit_test(equality_folds_ascii_only),
        cmocka_unit_test(cleaning_turns_runs_into_one_space),
        cmocka_unit_test(cleaning_appends_all_or_nothing),
        cmocka_unit_test(cuts_count_utf16_units),
        cmocka_unit_test(a_reason_is_trimmed_after_the_cut_and_a_key_is_not),
        cmocka_unit_test(a_phrase_is_printable_ascii),
        cmocka_unit_test(json_strings_are_safe_to_show),
        cmocka_unit_test(base64_matches_rfc_4648),
        cmocka_unit_test(base64_decoding_is_lenient_about_padding_only),
        cmocka_unit_test(base64_decoding_respects_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
