/* A decider's changes of a header section: which of the client's fields go, what is set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/edits.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static bool drops(const struct edits *e, const char *name)
{
    return edits_drop(e, name, strlen(name));
}

static void expect_written(const struct edits *e, const char *want)
{
    struct buf out;
    buf_init(&out, edits_size(e));
    assert_true(edits_size(e) >= strlen(want));
    edits_write(e, &out);
    assert_string_equal(buf_len(&out) != 0 ? buf_cstr(&out) : "", want);
    buf_free(&out);
}

static void nothing_is_done_by_none(void **state)
{
    (void)state;
    struct edits *e = edits_new();
    assert_false(drops(e, "x"));
    assert_false(drops(e, ""));
    assert_false(edits_sets_any(e));
    assert_int_equal(edits_size(e), 0);
    edits_free(e);
    edits_free(NULL);
}

static void removals_match_every_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *removed, *field;
        bool goes;
    } rows[] = {
        {"x-api-key", "x-api-key", true},
        {"x-api-key", "X_API.Key", true},
        {"X_Api.Key", "x-api-key", true},
        {"x.y", "X_Y", true},
        {"x-api-key", "x-api-keys", false},
        {"x-api-key", "x-api-ke", false},
        {"x-api-key", "xapikey", false},
        {"x-api-key", "x-api--key", false},
        {"x~y", "x-y", false},
        {"date", "DATE", true},
        {"x-1", "x-2", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct edits *e = edits_new();
        edits_remove(e, rows[i].removed);
        edits_remove(e, rows[i].removed);
        assert_int_equal(drops(e, rows[i].field), rows[i].goes);
        assert_false(edits_sets_any(e));
        expect_written(e, "");
        edits_free(e);
    }
}

static void the_length_given_counts(void **state)
{
    (void)state;
    struct edits *e = edits_new();
    edits_remove(e, "x-one");
    assert_true(edits_drop(e, "X-One: 1", 5));
    assert_false(edits_drop(e, "X-One", 4));
    edits_free(e);
}

static void sets_of_one_name_go_together(void **state)
{
    (void)state;
    struct edits *e = edits_new();
    edits_set(e, "X_New", "1");
    edits_set(e, "b", "");
    edits_set(e, "x-new", "2\tand more");
    edits_set(e, "x.NEW", "1");
    edits_set(e, "a", "\xc3\xa9");
    assert_true(edits_sets_any(e));
    assert_true(drops(e, "X-NEW") && drops(e, "B") && drops(e, "a"));
    assert_false(drops(e, "c"));
    expect_written(e, "x_new: 1\r\nx_new: 2\tand more\r\nx_new: 1\r\nb: \r\na: \xc3\xa9\r\n");
    edits_free(e);
}

static void a_set_outlives_a_removal(void **state)
{
    (void)state;
    struct edits *e = edits_new();
    edits_set(e, "x-a", "1");
    edits_remove(e, "X_A");
    edits_remove(e, "x-b");
    edits_set(e, "x-b", "2");
    expect_written(e, "x-a: 1\r\nx-b: 2\r\n");
    edits_free(e);
}

static void framing_names_are_never_touched(void **state)
{
    (void)state;
    static const char *const names[] = {
        "host",    "connection", "keep-alive",     "proxy-connection", "transfer-encoding", "te",
        "trailer", "upgrade",    "content-length", "Keep_Alive",       "CONTENT.LENGTH",    "TE",
    };
    struct edits *e = edits_new();
    for (size_t i = 0; i < COUNT(names); i++) {
        edits_remove(e, names[i]);
        edits_set(e, names[i], "1");
        assert_false(drops(e, names[i]));
    }
    assert_false(edits_sets_any(e));
    expect_written(e, "");
    edits_free(e);
}

/* Nothing that could end a line early is ever written. */
static void no_line_is_broken(void **state)
{
    (void)state;
    static const char *const values[] = {"a\r\nb: c", "a\n", "\r", "a\x7f", "\x01"};
    static const char *const names[] = {"", "a b", "a:", "a\r\n", "\xc3\xa9"};
    struct edits *e = edits_new();
    for (size_t i = 0; i < COUNT(values); i++)
        edits_set(e, "x-a", values[i]);
    for (size_t i = 0; i < COUNT(names); i++) {
        edits_set(e, names[i], "1");
        edits_remove(e, names[i]);
        assert_false(drops(e, names[i]));
    }
    assert_true(drops(e, "X-A"));
    expect_written(e, "");
    edits_free(e);
}

static void a_credential_replaces_all_others(void **state)
{
    (void)state;
    static const char *const gone[] = {"Authorization", "proxy_authorization", "COOKIE",
                                       "X.Api_Key"};
    struct edits *e = edits_new();
    edits_set(e, "Authorization", "old");
    edits_set(e, "x-other", "1");
    edits_set(e, "x_api_key", "old");
    edits_set_credential(e, "Bearer secret");
    edits_set(e, "cookie", "late");
    edits_set(e, "authorization", "late");
    for (size_t i = 0; i < COUNT(gone); i++)
        assert_true(drops(e, gone[i]));
    assert_true(edits_sets_any(e));
    expect_written(e, "authorization: Bearer secret\r\nx-other: 1\r\n");
    edits_free(e);

    e = edits_new();
    edits_set_credential(e, "Bearer one");
    edits_set_credential(e, "Bearer two");
    expect_written(e, "authorization: Bearer two\r\n");
    edits_free(e);
}

static void many_names(void **state)
{
    (void)state;
    struct edits *e = edits_new();
    char name[16];
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "x-%u", i * 7919 % 1000);
        edits_remove(e, name);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "X_%u", i);
        assert_true(drops(e, name));
    }
    assert_false(drops(e, "x-1000"));
    edits_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_done_by_none),
        cmocka_unit_test(removals_match_every_spelling),
        cmocka_unit_test(the_length_given_counts),
        cmocka_unit_test(sets_of_one_name_go_together),
        cmocka_unit_test(a_set_outlives_a_removal),
        cmocka_unit_test(framing_names_are_never_touched),
        cmocka_unit_test(no_line_is_broken),
        cmocka_unit_test(a_credential_replaces_all_others),
        cmocka_unit_test(many_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
