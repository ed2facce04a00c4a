#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "decider/strict_json.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (s), sizeof(s) - 1

static const char UTF8[] = "frame is not UTF-8";
static const char JSON[] = "frame is not valid JSON";
static const char OBJECT[] = "frame is not one JSON object";
static const char SURROGATE[] = "lone surrogate in frame";
static const char TWICE[] = "duplicate key in frame";
static const char NONE[] = "null in frame";

static void assert_refused(const char *s, size_t n, const char *want)
{
    const char *why = NULL;
    /* An allocation of its own, so that a read past its end is seen. */
    uint8_t *p = mem_alloc(n != 0 ? n : 1);
    memcpy(p, s, n);
    json_t *value = strict_json_read(p, n, &why);
    free(p);
    if (value != NULL || why == NULL || strcmp(why, want) != 0)
        fail_msg("'%s' (%zu bytes): '%s', not '%s'", s, n, why != NULL ? why : "accepted", want);
}

static void refuses_what_is_no_object(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        const char *why;
    } cases[] = {
        {SPAN(""), JSON},
        {SPAN(" "), JSON},
        {SPAN("[]"), OBJECT},
        {SPAN("[{}]"), OBJECT},
        {SPAN("7"), OBJECT},
        {SPAN("\"a\""), OBJECT},
        {SPAN("true"), OBJECT},
        {SPAN("null"), NONE},
        {SPAN("{}{}"), JSON},
        {SPAN("{} {}"), JSON},
        {SPAN("{},"), JSON},
        {SPAN("{}\n7"), JSON},
        {SPAN("{}}"), JSON},
        {SPAN("{}\0"), JSON},
        {SPAN("\0{}"), JSON},
        {SPAN("\xef\xbb\xbf{}"), JSON},
        {SPAN("\x1e{}"), JSON},
        {SPAN("{"), JSON},
        {SPAN("}"), JSON},
        {SPAN("{\"a\":[}"), JSON},
        {SPAN("{\"a\":[1}"), JSON},
        {SPAN("{\"a\":{]"), JSON},
        {SPAN("{\"a\":\""), JSON},
        {SPAN("{\"a\":\"\\"), JSON},
        {SPAN("{\"a\":\"\\u00"), JSON},
        {SPAN("{\"a\":1"), JSON},
        {SPAN("{\"a\":"), JSON},
        {SPAN("{\"a\""), JSON},
        {SPAN("{\"a"), JSON},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].s, cases[i].n, cases[i].why);
}

static void refuses_what_only_lenient_parsers_take(void **state)
{
    static const struct {
        const char *s;
        size_t n;
    } cases[] = {
        {SPAN("{\"a\":1,}")},
        {SPAN("{,}")},
        {SPAN("{,\"a\":1}")},
        {SPAN("{\"a\":1,,\"b\":2}")},
        {SPAN("{\"a\":1 \"b\":2}")},
        {SPAN("{\"a\":[1,]}")},
        {SPAN("{\"a\":[,1]}")},
        {SPAN("{\"a\":[1 2]}")},
        {SPAN("{\"a\":[1,,2]}")},
        {SPAN("{\"a\"}")},
        {SPAN("{\"a\" 1}")},
        {SPAN("{\"a\"::1}")},
        {SPAN("{\"a\":}")},
        {SPAN("{a:1}")},
        {SPAN("{1:1}")},
        {SPAN("{'a':1}")},
        {SPAN("{\"a\":'b'}")},
        {SPAN("{\"a\":b}")},
        {SPAN("{/**/\"a\":1}")},
        {SPAN("{\"a\":1}//")},
        {SPAN("{\"a\":1}#")},
        {SPAN("{\"a\":NaN}")},
        {SPAN("{\"a\":nan}")},
        {SPAN("{\"a\":Infinity}")},
        {SPAN("{\"a\":-Infinity}")},
        {SPAN("{\"a\":True}")},
        {SPAN("{\"a\":tru}")},
        {SPAN("{\"a\":truee}")},
        {SPAN("{\"a\":falsey}")},
        {SPAN("{\"a\":nul}")},
        {SPAN("{\"a\":undefined}")},
        {SPAN("{\"a\":01}")},
        {SPAN("{\"a\":-01}")},
        {SPAN("{\"a\":00}")},
        {SPAN("{\"a\":+1}")},
        {SPAN("{\"a\":-}")},
        {SPAN("{\"a\":--1}")},
        {SPAN("{\"a\":.5}")},
        {SPAN("{\"a\":5.}")},
        {SPAN("{\"a\":5.e1}")},
        {SPAN("{\"a\":5e}")},
        {SPAN("{\"a\":5e+}")},
        {SPAN("{\"a\":5e1.5}")},
        {SPAN("{\"a\":0x7}")},
        {SPAN("{\"a\":0e}")},
        {SPAN("{\"a\":1_000}")},
        {SPAN("{\"a\":1\0}")}, /* a NUL where the value has to end */
        {SPAN("{\"a\":true\0}")},
        {SPAN("{\"a\"\0:1}")},
        {SPAN("{\"a\":\"b\0\"}")},
        {SPAN("{\"a\0\":1}")},
        {SPAN("{\"a\":\"\\u0000\"}")},
        {SPAN("{\"\\u0000\":1}")},
        {SPAN("{\"a\":\"\n\"}")},
        {SPAN("{\"a\":\"\t\"}")},
        {SPAN("{\"a\":\"\x1f\"}")},
        {SPAN("{\"a\":\"\\x41\"}")},
        {SPAN("{\"a\":\"\\'\"}")},
        {SPAN("{\"a\":\"\\a\"}")},
        {SPAN("{\"a\":\"\\\n\"}")},
        {SPAN("{\"a\":\"\\u12\"}")},
        {SPAN("{\"a\":\"\\u12g4\"}")},
        {SPAN("{\"a\":\"\\u+123\"}")},
        {SPAN("{\"a\":\"\\U0041\"}")},
        {SPAN("{\v\"a\":1}")},
        {SPAN("{\f\"a\":1}")},
        {SPAN("{\xc2\xa0\"a\":1}")},
        {SPAN("{\xe2\x80\xa8\"a\":1}")},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].s, cases[i].n, JSON);
}

static void refuses_numbers_that_fit_no_type(void **state)
{
    static const char *const numbers[] = {"1e400",
                                          "-1e400",
                                          "1e309",
                                          "9223372036854775808",
                                          "-9223372036854775809",
                                          "123456789012345678901234567890"};
    char text[64];
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        int n = snprintf(text, sizeof text, "{\"a\":%s}", numbers[i]);
        assert_refused(text, (size_t)n, JSON);
    }
}

static void refuses_invalid_utf8_of_every_kind(void **state)
{
    static const char *const bad[] = {
        "\x80",                     /* continuation alone */
        "\xbf\xbf",                 /* two */
        "\xc3",                     /* cut */
        "\xc3(",                    /* no continuation */
        "\xc0\x80",                 /* overlong NUL */
        "\xc1\xbf",                 /* overlong */
        "\xe0\x80\x80",             /* overlong */
        "\xe0\x9f\xbf",             /* overlong */
        "\xe2\x82",                 /* cut */
        "\xf0\x80\x80\x80",         /* overlong */
        "\xf0\x8f\xbf\xbf",         /* overlong */
        "\xf0\x9f\x98",             /* cut */
        "\xed\xa0\x80",             /* surrogate */
        "\xed\xbf\xbf",             /* surrogate */
        "\xed\xa0\xbd\xed\xb8\x80", /* a pair of them */
        "\xf4\x90\x80\x80",         /* past the last */
        "\xf8\x88\x80\x80\x80",
        "\xfc\x84\x80\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    static const char *const places[] = {"{\"a\":\"%s\"}", "{\"%s\":1}", "{\"a\":[\"x%sy\"]}"};
    char text[64];
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (size_t j = 0; j < COUNT(places); j++) {
            const char *mark = strchr(places[j], '%');
            int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - places[j]), places[j],
                             bad[i], mark + 2);
            assert_refused(text, (size_t)n, UTF8);
        }
    }
    assert_refused(SPAN("{\"a\":1}\xff"), UTF8);
    assert_refused(SPAN("\xff{}"), UTF8);
    assert_refused(SPAN("{\"a\":\"\xc3"), UTF8);
}

static void refuses_lone_surrogates_that_are_escaped(void **state)
{
    static const char *const bad[] = {
        "\\ud800",  "\\udbff",        "\\udc00",        "\\udfff",          "\\ud800x",
        "x\\uDC00", "\\ud800\\ud800", "\\udc00\\ud800", "\\ud800\\u0041",   "\\ud800\\n",
        "\\uD83D",  "\\uD83D\\",      "\\uD83D\\uDE0",  "\\uD83D\\\\uDE00",
    };
    char text[64];
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        int n = snprintf(text, sizeof text, "{\"a\":\"%s\"}", bad[i]);
        assert_refused(text, (size_t)n, SURROGATE);
        n = snprintf(text, sizeof text, "{\"%s\":1}", bad[i]);
        assert_refused(text, (size_t)n, SURROGATE);
    }
}

static void refuses_duplicate_keys_and_null_at_any_depth(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{\"a\":1,\"a\":1}", TWICE},
        {"{\"a\":1,\"b\":2,\"a\":3}", TWICE},
        {"{\"\":1,\"\":1}", TWICE},
        {"{\"a\":1,\"\\u0061\":1}", TWICE},
        {"{\"\\u00e9\":1,\"\xc3\xa9\":1}", TWICE},
        {"{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":1}", TWICE},
        {"{\"/\":1,\"\\/\":1}", TWICE},
        {"{\"x\":{\"a\":1,\"a\":2}}", TWICE},
        {"{\"x\":[[{\"y\":{\"a\":1,\"b\":[],\"a\":2}}]]}", TWICE},
        {"{\"a\":null}", NONE},
        {"{\"a\":[null]}", NONE},
        {"{\"a\":[1,{\"b\":[[{\"c\":null}]]}]}", NONE},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].text, strlen(cases[i].text), cases[i].why);
}

static char *nested(size_t depth, const char *open, const char *inner, const char *close)
{
    struct buf b;
    buf_init(&b, SIZE_MAX / 2);
    buf_puts(&b, "{\"a\":");
    for (size_t i = 0; i < depth; i++)
        buf_puts(&b, open);
    buf_puts(&b, inner);
    for (size_t i = 0; i < depth; i++)
        buf_puts(&b, close);
    buf_puts(&b, "}");
    char *text = mem_dup(buf_cstr(&b));
    buf_free(&b);
    return text;
}

static void depth_is_bounded(void **state)
{
    const char *why;
    (void)state;
    char *fine = nested(30, "[", "", "]");
    json_t *value = strict_json_read((const uint8_t *)fine, strlen(fine), &why);
    assert_non_null(value);
    json_decref(value);
    free(fine);

    static const char *const opens[] = {"[", "{\"a\":"};
    static const char *const closes[] = {"]", "}"};
    for (size_t i = 0; i < 2; i++) {
        char *deep = nested(100000, opens[i], "1", closes[i]);
        assert_refused(deep, strlen(deep), JSON);
        assert_refused(deep, strlen(deep) / 2, JSON);
        free(deep);
    }
}

static void reads_what_is_well_formed(void **state)
{
    static const char *const texts[] = {
        "{}",
        " {} ",
        "\t\r\n{\t\"a\"\r:\n1 ,\"b\" : [ ] , \"c\":{ }\n}\n",
        "{\"\":\"\"}",
        "{\"a\":[1,-1,0,-0,1.5,1e5,1E+5,1e-5,0.0,9223372036854775807,-9223372036854775808]}",
        "{\"a\":[true,false,\"null\",{},[],\"\"]}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u00E9\\ud83d\\uDE00\\uffff\"}",
        "{\"a\":\"\x7f \xc2\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf \xed\x9f\xbf \xee\x80\x80\"}",
        "{\"a\":1,\"A\":2,\"aa\":3,\"x\":{\"a\":1},\"y\":{\"a\":1}}",
        "{\"a\":1e-400}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        const char *why = NULL;
        size_t n = strlen(texts[i]);
        json_t *value = strict_json_read((const uint8_t *)texts[i], n, &why);
        if (value == NULL)
            fail_msg("'%s': %s", texts[i], why);
        assert_null(why);
        json_t *want = json_loadb(texts[i], n, 0, NULL);
        assert_non_null(want);
        assert_true(json_equal(value, want));
        json_decref(want);
        json_decref(value);
    }
}

static void keeps_strings_and_the_order_of_keys(void **state)
{
    static const char text[] = "{\"z\":\"\\u0041\\u00e9\\ud83d\\ude00\\n\\/\",\"a\":1,\"m\":2}";
    const char *why;
    (void)state;
    json_t *value = strict_json_read((const uint8_t *)text, sizeof text - 1, &why);
    assert_non_null(value);
    assert_string_equal(json_string_value(json_object_get(value, "z")),
                        "A\xc3\xa9\xf0\x9f\x98\x80\n/");
    void *i = json_object_iter(value);
    assert_string_equal(json_object_iter_key(i), "z");
    i = json_object_iter_next(value, i);
    assert_string_equal(json_object_iter_key(i), "a");
    i = json_object_iter_next(value, i);
    assert_string_equal(json_object_iter_key(i), "m");
    json_decref(value);
}

static void takes_integers_in_every_spelling(void **state)
{
    static const struct {
        const char *text;
        bool well;
        int64_t want;
    } cases[] = {
        {"7", true, 7},
        {"7.0", true, 7},
        {"7e0", true, 7},
        {"70e-1", true, 7},
        {"0.7E+1", true, 7},
        {"9007199254740991", true, INT64_C(9007199254740991)},
        {"9007199254740991.0", true, INT64_C(9007199254740991)},
        {"1", true, 1},
        {"7.5", false, 0},
        {"0", false, 0},
        {"-0", false, 0},
        {"-0.0", false, 0},
        {"-7", false, 0},
        {"9007199254740992", false, 0},
        {"9007199254740992.0", false, 0},
        {"9007199254740993.0", false, 0},
        {"1e300", false, 0},
        {"-1e300", false, 0},
        {"1e-300", false, 0},
        {"9223372036854775807", false, 0},
        {"\"7\"", false, 0},
        {"true", false, 0},
        {"[7]", false, 0},
        {"{}", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t out = -1;
        json_t *value = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_int_equal(strict_json_integer(value, 1, INT64_C(9007199254740991), &out),
                         cases[i].well);
        assert_int_equal(out, cases[i].well ? cases[i].want : -1);
        json_decref(value);
    }
    int64_t out = -1;
    assert_false(strict_json_integer(NULL, 0, 1, &out));
}

static void knows_valid_text(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        bool valid;
    } cases[] = {
        {SPAN(""), true},
        {SPAN("plain text, \"quoted\" and back\\slashed"), true},
        {SPAN("a\tb"), true},
        {SPAN("\xc3\xa9"), true},
        {SPAN("\xc2\xa0"), true},
        {SPAN("\xf0\x9f\x98\x80 and much behind it"), true},
        {SPAN("12345678\xc3\xa9"), true},
        {SPAN("\0"), false},
        {SPAN("12345678\0"), false},
        {SPAN("1234567\x01"), false},
        {SPAN("\x1f"), false},
        {SPAN("a\nb"), false},
        {SPAN("a\rb"), false},
        {SPAN("\x7f"), false},
        {SPAN("12\x7f"
              "45678"),
         false},
        {SPAN("\xc2\x80"), false},
        {SPAN("\xc2\x9f"), false},
        {SPAN("1234567\xc2\x85"), false},
        {SPAN("\xe9"), false},
        {SPAN("\xc3"), false},
        {SPAN("\xed\xa0\x80"), false},
        {SPAN("\xc0\xa0"), false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(strict_text_valid(cases[i].s, cases[i].n), cases[i].valid);
}

static void every_byte_is_judged_at_every_place(void **state)
{
    char text[24];
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        bool valid = c == '\t' || (c >= 0x20 && c < 0x7f);
        for (size_t at = 0; at < sizeof text; at++) {
            memset(text, 'x', sizeof text);
            text[at] = (char)c;
            assert_int_equal(strict_text_valid(text, sizeof text), valid);
        }
    }
}

static void written_strings_are_read_back(void **state)
{
    static const struct {
        const char *s;
        size_t n;
        const char *want;
    } cases[] = {
        {SPAN(""), "\"\""},
        {SPAN("a\"b\\c/d"), "\"a\\\"b\\\\c/d\""},
        {SPAN("\x01\x1f\n\x7f"), "\"\\u0001\\u001f\\u000a\x7f\""},
        {SPAN("\xc3\xa9\xf0\x9f\x98\x80"), "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {SPAN("\0"), "\"\\u0000\""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 100);
        assert_true(strict_json_put_string(&out, cases[i].s, cases[i].n));
        assert_string_equal(buf_cstr(&out), cases[i].want);
        json_t *back = json_loads(buf_cstr(&out), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_int_equal(json_string_length(back), cases[i].n);
        assert_memory_equal(json_string_value(back), cases[i].s, cases[i].n);
        json_decref(back);
        buf_free(&out);
    }
}

static void nothing_is_written_past_the_maximum(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 6);
    assert_false(strict_json_put_string(&out, SPAN("\"\"\"")));
    assert_int_equal(buf_len(&out), 0);
    assert_true(strict_json_put_string(&out, SPAN("\"\"")));
    buf_free(&out);
}

static void measured_texts_are_written_in_just_that_size(void **state)
{
    static const char *const texts[] = {"", "plain", "a\tb\"c\\d", "\t\t\t\t\t\t\t\t\t",
                                        "12345678\xc3\xa9\"12345678\"\xf0\x9f\x98\x80\\"};
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        size_t n = strlen(texts[i]);
        size_t size = 3;
        assert_true(strict_text_measure(texts[i], n, &size));
        size -= 3;
        char *text = mem_alloc(size);
        assert_ptr_equal(strict_json_put(text, texts[i], n), text + size);
        json_t *back = json_loadb(text, size, JSON_DECODE_ANY, NULL);
        assert_string_equal(json_string_value(back), texts[i]);
        json_decref(back);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_no_object),
        cmocka_unit_test(refuses_what_only_lenient_parsers_take),
        cmocka_unit_test(refuses_numbers_that_fit_no_type),
        cmocka_unit_test(refuses_invalid_utf8_of_every_kind),
        cmocka_unit_test(refuses_lone_surrogates_that_are_escaped),
        cmocka_unit_test(refuses_duplicate_keys_and_null_at_any_depth),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(reads_what_is_well_formed),
        cmocka_unit_test(keeps_strings_and_the_order_of_keys),
        cmocka_unit_test(takes_integers_in_every_spelling),
        cmocka_unit_test(knows_valid_text),
        cmocka_unit_test(every_byte_is_judged_at_every_place),
        cmocka_unit_test(written_strings_are_read_back),
        cmocka_unit_test(nothing_is_written_past_the_maximum),
        cmocka_unit_test(measured_texts_are_written_in_just_that_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
