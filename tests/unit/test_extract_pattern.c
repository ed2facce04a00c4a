#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/credentials/extract_pattern.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct extract_pattern *compile(const char *pattern, struct buf *error)
{
    buf_init(error, 1000);
    return extract_pattern_compile(pattern, strlen(pattern), error);
}

static void test_groups_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        unsigned groups;
    } rows[] = {
        {"", 0},
        {"a", 0},
        {"(a)(?:b)(?<n>c)", 2},
        {"(?=(a))(?!b)(?<=c)(?<!d)", 1},
        {"[(](a)\\(", 1},
        {"((((a))))", 4},
        {"(\\x)(\\u{61})({)(})(])", 5},
        {"\\1\\2(a)", 1},
        {"(a)\\k", 1},
        {"([\\d-x])", 1},
        {"(\\c)([\\c_])", 2},
        {"(?=a)*(b)", 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf error;
        struct extract_pattern *p = compile(rows[i].pattern, &error);
        assert_non_null(p);
        assert_int_equal(extract_pattern_groups(p), rows[i].groups);
        extract_pattern_free(p);
        buf_free(&error);
    }
}

static void test_what_is_no_pattern_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *error;
    } rows[] = {
        {"(a", "Unterminated group"},
        {"a)", "Unmatched ')'"},
        {"[a", "Unterminated character class"},
        {"[b-a]", "Range out of order in character class"},
        {"a\\", "\\ at end of pattern"},
        {"*", "Nothing to repeat"},
        {"a++", "Nothing to repeat"},
        {"^*", "Nothing to repeat"},
        {"{1}", "Nothing to repeat"},
        {"a{2,1}", "numbers out of order in {} quantifier"},
        {"(?<=a)*", "Invalid quantifier"},
        {"(?i)(a)", "Invalid group"},
        {"(?>a)", "Invalid group"},
        {"(?P<n>a)", "Invalid group"},
        {"(?#c)", "Invalid group"},
        {"(?<n>a)(?<n>b)", "Duplicate capture group name"},
        {"(?<1>a)", "Invalid capture group name"},
        {"(?<a", "Invalid capture group name"},
        {"(?<\xe2\x86\x92>a)", "Invalid capture group name"},
        {"(?<n>a)\\k", "Invalid named reference"},
        {"(?<n>a)\\k<m>", "Invalid named capture referenced"},
        {"(?<n>a)[\\k]", "Invalid escape"},
        {"(?<\\u{110000}>a)", "Invalid Unicode escape"},
        {"(\xff)", "Not UTF-8"},
        {"(a|bc){70000}", "Regular expression too large"},
        {"((a{0,1000}){0,1000}){0,1000}", "Regular expression too large"},
        {"(a)(?<=(\\1+))\\2",
         "A group in a lookbehind that refers to another group cannot be used outside"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf error;
        assert_null(compile(rows[i].pattern, &error));
        assert_string_equal(buf_cstr(&error), rows[i].error);
        buf_free(&error);
    }
}

static void test_nesting_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 5000 };
    char pattern[2 * DEPTH];
    struct buf error;
    memset(pattern, '(', DEPTH);
    memset(pattern + DEPTH, ')', DEPTH);
    buf_init(&error, 1000);
    assert_null(extract_pattern_compile(pattern, sizeof pattern, &error));
    assert_string_equal(buf_cstr(&error), "Regular expression too large");
    buf_free(&error);
}

/* Finds in a text of ASCII. */
static enum extract_result find(const char *pattern, const char *text, uint32_t *slots)
{
    struct buf error;
    uint16_t units[256];
    size_t n = strlen(text);
    struct extract_pattern *p = compile(pattern, &error);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        units[i] = (unsigned char)text[i];
    enum extract_result result = extract_pattern_find(p, units, (uint32_t)n, 0, slots);
    extract_pattern_free(p);
    buf_free(&error);
    return result;
}

static void test_first_match_and_group_1(void **state)
{
    (void)state;
    const uint32_t unset = EXTRACT_UNSET;
    const struct {
        const char *pattern, *text;
        uint32_t slots[4];
    } rows[] = {
        {"token:\\s*(\\S+)", "x token:  abc d", {2, 13, 10, 13}},
        {"(a|ab)(?:c|bcd)", "abcd", {0, 4, 0, 1}},
        {"^(b)|(?:c)", "abc", {2, 3, unset, unset}},
        {"(a)$", "a\na", {2, 3, 2, 3}},
        {"(.)\\1", "abb", {1, 3, 1, 2}},
        {"(a*?)b", "aab", {0, 3, 0, 2}},
        {"(?:(a)|b)*", "ab", {0, 2, unset, unset}}, /* each turn unsets the groups in it */
        {"(?:(a)|\\1b)*", "ab", {0, 2, unset, unset}},
        {"(?:(?=(b*))a|c)+", "aac", {0, 3, unset, unset}},
        {"(?:(?:(a)|b)+c)+", "acbc", {0, 4, unset, unset}},
        {"(?:(?:(a)|b)*c)+", "acc", {0, 3, unset, unset}},
        {"(?:a()|b)*", "ab", {0, 2, unset, unset}}, /* even where it was empty */
        {"(?:()a|b)*", "ba", {0, 2, 1, 1}},
        {"(?:()|a)+", "aa", {0, 2, unset, unset}}, /* a turn too many may not be empty */
        {"(?:(a*)|b){2,3}c", "aabc", {0, 4, unset, unset}},
        {"(a*)*", "b", {0, 0, unset, unset}},
        {"(a*)+", "b", {0, 0, 0, 0}},
        {"(a\\1)", "aa", {0, 1, 0, 1}},       /* a group is unset within itself */
        {"\\1(a)", "aa", {0, 1, 0, 1}},       /* and before */
        {"(a{70000}|b)", "ab", {1, 2, 1, 2}}, /* counts beyond PCRE2's */
        {"((?:ab){0,70000})c", "ababc", {0, 5, 0, 4}},
        {"((?:ab){3,60000}?)", "abababab", {0, 6, 0, 6}},
        {"(?:(a)|(b)|c){3}", "abc", {0, 3, unset, unset}},
        {"(?!(a))b", "b", {0, 1, unset, unset}},
        {"(?=(a+))a", "aaa", {0, 1, 0, 3}},
        {"(z)?\\1b", "b", {0, 1, unset, unset}}, /* an unset group matches empty */
        {"\\A(\\Z)", "AZ", {0, 2, 1, 2}},
        {"([^])", "\n", {0, 1, 0, 1}},
        {"(a{0,2}){2}b", "aaab", {0, 4, 2, 3}},
        {"(?:a?)*?(b)", "ab", {0, 2, 1, 2}},
        {"(?=a)(b*)a", "a", {0, 1, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t slots[8];
        assert_int_equal(find(rows[i].pattern, rows[i].text, slots), EXTRACT_MATCH);
        assert_memory_equal(slots, rows[i].slots, sizeof rows[i].slots);
    }
    uint32_t slots[8];
    assert_int_equal(find("([])", "a", slots), EXTRACT_NONE);
    assert_int_equal(find("(.)", "\n\r", slots), EXTRACT_NONE);
    assert_int_equal(find("(A)", "a", slots), EXTRACT_NONE);
}

static void test_lookbehind(void **state)
{
    (void)state;
    const uint32_t unset = EXTRACT_UNSET;
    const struct {
        const char *pattern, *text;
        uint32_t slots[4];
    } rows[] = {
        {"(?<=b)(a)", "aba", {2, 3, 2, 3}},
        {"(?<=^|bc)(a)", "ba bca", {5, 6, 5, 6}},
        {"(?<!b|ab)(c)", "bc abc c", {7, 8, 7, 8}},
        {"(?<=\\$(\\d+))x", "$12x", {3, 4, 1, 3}},    /* of any length */
        {"(?<=(\\d+)(\\d+))$", "1053", {4, 4, 0, 1}}, /* the last part takes most */
        {"(?<!a+b)(c)", "aabcc", {4, 5, 4, 5}},
        {"(?<!(a+)b)c", "bc", {1, 2, unset, unset}},
        {"(?<=\\1(a))b", "aab", {2, 3, 1, 2}}, /* from right to left */
        {"(?<=([ab]+)c)d\\1", "abcdab", {3, 6, 0, 2}},
        {"(a+)b(?<=\\1b)c", "aabc", {0, 4, 0, 2}},
        {"(?<=a(?=b(c*))b.*)d", "abccd", {4, 5, 2, 4}},
        {"(?<=(?<=(a+))b+)c", "aabbc", {4, 5, 0, 2}},
        {"(?:(?<=(a+))b|c)+", "abc", {1, 3, unset, unset}},
        {"(?<=^a*)(b)", "aab", {2, 3, 2, 3}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t slots[8];
        assert_int_equal(find(rows[i].pattern, rows[i].text, slots), EXTRACT_MATCH);
        assert_memory_equal(slots, rows[i].slots, sizeof rows[i].slots);
    }
}

static void test_classes_are_ecmascripts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        uint16_t unit;
        bool matches;
    } rows[] = {
        {"(\\s)", 0xa0, true},
        {"(\\s)", 0xfeff, true},
        {"(\\s)", 0x85, false},
        {"(\\s)", 0x180e, false},
        {"(\\w)", 0xe9, false},
        {"(\\w)", 0x17f, false},
        {"(\\d)", 0x663, false},
        {"(\\b)", 0xe9, false},
        {"(\\B)", 0xe9, true},
        {"(.)", 0x2028, false},
        {"(.)", 0x85, true},
        {"(.)", 0xd800, true},
        {"([^])", 0xffff, true},
        {"([^a])", 0xffff, true},
        {"([])", 'a', false},
        {"(\\ud800)", 0xd800, true},
        {"([^\\0-\\ufffe])", 0xffff, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf error;
        uint32_t slots[4];
        struct extract_pattern *p = compile(rows[i].pattern, &error);
        assert_non_null(p);
        assert_int_equal(extract_pattern_find(p, &rows[i].unit, 1, 0, slots),
                         rows[i].matches ? EXTRACT_MATCH : EXTRACT_NONE);
        extract_pattern_free(p);
        buf_free(&error);
    }
}

static void test_a_search_goes_on(void **state)
{
    (void)state;
    static const uint16_t text[] = {'a', 'b', 'x', 'a', 'b'};
    struct buf error;
    uint32_t slots[4];
    struct extract_pattern *p = compile("(?<=a*)(b)", &error);
    struct extract_search *s = extract_search_new(p, text, 5);
    assert_int_equal(extract_search_find(s, 0, slots), EXTRACT_MATCH);
    assert_int_equal(slots[2], 1);
    assert_int_equal(extract_search_find(s, 2, slots), EXTRACT_MATCH);
    assert_int_equal(slots[2], 4);
    assert_int_equal(extract_search_find(s, 5, slots), EXTRACT_NONE);
    assert_int_equal(extract_search_find(s, 6, slots), EXTRACT_NONE);
    extract_search_free(s);
    extract_pattern_free(p);
    buf_free(&error);
}

static void test_code_units_are_what_counts(void **state)
{
    (void)state;
    static const char pattern[] = "(\xf0\x9f\x98\x80|\\ud83d)";
    static const uint16_t text[] = {'a', 0xd83d, 0xde00};
    struct buf error;
    uint32_t slots[4];
    struct extract_pattern *p = compile(pattern, &error);
    assert_int_equal(extract_pattern_find(p, text, 3, 0, slots), EXTRACT_MATCH);
    assert_int_equal(slots[3], 3);
    assert_int_equal(extract_pattern_find(p, text, 2, 0, slots), EXTRACT_MATCH);
    assert_int_equal(slots[3], 2);
    assert_int_equal(extract_pattern_find(p, text, 3, 2, slots), EXTRACT_NONE);
    extract_pattern_free(p);
    buf_free(&error);
}

static void test_a_search_is_bounded(void **state)
{
    (void)state;
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    uint32_t slots[8];
    assert_int_equal(find("^(?:(a+)+)+$", text, slots), EXTRACT_LIMIT);
    assert_int_equal(find("(?<=^[bc](?:(a+)+)+)!", text, slots), EXTRACT_LIMIT);
}

/* Little is done from each start, but there are many, and each scans far. */
static void test_its_time_is_bounded(void **state)
{
    (void)state;
    enum { UNITS = 400000 };
    uint16_t *text = calloc(UNITS, sizeof *text);
    struct buf error;
    uint32_t slots[4];
    struct extract_pattern *p = compile("(?=\\0*)(b)", &error);
    assert_non_null(text);
    struct extract_search *s = extract_search_new(p, text, UNITS);
    assert_int_equal(extract_search_find(s, 0, slots), EXTRACT_LIMIT);
    assert_int_equal(extract_search_find(s, UNITS, slots), EXTRACT_LIMIT);
    extract_search_free(s);
    extract_pattern_free(p);
    buf_free(&error);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_are_counted),
        cmocka_unit_test(test_what_is_no_pattern_is_refused),
        cmocka_unit_test(test_nesting_is_bounded),
        cmocka_unit_test(test_first_match_and_group_1),
        cmocka_unit_test(test_lookbehind),
        cmocka_unit_test(test_classes_are_ecmascripts),
        cmocka_unit_test(test_a_search_goes_on),
        cmocka_unit_test(test_code_units_are_what_counts),
        cmocka_unit_test(test_a_search_is_bounded),
        cmocka_unit_test(test_its_time_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
