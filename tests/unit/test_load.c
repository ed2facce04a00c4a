#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "proxy/settings/load.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void test_strict_json(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}", " [1,2.5,-0,1e5,\"\\u0000\"] ", "\"x\"", "null", "12345678901234567890123", "1e999",
    };
    static const char *const bad[] = {
        "",
        "{",
        "{} {}",
        "[1,]",
        "{\"a\":1,\"a\":1}",
        "// c\n{}",
        "[01]",
        "[00000000000000000000001]",
        "[1.]",
        "[1.e999999999999999999999]",
        "[.5]",
        "[+1]",
        "[NaN]",
        "[1e]",
        "['a']",
        "\xef\xbb\xbf{}",
        "[\"\xff\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"a\nb\"]",
        "[\"\\\"]",
    };
    struct buf error;
    for (size_t i = 0; i < COUNT(good); i++) {
        buf_init(&error, 1000);
        json_t *document = settings_parse(good[i], strlen(good[i]), &error);
        assert_non_null(document);
        json_decref(document);
        buf_free(&error);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        buf_init(&error, 1000);
        assert_null(settings_parse(bad[i], strlen(bad[i]), &error));
        assert_int_not_equal(buf_len(&error), 0);
        buf_free(&error);
    }
}

/* Wherever it stands, behind a number too. */
static void test_a_nul_byte_is_no_json(void **state)
{
    static const char text[] = "[1 , 2]";
    (void)state;
    for (size_t i = 0; i <= sizeof text - 1; i++) {
        char with[sizeof text];
        struct buf error;
        buf_init(&error, 1000);
        memcpy(with, text, i);
        with[i] = '\0';
        memcpy(with + i + 1, text + i, sizeof text - 1 - i);
        assert_null(settings_parse(with, sizeof with, &error));
        assert_int_not_equal(buf_len(&error), 0);
        buf_free(&error);
    }
}

static void test_numbers_keep_their_value(void **state)
{
    (void)state;
    static const char text[] = "[9007199254740993, 123456789012345678901234567890, -1e999, 2.5, "
                               "\"99999999999999999999\", -9223372036854775808]";
    struct buf error;
    buf_init(&error, 1000);
    json_t *list = settings_parse(text, sizeof text - 1, &error);
    assert_non_null(list);
    assert_true(json_integer_value(json_array_get(list, 0)) == 9007199254740993);
    assert_true(json_number_value(json_array_get(list, 1)) > 1e29);
    assert_true(json_number_value(json_array_get(list, 2)) < -1e300);
    assert_true(json_real_value(json_array_get(list, 3)) > 2.4);
    assert_string_equal(json_string_value(json_array_get(list, 4)), "99999999999999999999");
    assert_true(json_number_value(json_array_get(list, 5)) < -9e18);
    json_decref(list);
    buf_free(&error);
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH);
    struct buf error;
    assert_non_null(text);
    memset(text, '[', DEPTH);
    buf_init(&error, 1000);
    assert_null(settings_parse(text, DEPTH, &error));
    buf_free(&error);
    free(text);
}

/* Reads a file with this content and compares the start of what is said about it. */
static void expect_file(const char *content, size_t n, enum load_result result, const char *said)
{
    char path[] = "/tmp/test-load-XXXXXX", want[500] = "";
    struct buf error;
    json_t *document;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, n), (ssize_t)n);
    close(fd);
    buf_init(&error, 4096);
    assert_int_equal(settings_read(path, &document, &error), result);
    if (said != NULL)
        snprintf(want, sizeof want, "Error: %s %s", path, said);
    assert_int_equal(strncmp(buf_cstr(&error), want, strlen(want)), 0);
    assert_true((said == NULL) == (buf_len(&error) == 0));
    assert_true((document != NULL) == (result == LOAD_OK));
    json_decref(document);
    buf_free(&error);
    unlink(path);
}

static void test_files(void **state)
{
    (void)state;
    static const char blank[] = "is empty. Delete it, or put a config in it.";
    expect_file("{}", 2, LOAD_OK, NULL);
    expect_file("", 0, LOAD_FAILED, blank);
    expect_file(" \t\r\n", 4, LOAD_FAILED, blank);
    expect_file("\xef\xbb\xbf", 3, LOAD_FAILED, blank);
    expect_file("\xe2\x80\xa8\xc2\xa0", 5, LOAD_FAILED, blank);
    expect_file("]", 1, LOAD_FAILED, "is not valid JSON: ");
}

static void test_errors_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *path, *error;
        enum load_result result;
    } rows[] = {
        {"/nonexistent/x", "Error: /nonexistent/x does not exist.", LOAD_ABSENT},
        {"/tmp", "Error: /tmp could not be read (EISDIR).", LOAD_FAILED},
        {"/dev/null/x", "Error: /dev/null/x could not be read (ENOTDIR).", LOAD_FAILED},
        {"/dev/zero", "Error: /dev/zero could not be read (EFBIG).", LOAD_FAILED},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf error;
        json_t *document;
        buf_init(&error, 1000);
        assert_int_equal(settings_read(rows[i].path, &document, &error), rows[i].result);
        assert_string_equal(buf_cstr(&error), rows[i].error);
        assert_null(document);
        buf_free(&error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_json),
        cmocka_unit_test(test_a_nul_byte_is_no_json),
        cmocka_unit_test(test_numbers_keep_their_value),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_errors_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
