/* Which files a command could replace. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/writable.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { NOBODY = 65534 };

static char top[] = "/tmp/test_writable.XXXXXX";

/* open/program, shut/program, and links to either from the other. */
static int set_up(void **state)
{
    static const char *const directories[] = {"open", "shut",         "open/inner",
                                              "home", "home/.claude", "home/.claude/debug"};
    static const char *const files[] = {"open/program", "shut/program", "open/inner/program",
                                        "home/.claude/debug/program"};

    (void)state;
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    assert_int_equal(chdir(top), 0);
    for (size_t i = 0; i < COUNT(directories); i++)
        assert_int_equal(mkdir(directories[i], 0755), 0);
    for (size_t i = 0; i < COUNT(files); i++)
        close(open(files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    assert_int_equal(symlink("../shut/program", "open/to-shut"), 0);
    assert_int_equal(symlink("../open/program", "shut/to-open"), 0);
    assert_int_equal(symlink("open", "way"), 0);
    char home[64];
    snprintf(home, sizeof home, "%s/home", top);
    setenv("HOME", home, 1);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {
        "open/to-shut",       "shut/to-open", "way",  "open/program", "shut/program",
        "open/inner/program", "open/inner",   "open", "shut",         "home/.claude/debug/program",
        "home/.claude/debug", "home/.claude", "home"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(remove(names[i]), 0);
    assert_int_equal(chdir("/"), 0);
    return rmdir(top);
}

/* A % at the start is the directory. */
static char *whole(const char *pattern)
{
    static char texts[4][128];
    static size_t next;
    char *text = texts[next++ % COUNT(texts)];
    snprintf(text, sizeof texts[0], "%s%s", pattern[0] == '%' ? top : "",
             pattern + (pattern[0] == '%'));
    return text;
}

static bool writable(const char *allow, const char *deny, const char *path)
{
    struct path_entry allowed = {.text = whole(allow != NULL ? allow : "")};
    struct path_entry denied = {.text = whole(deny != NULL ? deny : "")};
    const struct sandbox_settings settings = {
        .allow_write = {.entries = &allowed, .count = allow != NULL},
        .deny_write = {.entries = &denied, .count = deny != NULL},
    };
    return writable_by_command(&settings, whole(path));
}

static void entries_say_what_can_be_replaced(void **state)
{
    static const struct {
        const char *allow, *deny, *path;
        bool writable;
    } rows[] = {
        {NULL, NULL, "%/open/program", false},
        {"%/open", NULL, "%/open/program", true},
        {"open", NULL, "%/open/program", true}, /* below the working directory */
        {"%/open/**", NULL, "%/open/program", true},
        {"%/open/program", NULL, "%/open/program", true},
        {"%", NULL, "%/open/inner/program", true},
        {"%/open/inner", NULL, "%/open/program", false},
        {"%/ope", NULL, "%/open/program", false},
        {"%/open", NULL, "%/shut/program", false},
        /* By its name, and by what it leads to. */
        {"%/open", NULL, "%/open/to-shut", true},
        {"%/open", NULL, "%/shut/to-open", true},
        {"%/open", NULL, "%/way/program", true},
        {"%/shut", NULL, "%/way/program", false},
        {"%", "%/open", "%/open/program", false},
        {"%", "%/open/inner", "%/open/program", true},
        {"~/.claude", NULL, "%/open/program", false},
        /* What every box may write. */
        {NULL, NULL, "%/home/.claude/debug/program", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (writable(rows[i].allow, rows[i].deny, rows[i].path) != rows[i].writable)
            fail_msg("row %zu: %s", i, rows[i].path);
}

static void everything_is_as_good_as_the_rest_for_root(void **state)
{
    const struct sandbox_settings none = {.filesystem_disabled = true};
    bool ordinary = geteuid() != 0;

    (void)state;
    assert_int_equal(writable("/", NULL, "%/open/program"), ordinary);
    assert_int_equal(writable_by_command(&none, whole("%/open/program")), ordinary);
}

/* The settings open it, but its rights do not. */
static void what_this_user_cannot_write_is_safe(void **state)
{
    int status = 0;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown("open/inner", NOBODY, NOBODY), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (seteuid(NOBODY) != 0)
            _exit(100);
        _exit((writable("%/open", NULL, "%/open/program") ? 1 : 0) |
              (writable("/", NULL, "%/open/program") ? 0 : 2) |
              (writable("%", NULL, "%/open/inner/program") ? 0 : 4));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    /* "/" opens /tmp too, where the directory could be renamed. */
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_say_what_can_be_replaced),
        cmocka_unit_test(everything_is_as_good_as_the_rest_for_root),
        cmocka_unit_test(what_this_user_cannot_write_is_safe),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
