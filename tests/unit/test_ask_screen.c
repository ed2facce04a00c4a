/* What is written to a terminal before a question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/ask_screen.h"

enum { TEXT_MAX = 1 << 16 };

static size_t count(const struct buf *text, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < buf_len(text); i++)
        n += buf_chars(text)[i] == c;
    return n;
}

/* As many lines as the screen has go by, and what is left is erased. */
static void test_everything_scrolls_away(void **state)
{
    static const struct {
        unsigned rows;
        size_t least, most;
    } cases[] = {{1, 1, 1}, {24, 24, 24}, {500, 500, 500}, {0, 24, 1000}, {65535, 1000, 1000}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf text;
        buf_init(&text, TEXT_MAX);
        ask_screen_clear(&text, cases[i].rows);
        assert_in_range(count(&text, '\n'), cases[i].least, cases[i].most);
        const char *end = "\n\033[H\033[J";
        assert_true(buf_len(&text) > strlen(end));
        assert_string_equal(buf_cstr(&text) + buf_len(&text) - strlen(end), end);
        buf_free(&text);
    }
}

/* Before anything else: whatever follows may be swallowed by an unfinished sequence. */
static void test_unfinished_sequences_end_first(void **state)
{
    static const char begin[] = "\030\033\\\033Ptmux;\030\033\033\\\033\\\033<";
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    ask_screen_clear(&text, 24);
    assert_int_equal(strncmp(buf_cstr(&text), begin, sizeof begin - 1), 0);
    buf_free(&text);
}

static void test_modes(void **state)
{
    static const char *const parts[] = {
        "\033[!p",     "\033[?69l",   "\033[r",      "\033[?6l",    "\033[4l",     "\033[?7h",
        "\033[?25h",   "\033[0m",     "\033(B",      "\033)B",      "\017",        "\033]110\a",
        "\033]111\a",  "\033]112\a",  "\033]104\a",  "\033[?9l",    "\033[?1000l", "\033[?1001l",
        "\033[?1002l", "\033[?1003l", "\033[?1004l", "\033[?1005l", "\033[?1006l", "\033[?1015l",
        "\033[?2004l", "\033[>4;0m",  "\033[=0;1u",  "\033[?2026l"};
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    ask_screen_clear(&text, 24);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buf_cstr(&text), parts[i]) == NULL)
            fail_msg("%s is missing", parts[i] + 1);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_scrolls_away),
        cmocka_unit_test(test_unfinished_sequences_end_first),
        cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
