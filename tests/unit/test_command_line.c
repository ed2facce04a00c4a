#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "launcher/command_line.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
enum { ARGUMENTS_MAX = 12 };

/* One parse of arguments written with | between them. */
struct parsed {
    struct command_line c;
    struct buf error;
    char *text;
    bool good;
};

static void parse(struct parsed *p, const char *arguments)
{
    char *argv[ARGUMENTS_MAX + 2] = {NULL};
    char program[] = "srt";
    int argc = 1;
    argv[0] = program;
    p->text = mem_dup(arguments);
    for (char *at = p->text; arguments[0] != 0 && at != NULL;) {
        char *bar = strchr(at, '|');
        if (bar != NULL)
            *bar++ = 0;
        assert_true(argc <= ARGUMENTS_MAX);
        argv[argc++] = at;
        at = bar;
    }
    buf_init(&p->error, 4096);
    p->good = command_line_parse(argc, argv, &p->c, &p->error);
}

static void release(struct parsed *p)
{
    if (p->good)
        command_line_free(&p->c);
    assert_null(p->c.words);
    buf_free(&p->error);
    free(p->text);
}

static void assert_text(const char *got, const char *expected)
{
    assert_int_equal(got == NULL, expected == NULL);
    if (got != NULL && expected != NULL)
        assert_string_equal(got, expected);
}

static void test_words_and_options(void **state)
{
    static const struct {
        const char *arguments, *words; /* words: < > around each */
        const char *settings, *command;
        int fd;
        bool debug, help, after;
    } rows[] = {
        {"", "", .fd = -1},
        {"echo|hello|world", "<echo><hello><world>", .fd = -1},
        {"ls|-la", "<ls><-la>", .fd = -1},
        {"-x|ls", "<-x><ls>", .fd = -1},
        {"ls|--help", "<ls>", .help = true, .after = true, .fd = -1},
        {"echo|-d|hi", "<echo><hi>", .debug = true, .after = true, .fd = -1},
        {"echo|--debug", "<echo>", .debug = true, .after = true, .fd = -1},
        {"--|echo|-c|--debug|--settings", "<echo><-c><--debug><--settings>", .fd = -1},
        {"-d|--|check", "<check>", .debug = true, .fd = -1},
        {"echo|--|-d", "<echo><-d>", .fd = -1},
        {"--|a|--|b", "<a><--><b>", .fd = -1},
        {"--settings=P|x", "<x>", .settings = "P", .fd = -1},
        {"--settings|P|x", "<x>", .settings = "P", .fd = -1},
        {"--settings=|x", "<x>", .settings = "", .fd = -1},
        {"--settings=a=b", "", .settings = "a=b", .fd = -1},
        {"-s|P|x", "<x>", .settings = "P", .fd = -1},
        {"-sP|-cCMD", "", .settings = "P", .command = "CMD", .fd = -1},
        {"-s=P", "", .settings = "=P", .fd = -1},
        {"-dc|CMD", "", .debug = true, .command = "CMD", .fd = -1},
        {"-dcCMD", "", .debug = true, .command = "CMD", .fd = -1},
        {"-dsP|-c|x", "", .debug = true, .settings = "P", .command = "x", .fd = -1},
        {"-c|a|-c|b", "", .command = "b", .fd = -1},
        {"-c|a|-c|", "", .command = "", .fd = -1},
        {"-c|-d", "", .command = "-d", .fd = -1},
        {"-c|--", "", .command = "--", .fd = -1},
        {"-c|x|one|two", "<one><two>", .command = "x", .fd = -1},
        {"git|-c|k=v|status", "<git><status>", .command = "k=v", .after = true, .fd = -1},
        {"cat|-", "<cat><->", .fd = -1},
        {"-|x", "<-><x>", .fd = -1},
        {"|x", "<><x>", .fd = -1},
        {"--set|x", "<--set><x>", .fd = -1},
        {"--debug=1", "<--debug=1>", .fd = -1},
        {"--help=x", "<--help=x>", .fd = -1},
        {"-lh", "<-lh>", .fd = -1},
        {"-hd", "<-hd>", .fd = -1},
        {"-dh", "", .debug = true, .help = true, .fd = -1},
        {"ls|-dla", "<ls><-la>", .debug = true, .after = true, .fd = -1},
        {"-ddx", "<-x>", .debug = true, .fd = -1},
        {"-d-|-c", "<-c>", .debug = true, .fd = -1},
        {"-d-settings=P", "", .debug = true, .settings = "P", .fd = -1},
        /* Another program's option came first: so is the "--" that follows. */
        {"grep|-r|--|-d", "<grep><-r><--><-d>", .fd = -1},
        {"--control-fd|3|x", "<x>", .fd = 3},
        {"--control-fd=20", "", .fd = 20},
        {"--control-fd|007", "", .fd = 7},
        {"--control-fd|3|--control-fd|4", "", .fd = 4},
        {"--control-fd|99999999999999999999999", "", .fd = INT_MAX},
        {"a|proxy", "<a><proxy>", .fd = -1},
        {"-x|proxy", "<-x><proxy>", .fd = -1},
        {"-c|x|check", "<check>", .command = "x", .fd = -1},
        {"-h|proxy", "<proxy>", .help = true, .fd = -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;
        struct buf words;
        buf_init(&words, 1000);
        parse(&p, rows[i].arguments);
        assert_true(p.good);
        for (size_t w = 0; w < p.c.word_count; w++)
            buf_printf(&words, "<%s>", p.c.words[w]);
        assert_string_equal(buf_cstr(&words), rows[i].words);
        assert_null(p.c.words[p.c.word_count]);
        assert_int_equal(p.c.debug, rows[i].debug);
        assert_int_equal(p.c.help, rows[i].help);
        assert_int_equal(p.c.option_after_words, rows[i].after);
        assert_text(p.c.settings, rows[i].settings);
        assert_text(p.c.command, rows[i].command);
        assert_int_equal(p.c.control_fd, rows[i].fd);
        assert_null(p.c.subcommand);
        assert_int_equal(buf_len(&p.error), 0);
        buf_free(&words);
        release(&p);
    }
}

static void test_own_options_stand_before_the_words(void **state)
{
    struct parsed p;
    (void)state;
    parse(&p, "--print-plan|--json|--annotate|--violations|fd:5|--log=F|--exit-codes|strict|ls");
    assert_true(p.good && p.c.print_plan && p.c.json && p.c.annotate && p.c.strict_exit_codes);
    assert_string_equal(p.c.violations, "fd:5");
    assert_string_equal(p.c.log, "F");
    assert_int_equal(p.c.word_count, 1);
    assert_false(p.c.option_after_words);
    release(&p);

    parse(&p, "ls|--print-plan|--json|--annotate|--violations|T|--log|F|--exit-codes|loose");
    assert_true(p.good);
    assert_int_equal(p.c.word_count, 10);
    assert_false(p.c.print_plan || p.c.json || p.c.annotate || p.c.option_after_words);
    assert_null(p.c.violations);
    assert_null(p.c.log);
    release(&p);

    parse(&p, "-c|true|--annotate|--exit-codes=strict|--exit-codes=compatible");
    assert_true(p.good && p.c.annotate);
    assert_false(p.c.strict_exit_codes);
    release(&p);
}

static void test_asking(void **state)
{
    static const struct {
        const char *arguments;
        bool ask;
        unsigned timeout;
    } rows[] = {
        {"ls", false, 120},
        {"--ask|ls", true, 120},
        {"--ask|--ask-timeout|1|ls", true, 1},
        {"--ask-timeout=86400|--ask|ls", true, 86400},
        {"ls|--ask|--ask-timeout|5", false, 120},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;
        parse(&p, rows[i].arguments);
        assert_true(p.good);
        assert_int_equal(p.c.ask, rows[i].ask);
        assert_int_equal(p.c.ask_timeout_s, rows[i].timeout);
        release(&p);
    }
}

static void test_subcommands(void **state)
{
    static const struct {
        const char *arguments, *subcommand;
        int index;
        bool debug;
    } rows[] = {
        {"proxy|--settings|P", "proxy", 1, false}, {"check|--help", "check", 1, false},
        {"connect|h|22", "connect", 1, false},     {"-d|-s|F|proxy|-d", "proxy", 4, true},
        {"-c||check", "check", 3, false},          {"-c|x|proxy", "proxy", 3, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;
        parse(&p, rows[i].arguments);
        assert_true(p.good);
        assert_text(p.c.subcommand, rows[i].subcommand);
        assert_int_equal(p.c.subcommand_index, rows[i].index);
        assert_int_equal(p.c.debug, rows[i].debug);
        assert_int_equal(p.c.word_count, 0);
        assert_false(p.c.help);
        release(&p);
    }
}

static void test_the_version_ends_the_parse(void **state)
{
    static const char *const rows[] = {"--version", "-V",    "-dV",
                                       "-Vx",       "ls|-V", "-h|-V|--settings"};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;
        parse(&p, rows[i]);
        assert_true(p.good && p.c.version);
        assert_false(p.c.help);
        release(&p);
    }
}

#define DESCRIPTOR(value)                                                               \
    "error: option '--control-fd <fd>' argument '" value                                \
    "' is invalid. must be an integer file descriptor >= 3 (0-2 are stdin, stdout and " \
    "stderr).\n"
#define SECONDS(value)                                         \
    "error: option '--ask-timeout <seconds>' argument '" value \
    "' is invalid. must be a number of seconds from 1 to 86400.\n"

static void test_errors(void **state)
{
    static const struct {
        const char *arguments, *error;
    } rows[] = {
        {"-c", "error: option '-c <command>' argument missing\n"},
        {"ls|-dc", "error: option '-c <command>' argument missing\n"},
        {"-c|x|--settings", "error: option '-s, --settings <path>' argument missing\n"},
        {"-s", "error: option '-s, --settings <path>' argument missing\n"},
        {"--control-fd", "error: option '--control-fd <fd>' argument missing\n"},
        {"--log", "error: option '--log <file>' argument missing\n"},
        {"--violations", "error: option '--violations <target>' argument missing\n"},
        {"--exit-codes", "error: option '--exit-codes <mode>' argument missing\n"},
        {"--exit-codes|x", "error: option '--exit-codes <mode>' argument 'x' is invalid. Allowed "
                           "choices are compatible, strict.\n"},
        {"--control-fd=2|--version", DESCRIPTOR("2")},
        {"--ask-timeout", "error: option '--ask-timeout <seconds>' argument missing\n"},
        {"--ask-timeout|0", SECONDS("0")},
        {"--ask-timeout|86401", SECONDS("86401")},
        {"--ask-timeout|4294967297", SECONDS("4294967297")},
        {"--ask-timeout=", SECONDS("")},
        {"--ask-timeout=5s", SECONDS("5s")},
        {"--ask-timeout=-5", SECONDS("-5")},
        {"--control-fd|abc", DESCRIPTOR("abc")},
        {"--control-fd=", DESCRIPTOR("")},
        {"--control-fd=-1", DESCRIPTOR("-1")},
        {"--control-fd=+3", DESCRIPTOR("+3")},
        {"--control-fd= 3", DESCRIPTOR(" 3")},
        {"--control-fd=3x", DESCRIPTOR("3x")},
        {"--control-fd=0x3", DESCRIPTOR("0x3")},
        {"--control-fd=\n\033[2J", DESCRIPTOR("\\x0A\\x1B[2J")},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed p;
        parse(&p, rows[i].arguments);
        assert_false(p.good);
        assert_string_equal(buf_cstr(&p.error), rows[i].error);
        release(&p);
    }
}

static void test_quoting(void **state)
{
    static const struct {
        const char *word, *quoted;
    } rows[] = {
        {"", "''"},
        {"abc", "abc"},
        {"/usr/bin/a.b-c_d:e@f+g,h", "/usr/bin/a.b-c_d:e@f+g,h"},
        {"a=b", "a=b"},
        {"=ls", "'=ls'"},
        {"=", "'='"},
        {"-x", "-x"},
        {"--foo=bar", "--foo=bar"},
        {"~", "'~'"},
        {"a~", "'a~'"},
        {"a b", "'a b'"},
        {"$x", "'$x'"},
        {"it's", "'it'\"'\"'s'"},
        {"'", "''\"'\"''"},
        {"''", "''\"'\"''\"'\"''"},
        {"\"", "'\"'"},
        {"a\nb", "'a\nb'"},
        {"\\", "'\\'"},
        {"%", "'%'"},
        {"\xC3\xA9", "'\xC3\xA9'"},
    };
    static const char *const words[] = {"printf", "<%s>", "", "x"};
    struct buf out;
    (void)state;
    buf_init(&out, 1000);
    for (size_t i = 0; i < COUNT(rows); i++) {
        command_line_quote(&rows[i].word, 1, &out);
        assert_string_equal(buf_cstr(&out), rows[i].quoted);
        buf_clear(&out);
    }
    command_line_quote(words, COUNT(words), &out);
    assert_string_equal(buf_cstr(&out), "printf '<%s>' '' x");
    buf_free(&out);
}

static void test_usage(void **state)
{
    static const char *const parts[] = {
        "check",        "connect",      "proxy", "--control-fd", "--print-plan",
        "--violations", "--annotate",   "--log", "--exit-codes", "--settings",
        "--json",       "-c <command>", "--ask", "--ask-timeout"};
    (void)state;
    assert_memory_equal(command_line_usage, "Usage: srt ", 11);
    for (size_t i = 0; i < COUNT(parts); i++)
        assert_non_null(strstr(command_line_usage, parts[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_and_options),
        cmocka_unit_test(test_own_options_stand_before_the_words),
        cmocka_unit_test(test_asking),
        cmocka_unit_test(test_subcommands),
        cmocka_unit_test(test_the_version_ends_the_parse),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_quoting),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
