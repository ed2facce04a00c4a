/* The text of a question at the terminal, and what a typed line means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/ask_text.h"

enum { TEXT_MAX = 4096 };

static void assert_printable(const struct buf *text)
{
    for (size_t i = 0; i < buf_len(text); i++) {
        uint8_t c = buf_data(text)[i];
        assert_true((c >= 0x20 && c < 0x7F) || c == '\n');
    }
}

static void test_question(void **state)
{
    static const char expected[] =
        "srt: no rule decides about this destination. May it be reached?\n"
        "     o: once   r: for this run   d [reason]: no   n [reason]: not in this run\n"
        "srt: example.org:443 (connect) - o, r, d or n? ";
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    ask_text_question(&text, "connect", "example.org", 443, NULL, 0);
    assert_string_equal(buf_cstr(&text), expected);
    buf_clear(&text);
    ask_text_again(&text, "socks", "2001:db8::1", 22);
    assert_string_equal(buf_cstr(&text), "srt: [2001:db8::1]:22 (socks) - o, r, d or n? ");
    buf_free(&text);
}

static void test_attribution(void **state)
{
    static const struct {
        const char *user, *shown; /* shown: NULL for nothing */
    } rows[] = {
        {"srt.Y3VybCAtcyB4", "     asked by: curl -s x\n"},
        {"srt.G1syShs=", "     asked by: ?[2J?\n"}, /* ESC [2J ESC */
        {"srt.4oCuYQpi", "     asked by: ???a?b\n"},
        {"srt", NULL},
        {"srt.", NULL},
        {"somebody", NULL},
    };
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_clear(&text);
        ask_text_question(&text, "http", "h.test", 80, rows[i].user, strlen(rows[i].user));
        assert_printable(&text);
        assert_int_equal(strstr(buf_cstr(&text), "asked by") != NULL, rows[i].shown != NULL);
        if (rows[i].shown != NULL && strstr(buf_cstr(&text), rows[i].shown) == NULL)
            fail_msg("%s: %s", rows[i].user, buf_cstr(&text));
    }
    buf_free(&text);
}

/* Nothing that a terminal obeys, wherever it stands and whatever it is. */
static void test_nothing_steers_the_terminal(void **state)
{
    static const char hostile[] = "a\033[2J\r\b\t\n\x7f\x9b\xc2\x9b\xe2\x80\xaeh";
    struct buf text;
    char user[64] = "srt.";
    (void)state;

    buf_init(&text, TEXT_MAX);
    for (unsigned c = 1; c < 256; c++) {
        char host[] = {'h', (char)c, '.', 't', 0};
        buf_clear(&text);
        ask_text_question(&text, "http", host, 80, NULL, 0);
        assert_printable(&text);
        /* No line but those of the question itself. */
        size_t lines = 0;
        for (size_t i = 0; i < buf_len(&text); i++)
            lines += buf_data(&text)[i] == '\n';
        assert_int_equal(lines, 2);
    }
    memcpy(user + 4, hostile, sizeof hostile);
    ask_text_question(&text, hostile, hostile, 80, user, strlen(user));
    assert_printable(&text);
    buf_free(&text);
}

static void test_long_attribution_is_cut(void **state)
{
    struct buf text, user;
    (void)state;

    buf_init(&text, TEXT_MAX);
    buf_init(&user, TEXT_MAX);
    buf_puts(&user, "srt.");
    for (size_t i = 0; i < 32; i++)
        buf_puts(&user, "YWFh"); /* aaa */
    ask_text_question(&text, "http", "h.test", 80, buf_chars(&user), buf_len(&user));
    buf_free(&user);
    const char *at = strstr(buf_cstr(&text), "asked by: ");
    assert_non_null(at);
    assert_int_equal(strspn(at + strlen("asked by: "), "a"), ASK_USER_SHOWN);
    assert_non_null(strstr(at, "a...\n"));
    buf_free(&text);
}

static void test_answers(void **state)
{
    enum { ONCE = 1, RUN, NO, NEVER, UNCLEAR };
    static const struct {
        const char *line;
        int meaning;
        const char *reason;
    } rows[] = {
        {"o", ONCE, ""},
        {"once", ONCE, ""},
        {"  o\t ", ONCE, ""},
        {"r", RUN, ""},
        {"run", RUN, ""},
        {"d", NO, ""},
        {"deny", NO, ""},
        {"d ", NO, ""},
        {"d not today", NO, "not today"},
        {"deny\tnot  today ", NO, "not  today"},
        {"n", NEVER, ""},
        {"never o", NEVER, "o"},
        {"d o", NO, "o"},
        {"d a\033[2Jb", NO, "a [2Jb"},
        {"d <b>", NO, "b"},
        {"d \xe2\x80\xae\xc2\x9b", NO, ""},
        {"d \xff", NO, "\xef\xbf\xbd"},
        {"", UNCLEAR, ""},
        {"   ", UNCLEAR, ""},
        {"O", UNCLEAR, ""},
        {"y", UNCLEAR, ""},
        {"yes", UNCLEAR, ""},
        {"on", UNCLEAR, ""},
        {"oo", UNCLEAR, ""},
        {"o o", UNCLEAR, ""},
        {"once more", UNCLEAR, ""},
        {"r d", UNCLEAR, ""},
        {"o\r", UNCLEAR, ""},
        {"\033[1;1Ro", UNCLEAR, ""},
        {"o\033[0n", UNCLEAR, ""},
        {"dno", UNCLEAR, ""},
        {"\xc2\xa0o", UNCLEAR, ""},
    };
    struct buf reason;
    (void)state;

    buf_init(&reason, TEXT_MAX);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buf_clear(&reason);
        struct ask_answer a = ask_text_parse(rows[i].line, strlen(rows[i].line), &reason);
        int meaning = !a.clear  ? UNCLEAR
                      : a.allow ? (a.for_run ? RUN : ONCE)
                                : (a.for_run ? NEVER : NO);
        if (meaning != rows[i].meaning || strcmp(buf_cstr(&reason), rows[i].reason) != 0)
            fail_msg("'%s' means %d with '%s'", rows[i].line, meaning, buf_cstr(&reason));
    }
    buf_free(&reason);
}

static void test_nul_bytes_are_no_answer(void **state)
{
    struct buf reason;
    (void)state;

    buf_init(&reason, TEXT_MAX);
    assert_false(ask_text_parse("o\0", 2, &reason).clear);
    assert_false(ask_text_parse("\0o", 2, &reason).clear);
    assert_false(ask_text_parse("\0", 1, &reason).clear);
    assert_true(ask_text_parse("o", 1, &reason).allow);
    buf_free(&reason);
}

static void test_long_reasons_are_cut_between_characters(void **state)
{
    enum { COUNT = 480, BYTES = 3 };
    struct buf line, reason;
    (void)state;

    buf_init(&line, TEXT_MAX);
    buf_init(&reason, TEXT_MAX);
    buf_puts(&line, "d ");
    for (size_t i = 0; i < COUNT; i++)
        buf_puts(&line, "\xe2\x82\xac");
    assert_true(ask_text_parse(buf_chars(&line), buf_len(&line), &reason).clear);
    assert_int_equal(buf_len(&reason), ASK_REASON_BYTES_MAX / BYTES * BYTES);
    buf_free(&reason);
    buf_free(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question),
        cmocka_unit_test(test_attribution),
        cmocka_unit_test(test_nothing_steers_the_terminal),
        cmocka_unit_test(test_long_attribution_is_cut),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_nul_bytes_are_no_answer),
        cmocka_unit_test(test_long_reasons_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
