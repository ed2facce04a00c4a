/* A decider's command line as words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "decider/remote.h"

enum { WORDS_MAX = 6 };

static void test_words(void **state)
{
    static const struct {
        const char *text, *words[WORDS_MAX];
    } cases[] = {
        {"a", {"a"}},
        {"a b", {"a", "b"}},
        {" \t a\n b\t", {"a", "b"}},
        {"python3 -u decide.py", {"python3", "-u", "decide.py"}},
        {"a 'b c' d", {"a", "b c", "d"}},
        {"a \"b c\" d", {"a", "b c", "d"}},
        {"a b' 'c\" \"d", {"a", "b c d"}},
        {"a '' \"\"", {"a", "", ""}},
        {"a b\\ c", {"a", "b c"}},
        {"a \\'b\\\"", {"a", "'b\""}},
        {"a '\\' b", {"a", "\\", "b"}},
        {"a \"\\\"\\\\\"", {"a", "\"\\"}},
        {"a \"it's\" 'say \"x\"'", {"a", "it's", "say \"x\""}},
        {"a\\\nb", {"a\nb"}},
        {"$HOME ~ * `x` ;|&<>", {"$HOME", "~", "*", "`x`", ";|&<>"}},
        {"'a b'/c", {"a b/c"}},
        {"\xc3\xa4 \xff", {"\xc3\xa4", "\xff"}},
        {"a # b", {"a", "#", "b"}},
    };
    struct buf error;

    (void)state;
    buf_init(&error, 256);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char **words = remote_split_command(cases[i].text, &error);
        assert_non_null(words);
        size_t n = 0;
        for (; cases[i].words[n] != NULL; n++) {
            assert_non_null(words[n]);
            assert_string_equal(words[n], cases[i].words[n]);
        }
        assert_null(words[n]);
        remote_free_words(words);
    }
    assert_int_equal(buf_len(&error), 0);
    buf_free(&error);
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "the decider's command is empty"},
        {" \t\n", "the decider's command is empty"},
        {"a 'b", "the decider's command has an open '"},
        {"a \"b'", "the decider's command has an open \""},
        {"a '\\'' b", "the decider's command has an open '"},
        {"a b\\", "the decider's command ends in a backslash"},
        {"a \"b\\", "the decider's command ends in a backslash"},
        {"'' a", "the decider's command names no program"},
    };
    struct buf error;

    (void)state;
    buf_init(&error, 256);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_null(remote_split_command(cases[i].text, &error));
        assert_string_equal(buf_cstr(&error), cases[i].message);
        buf_clear(&error);
    }
    buf_free(&error);
    remote_free_words(NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
