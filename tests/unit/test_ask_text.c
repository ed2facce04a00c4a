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

static void put(struct buf *text, const char *host, const char *command)
{
    const struct ask_text asked = {.via = "http", .host = host, .port = 80, .command = command};
    buf_clear(text);
    ask_text_question(text, &asked);
}

static void test_question(void **state)
{
    static const char expected[] =
        "srt: no rule decides about this destination. May it be reached?\n"
        "     o: once   r: for this run   d [reason]: no   n [reason]: not in this run\n"
        "     q: no to everything, and end the command\n"
        "     asked by: make\n"
        "     waiting: 5 connections, 2 of them for this answer\n"
        "     note: mind it\n"
        "srt: example.org:443 (connect)";
    const struct ask_text asked = {.via = "connect",
                                   .host = "example.org",
                                   .port = 443,
                                   .command = "make",
                                   .hint = "mind it",
                                   .waiting = 5,
                                   .waiting_here = 2};
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    ask_text_question(&text, &asked);
    assert_string_equal(buf_cstr(&text), expected);
    buf_clear(&text);
    ask_text_again(&text, "socks", "2001:db8::1", 22);
    assert_string_equal(buf_cstr(&text), "srt: [2001:db8::1]:22 (socks)");
    buf_free(&text);
}

static void test_command(void **state)
{
    static const struct {
        const char *command, *shown;
    } rows[] = {
        {"curl -s x", "     asked by: curl -s x\n"},
        {"\033[2J\033", "     asked by: ?[2J?\n"},
        {"\xe2\x80\xae"
         "a\x01"
         "b",
         "     asked by: ???a?b\n"},
        {"for i in 1\ndo\t\rls", "     asked by: for i in 1 do  ls\n"},
        {"", "     asked by: \n"},
    };
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(&text, "h.test", rows[i].command);
        assert_printable(&text);
        if (strstr(buf_cstr(&text), rows[i].shown) == NULL)
            fail_msg("%s: %s", rows[i].command, buf_cstr(&text));
    }
    buf_free(&text);
}

/* Nothing that a terminal obeys, wherever it stands and whatever it is. */
static void test_nothing_steers_the_terminal(void **state)
{
    static const char hostile[] = "a\033[2J\r\b\t\n\x7f\x9b\xc2\x9b\xe2\x80\xaeh";
    struct buf text;
    (void)state;

    buf_init(&text, TEXT_MAX);
    for (unsigned c = 1; c < 256; c++) {
        char host[] = {'h', (char)c, '.', 't', 0};
        put(&text, host, host);
        assert_printable(&text);
        /* No line but those of the question itself. */
        size_t lines = 0;
        for (size_t i = 0; i < buf_len(&text); i++)
            lines += buf_data(&text)[i] == '\n';
        assert_int_equal(lines, 4);
    }
    put(&text, hostile, hostile);
    ask_text_again(&text, hostile, hostile, 80);
    assert_printable(&text);
    buf_free(&text);
}

static void test_a_long_command_is_cut(void **state)
{
    struct buf text, command;
    (void)state;

    buf_init(&text, TEXT_MAX);
    buf_init(&command, TEXT_MAX);
    for (size_t i = 0; i < 32; i++)
        buf_puts(&command, "aaa");
    put(&text, "h.test", buf_cstr(&command));
    buf_free(&command);
    const char *at = strstr(buf_cstr(&text), "asked by: ");
    assert_non_null(at);
    assert_int_equal(strspn(at + strlen("asked by: "), "a"), ASK_COMMAND_SHOWN);
    assert_non_null(strstr(at, "a...\n"));
    buf_free(&text);
}

static void test_answers(void **state)
{
    enum { ONCE = 1, RUN, NO, NEVER, QUIT, UNCLEAR };
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
        {"q", QUIT, ""},
        {" quit ", QUIT, ""},
        {"q now", UNCLEAR, ""},
        {"Q", UNCLEAR, ""},
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
                      : a.quit  ? QUIT
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
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_nothing_steers_the_terminal),
        cmocka_unit_test(test_a_long_command_is_cut),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_nul_bytes_are_no_answer),
        cmocka_unit_test(test_long_reasons_are_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
