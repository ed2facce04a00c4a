#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/gateway_options.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
enum { ARGUMENTS_MAX = 600 };

/* Of the last parse() that was given: what the options borrow. */
static char *line;
static struct gateway_options options;
static struct buf error;

static int set_up(void **state)
{
    (void)state;
    buf_init(&error, 4096);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&error);
    free(line);
    line = NULL;
    return 0;
}

/* The arguments of a text, parted by "|". */
static bool parse(const char *text)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char[]){"proxy"}};
    int argc = 1;
    free(line);
    line = mem_dup(text);
    for (char *next = line[0] != '\0' ? line : NULL; next != NULL && argc <= ARGUMENTS_MAX;) {
        char *end = strchr(next, '|');
        argv[argc++] = next;
        next = end != NULL ? end + 1 : NULL;
        if (end != NULL)
            *end = '\0';
    }
    buf_clear(&error);
    return gateway_options_parse(argc, argv, &options, &error);
}

static void parsed(const char *text)
{
    if (!parse(text))
        fail_msg("%s: %s", text, buf_cstr(&error));
}

static void nothing_is_given_by_default(void **state)
{
    (void)state;
    parsed("");
    assert_null(options.settings);
    assert_null(options.log);
    assert_null(options.port_file);
    assert_null(options.decider_exec);
    assert_null(options.decider_unix);
    assert_int_equal(options.listen_count, 0);
    assert_int_equal(options.decider_fd, -1);
    assert_int_equal(options.decider_in, -1);
    assert_int_equal(options.decider_out, -1);
    assert_int_equal(options.lifeline_fd, -1);
    assert_int_equal(options.ca_fd, -1);
    assert_int_equal(options.decider_proto, 0);
    assert_int_equal(options.strip_response_header_count, 0);
    assert_false(options.plaintext_header_set || options.debug || options.help || options.version ||
                 options.listen_any_interface);
    assert_false(gateway_options_have_decider(&options));
}

static void everything_arrives(void **state)
{
    (void)state;
    parsed(
        "-s|S|--listen-fd|3|--listen=127.0.0.1:0|--listen|unix:/u|--listen-any-interface|--log|-|"
        "--port-file|P|--decider-in|5|--decider-out=6|--decider-proto|2|--lifeline-fd|7|--ca-fd|"
        "8|--plaintext-header-set|-d");
    assert_string_equal(options.settings, "S");
    assert_int_equal(options.listen_count, 3);
    assert_int_equal(options.listen[0].kind, LISTEN_INHERITED);
    assert_int_equal(options.listen[0].fd, 3);
    assert_int_equal(options.listen[1].kind, LISTEN_TCP);
    assert_int_equal(options.listen[2].kind, LISTEN_UNIX);
    assert_string_equal(options.log, "-");
    assert_string_equal(options.port_file, "P");
    assert_int_equal(options.decider_in, 5);
    assert_int_equal(options.decider_out, 6);
    assert_int_equal(options.decider_proto, 2);
    assert_int_equal(options.lifeline_fd, 7);
    assert_int_equal(options.ca_fd, 8);
    assert_true(options.listen_any_interface && options.plaintext_header_set && options.debug);
    assert_true(gateway_options_have_decider(&options));
}

static void each_kind_of_decider(void **state)
{
    (void)state;
    parsed("--decider-fd|0");
    assert_int_equal(options.decider_fd, 0);
    assert_true(gateway_options_have_decider(&options));
    parsed("--decider-exec|/d 'a b'|--decider-proto=1");
    assert_string_equal(options.decider_exec, "/d 'a b'");
    assert_int_equal(options.decider_proto, 1);
    assert_true(gateway_options_have_decider(&options));
    parsed("--decider-unix|/run/d.sock");
    assert_string_equal(options.decider_unix, "/run/d.sock");
    assert_true(gateway_options_have_decider(&options));
    parsed("--decider-in|4|--decider-out|4");
    assert_int_equal(options.decider_out, 4);
    parsed("--decider-proto|2|--settings|S");
    assert_false(gateway_options_have_decider(&options));
}

static void names_go_on_up_to_the_next_option(void **state)
{
    static const struct {
        const char *text, *names;
    } rows[] = {
        {"--strip-response-header|Set-Cookie", "Set-Cookie,"},
        {"--strip-response-header|a|b|c|-d", "a,b,c,"},
        {"--strip-response-header|a|b|--debug|--strip-response-header|c", "a,b,c,"},
        {"--strip-response-header=a=b|--strip-response-header=c", "a=b,c,"},
        {"--strip-response-header|-d|-", "-d,-,"},
        {"--strip-response-header|a|--settings|S", "a,"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf names;
        parsed(rows[i].text);
        buf_init(&names, 1000);
        for (size_t k = 0; k < options.strip_response_header_count; k++)
            buf_printf(&names, "%s,", options.strip_response_headers[k]);
        assert_string_equal(buf_cstr(&names), rows[i].names);
        buf_free(&names);
    }
}

static void the_last_of_single_values_counts(void **state)
{
    (void)state;
    parsed("--decider-fd|3|--settings|A|--decider-fd=5|--settings=B|--decider-proto|1|"
           "--decider-proto|2");
    assert_int_equal(options.decider_fd, 5);
    assert_string_equal(options.settings, "B");
    assert_int_equal(options.decider_proto, 2);
}

static void letters_can_stand_together(void **state)
{
    (void)state;
    parsed("-ddsS");
    assert_true(options.debug);
    assert_string_equal(options.settings, "S");
    parsed("-ds|--listen");
    assert_string_equal(options.settings, "--listen");
    parsed("-h");
    assert_true(options.help);
}

static void version_and_help_come_before_complaints(void **state)
{
    static const char *const lines[] = {"--nonsense|--version", "--listen|--version",
                                        "--|--version", "x|--version|--decider-in|3"};
    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        parsed(lines[i]);
        assert_true(options.version);
    }
    parsed("--decider-in|3|--help");
    assert_true(options.help && !options.version);
    assert_false(parse("--version=1"));
}

#define REQUIRED "a decider is required (--decider-fd, or --decider-in and --decider-out)"
#define ONE                                                                              \
    "more than one decider: give one of --decider-fd, --decider-in with --decider-out, " \
    "--decider-exec and --decider-unix"

static void what_cannot_be_used_is_said(void **state)
{
    static const struct {
        const char *text, *complaint;
    } rows[] = {
        {"--nonsense", "unknown option --nonsense"},
        {"--decider", "unknown option --decider"},
        {"--decider-f|3", "unknown option --decider-f"},
        {"--debug=1", "unknown option --debug=1"},
        {"--=x", "unknown option --=x"},
        {"-d=1", "unknown option -d=1"},
        {"-x", "unknown option -x"},
        {"-dx", "unknown option -dx"},
        {"--settings", "--settings needs a value"},
        {"-s", "--settings needs a value"},
        {"--strip-response-header", "--strip-response-header needs a value"},
        {"--strip-response-header=", "--strip-response-header takes names, not nothing"},
        {"--strip-response-header=a|b", "unexpected argument b"},
        {"extra", "unexpected argument extra"},
        {"-", "unexpected argument -"},
        {"--|-d", "unexpected argument -d"},
        {"-d|--", NULL},
        {"--decider-fd|7x", "--decider-fd takes a descriptor number, not 7x"},
        {"--decider-in|-1|--decider-out|1", "--decider-in takes a descriptor number, not -1"},
        {"--decider-out| 1", "--decider-out takes a descriptor number, not  1"},
        {"--lifeline-fd|+3", "--lifeline-fd takes a descriptor number, not +3"},
        {"--ca-fd=", "--ca-fd takes a descriptor number, not "},
        {"--listen-fd|2147483648", "--listen-fd takes a descriptor number, not 2147483648"},
        {"--listen-fd|99999999999999999999",
         "--listen-fd takes a descriptor number, not 99999999999999999999"},
        {"--listen-fd|2147483647", NULL},
        {"--decider-proto|3", "--decider-proto takes 1 or 2, not 3"},
        {"--decider-proto|01", "--decider-proto takes 1 or 2, not 01"},
        {"--decider-proto=", "--decider-proto takes 1 or 2, not "},
        {"--decider-unix=", "--decider-unix takes a path of 1 to 107 bytes"},
        {"--decider-in|3", REQUIRED},
        {"--decider-out|3|--settings|S", REQUIRED},
        {"--decider-fd|3|--decider-in|4|--decider-out|5", ONE},
        {"--decider-fd|3|--decider-out|5", ONE},
        {"--decider-exec|d|--decider-unix|/d", ONE},
        {"--decider-fd|3|--decider-exec|d", ONE},
        {"--decider-in|3|--decider-out|4|--decider-unix|/d", ONE},
        {"--listen-fd|3|--listen-fd|3", "descriptor 3 is given twice"},
        {"--decider-fd|4|--lifeline-fd|4", "descriptor 4 is given twice"},
        {"--decider-in|4|--decider-out|5|--ca-fd|5", "descriptor 5 is given twice"},
        {"--listen-fd|3|--decider-fd|4|--lifeline-fd|5|--ca-fd|6", NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool good = parse(rows[i].text);
        if (good != (rows[i].complaint == NULL))
            fail_msg("%s: %s", rows[i].text, good ? "taken" : buf_cstr(&error));
        assert_string_equal(buf_cstr(&error), good ? "" : rows[i].complaint);
    }
}

static void a_command_line_is_checked(void **state)
{
    (void)state;
    assert_false(parse("--decider-exec|"));
    assert_int_equal(strncmp(buf_cstr(&error), "--decider-exec: ", 16), 0);
    assert_false(parse("--decider-exec|d 'open"));
}

static void listeners_names_and_paths_are_bounded(void **state)
{
    static const struct {
        const char *option;
        size_t count;
    } rows[] = {{"|--strip-response-header=x", STRIP_NAMES_MAX},
                {"|--listen=unix:/s", LISTENERS_MAX}};
    struct buf text;
    (void)state;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < COUNT(rows); i++) {
        buf_clear(&text);
        buf_puts(&text, "-d");
        for (size_t k = 0; k < rows[i].count; k++)
            buf_puts(&text, rows[i].option);
        parsed(buf_cstr(&text));
        buf_puts(&text, rows[i].option);
        assert_false(parse(buf_cstr(&text)));
    }
    for (size_t n = 107; n <= 108; n++) {
        buf_clear(&text);
        buf_puts(&text, "--decider-unix|/");
        for (size_t k = 1; k < n; k++)
            buf_puts(&text, "s");
        assert_int_equal(parse(buf_cstr(&text)), n == 107);
    }
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_given_by_default),
        cmocka_unit_test(everything_arrives),
        cmocka_unit_test(each_kind_of_decider),
        cmocka_unit_test(names_go_on_up_to_the_next_option),
        cmocka_unit_test(the_last_of_single_values_counts),
        cmocka_unit_test(letters_can_stand_together),
        cmocka_unit_test(version_and_help_come_before_complaints),
        cmocka_unit_test(what_cannot_be_used_is_said),
        cmocka_unit_test(a_command_line_is_checked),
        cmocka_unit_test(listeners_names_and_paths_are_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
