/* What a mount plan holds beside the measured rows: our own mounts, warnings, what is asked of it
 * afterwards, and its speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/unit/mounts_fixture.h"

#define CHECK(rows) mounts_check(rows, sizeof(rows) / sizeof *(rows))

static void test_own_mounts(void **state)
{
    static const struct mounts_row rows[] = {
        {"the private directory, last", "d $H/r; d $O/l; l $W/l -> none",
         "private $H/r; allowWrite .; denyWrite l; denyRead $O",
         "rw $W; tmpfs $O; node $W/none; pin $W/l; tmpfs $H/r"},
        {"in a write path", "d $H/a/r", "private $H/a/r; allowWrite ~",
         "ro $H/a; rw $H; tmpfs $H/a/r"},
        {"hidden already", "d $H/r", "private $H/r; denyRead ~", "tmpfs $H"},
        {"bound back", "d $H/r", "private $H/r; denyRead ~; allowRead ~",
         "tmpfs $H; ro $H; tmpfs $H/r"},
        {"not there", "", "private $H/none", ""},
        {"another user's temporary directory", "d $O/t", "temporary $O/t; allowWrite .",
         "rw $W; tmpfs $O/t"},
        {"in a write-denied one", "d $O/t", "temporary $O/t; allowWrite $O; denyWrite $O",
         "rw $O; ro $O; tmpfs $O/t"},
        {"allowed by name", "d $O/t", "temporary $O/t; allowWrite $O/t", "tmpfs $O/t"},
        {"a file of ours", "f $H/ca", "readable $H/ca; denyRead ~", "tmpfs $H; ro $H/ca"},
    };
    (void)state;
    CHECK(rows);
}

static void check_lists(const struct mounts *plan, const char *const *vars)
{
    const struct {
        const struct paths *list;
        const char *path;
        bool has;
    } rows[] = {
        {&plan->write_allowed, "$W", true},
        {&plan->write_allowed, "$O/t", true},
        {&plan->write_allowed, "$H", false},
        {&plan->write_denied, "$W/a", true},
        {&plan->write_denied, "$W/l", true},
        {&plan->write_denied, "$O/real", true},
        {&plan->write_denied, "$W/.bashrc", true},
        {&plan->write_denied, "$W/.claude/commands", true},
        {&plan->write_denied, "$W/sub/.bashrc", false},
        {&plan->read_hidden, "$H", true},
        {&plan->read_hidden, "$O", false},
        {&plan->read_hidden, "$O/t", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *path = mounts_expand(rows[i].path, vars);
        if (paths_has(rows[i].list, path) != rows[i].has)
            fail_msg("row %zu: %s", i, rows[i].path);
        free(path);
    }
}

static void test_lists(void **state)
{
    static const struct mounts_row row = {
        "", "d $O/t; d $O/real; l $W/l -> $O/real; f $W/sub/.bashrc; d $H/x",
        "temporary $O/t; allowWrite .; denyWrite a; denyWrite l; denyRead ~; denyRead $O; "
        "allowRead "
        "$O; allowRead ~/x",
        ""};
    (void)state;
    mounts_with(&row, check_lists);
}

static void check_visible(const struct mounts *plan, const char *const *vars)
{
    static const struct {
        const char *path;
        bool visible;
    } rows[] = {
        {"/usr/bin/env", true}, {"$O/s", false},        {"$O/s/k", false},     {"$O/s/pub", true},
        {"$O/s/pub/x", true},   {"$O/s/lnk", false},    {"$O/s/lnk/x", false}, {"$O/f", false},
        {"$O/ff", true},        {"$W/a", true},         {"$W/l", true},        {"$H/r/x", false},
        {"/dev/shm/x", false},  {"/proc/1/exe", false}, {"/", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *path = mounts_expand(rows[i].path, vars);
        if (mounts_visible(plan, path) != rows[i].visible)
            fail_msg("%s", rows[i].path);
        free(path);
    }
}

static void test_visible(void **state)
{
    static const struct mounts_row row = {
        "", "d $O/s/pub; d $O/s/real; l $O/s/lnk -> real; f $O/f; f $W/a; l $W/l -> a; d $H/r",
        "denyRead $O/s; denyRead $O/f; allowRead $O/s/pub; allowRead $O/s/lnk; allowWrite .; "
        "denyWrite l; private $H/r",
        ""};
    (void)state;
    mounts_with(&row, check_visible);
}

static void check_root_entry(const struct mounts *plan, const char *const *vars)
{
    (void)vars;
    assert_true(mounts_visible(plan, "/usr/bin/env"));
    assert_true(mounts_visible(plan, "/bin/sh"));
    assert_false(mounts_visible(plan, "/etc/passwd"));
    assert_false(mounts_visible(plan, "/tmp"));
    for (size_t i = 0; i < plan->count; i++)
        assert_string_not_equal(plan->list[i].place, "/");
}

static void check_root_bin(const struct mounts *plan, const char *const *vars)
{
    (void)vars;
    assert_true(mounts_visible(plan, "/usr/bin/env"));
    assert_false(mounts_visible(plan, "/usr/lib/os-release"));
    assert_false(mounts_visible(plan, "/etc/passwd"));
}

static void check_nothing(const struct mounts *plan, const char *const *vars)
{
    (void)vars;
    for (size_t i = 0; i < plan->count; i++)
        assert_int_not_equal(plan->list[i].reason, REASON_DENY_READ);
}

static void test_root_entry(void **state)
{
    static const struct mounts_row usr = {"", "", "denyRead /; allowRead /usr", ""};
    static const struct mounts_row bin = {"", "", "denyRead /; allowRead /usr/bin", ""};
    static const struct mounts_row all = {"", "", "denyRead /; allowRead /", ""};
    (void)state;
    mounts_with(&usr, check_root_entry);
    mounts_with(&bin, check_root_bin);
    mounts_with(&all, check_nothing);
}

static void check_standins(const struct mounts *plan, const char *const *vars)
{
    char *claude = mounts_expand("$W/.claude", vars);
    size_t directories = 0;
    assert_int_equal(plan->standin_count, 12);
    for (size_t i = 0; i < plan->standin_count; i++) {
        size_t mounts = 0;
        for (size_t k = 0; k < plan->count; k++) {
            const struct mount *m = &plan->list[k];
            if (strcmp(m->place, plan->standins[i].path) == 0) {
                assert_int_equal(m->kind, MOUNT_READ_ONLY);
                assert_string_equal(m->source, m->place);
                mounts++;
            }
        }
        assert_int_equal(mounts, 1);
        assert_false(plan->standins[i].optional);
        assert_int_equal(plan->standins[i].directory, strcmp(plan->standins[i].path, claude) == 0);
        directories += plan->standins[i].directory;
    }
    assert_int_equal(directories, 1);
    free(claude);
}

static void test_standins(void **state)
{
    static const struct mounts_row row = {"", "", "allowWrite .", ""};
    static const struct mounts_row shared = {"", "d $W/.claude", "allowWrite .; standin $W/.claude",
                                             ""};
    (void)state;
    mounts_with(&row, check_standins);
    mounts_with(&shared, check_standins);
}

static void check_warnings(const struct mounts *plan, const char *const *vars)
{
    static const char *const wanted[] = {
        "filesystem.allowWrite: \"none\"",    "filesystem.allowWrite: \"*.txt\"",
        "filesystem.allowWrite: \"l\"",       "filesystem.denyRead: \"*.pem\"",
        "filesystem.denyWrite: \"*.env\"",    "filesystem.allowRead: \"l/x\"",
        "filesystem.allowRead: \"l/*\"",      "filesystem.denyRead: \"/proc/version\"",
        "filesystem.denyRead: \"/dev/zer*\"", "filesystem.denyRead: \"/proc/none\"",
        "filesystem.denyRead: \"v\"",         "credentials.files: \"/dev\""};
    (void)vars;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t found = 0;
        for (size_t k = 0; k < plan->warnings.count; k++)
            found += strncmp(plan->warnings.list[k], wanted[i], strlen(wanted[i])) == 0;
        assert_int_equal(found, 1);
    }
    assert_int_equal(plan->warnings.count, sizeof wanted / sizeof *wanted);
}

static void check_stood_in(const struct mounts *plan, const char *const *vars)
{
    char *path = mounts_expand("$W/x", vars);
    size_t found = 0;
    for (size_t i = 0; i < plan->standin_count; i++) {
        if (strcmp(plan->standins[i].path, path) == 0) {
            assert_true(plan->standins[i].directory);
            assert_false(plan->standins[i].optional);
            found++;
        }
    }
    assert_int_equal(found, 1);
    free(path);
}

/* A stand-in of another run that is hidden here is in use here, too. */
static void test_hidden_standin(void **state)
{
    static const struct mounts_row hidden = {"", "d $W/x", "denyRead x; standin $W/x", ""};
    static const struct mounts_row both = {
        "", "d $W/x", "denyRead x; denyWrite x; denyWrite x/y; allowWrite .; standin $W/x", ""};
    (void)state;
    mounts_with(&hidden, check_stood_in);
    mounts_with(&both, check_stood_in);
}

static void check_own_files(const struct mounts *plan, const char *const *vars)
{
    static const char *const names[] = {"$W/s", "$W/l", "$O/t"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = mounts_expand(names[i], vars);
        assert_true(paths_has(&plan->write_denied, path));
        free(path);
    }
    size_t own = 0;
    char *path = mounts_expand("$W/s", vars);
    for (size_t i = 0; i < plan->count; i++)
        own += strcmp(plan->list[i].place, path) == 0 && plan->list[i].reason == REASON_OWN;
    assert_int_equal(own, 1);
    free(path);
}

static void test_own_files(void **state)
{
    static const struct mounts_row row = {"", "f $W/s; f $O/t; l $W/l -> $O/t",
                                          "protected s; protected l; allowWrite .", ""};
    (void)state;
    mounts_with(&row, check_own_files);
}

static void check_no_warning(const struct mounts *plan, const char *const *vars)
{
    (void)vars;
    assert_int_equal(plan->warnings.count, 0);
}

static void test_warnings(void **state)
{
    static const struct mounts_row row = {
        "", "f $O/d/x; f $O/d/y; l $W/l -> $O/d; l $W/v -> /proc/version",
        "denyRead /proc/version; denyRead /dev/zer*; denyRead /proc/none; denyRead v; "
        "credential /dev; allowRead l/x; allowRead l/*; "
        "allowWrite none; allowWrite *.txt; allowWrite l; allowWrite .; denyRead *.pem; denyWrite "
        "*.env",
        ""};
    static const struct mounts_row none = {
        "", "f $W/[a]; f $W/d; l $W/l -> d; l $W/dangling -> none",
        "allowWrite .; allowWrite /dev/null; allowWrite [a]; denyRead gone; allowRead gone; "
        "allowRead l; allowRead dangling; "
        "denyWrite gone; denyWrite [a]; credential ~/gone",
        ""};
    (void)state;
    mounts_with(&row, check_warnings);
    mounts_with(&none, check_no_warning);
}

static bool stopped(void *ctx)
{
    (void)ctx;
    return true;
}

static void test_stopped(void **state)
{
    struct sandbox_settings settings = {.search_depth = 3};
    struct mounts_options options = {
        .settings = &settings, .directory = "/", .home = "", .stopped = stopped};
    struct mounts plan;
    struct buf error;
    (void)state;
    buf_init(&error, 1000);
    assert_false(mounts_plan(&options, &plan, &error));
    assert_string_equal(buf_cstr(&error), "interrupted");
    assert_int_equal(plan.count, 0);
    buf_free(&error);
}

static char crowd[] = "/tmp/test-mounts-XXXXXX";

enum { CROWD = 20000, CROWD_DIRECTORY = 100 };

static char *crowd_path(const char *suffix, size_t i)
{
    char name[64];
    snprintf(name, sizeof name, "%03zu/%05zu.%s", i / CROWD_DIRECTORY, i, suffix);
    return path_join(crowd, name);
}

/* One file under many names: making as many files takes seconds on some file systems. */
static int make_crowd(void **state)
{
    (void)state;
    char *first = NULL;
    if (mkdtemp(crowd) == NULL)
        return -1;
    for (size_t i = 0; i < CROWD; i++) {
        char *path = crowd_path("pem", i);
        if (i % CROWD_DIRECTORY == 0) {
            char *parent = path_parent(path);
            (void)mkdir(parent, 0755);
            free(parent);
        }
        if (first != NULL) {
            assert_int_equal(link(first, path), 0);
            free(path);
            continue;
        }
        first = path;
        FILE *f = fopen(first, "w");
        if (f != NULL)
            fclose(f);
    }
    free(first);
    return 0;
}

static int remove_crowd(void **state)
{
    (void)state;
    for (size_t i = 0; i < CROWD; i++) {
        char *path = crowd_path("pem", i);
        (void)unlink(path);
        if (i % CROWD_DIRECTORY == CROWD_DIRECTORY - 1) {
            char *parent = path_parent(path);
            (void)rmdir(parent);
            free(parent);
        }
        free(path);
    }
    return rmdir(crowd);
}

static struct path_list many(const char *suffix, size_t count)
{
    struct path_list list = {.entries = mem_array(count, sizeof *list.entries), .count = count};
    for (size_t i = 0; i < count; i++)
        list.entries[i].text = crowd_path(suffix, i);
    return list;
}

static void list_free(struct path_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].text);
    free(list->entries);
}

/* Plans, and checks how many mounts there are and that it did not take seconds. */
static void plan_crowd(const struct sandbox_settings *settings, size_t least)
{
    struct mounts_options options = {.settings = settings, .directory = crowd, .home = ""};
    struct mounts plan;
    struct buf error;
    struct timespec before, after;

    buf_init(&error, 1000);
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_true(mounts_plan(&options, &plan, &error));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(plan.count >= least);
    double seconds =
        (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    if (getenv("SRT_TEST_TIMES") != NULL)
        print_message("%zu mounts: %.1f ms\n", plan.count, seconds * 1000);
    /* Loose, for slow machines and sanitizers: quadratic work takes far longer. */
    assert_true(seconds < 5.0);
    mounts_free(&plan);
    buf_free(&error);
}

static void test_many(void **state)
{
    struct path_entry here = {.text = crowd}, pattern = {.text = mem_dup("**/*.pem")};
    struct sandbox_settings settings = {.search_depth = 3};
    (void)state;

    settings.deny_read = many("pem", 2000);
    plan_crowd(&settings, 2000);
    list_free(&settings.deny_read);
    settings.deny_read = (struct path_list){0};

    settings.allow_write = (struct path_list){.entries = &here, .count = 1};
    settings.deny_write = many("pem", 5000);
    plan_crowd(&settings, 5000);
    list_free(&settings.deny_write);
    settings.deny_write = many("none", 5000);
    plan_crowd(&settings, 5000);
    list_free(&settings.deny_write);
    settings.deny_write = (struct path_list){0};

    settings.deny_read = (struct path_list){.entries = &pattern, .count = 1};
    plan_crowd(&settings, CROWD);
    settings.allow_read = many("pem", 5000);
    plan_crowd(&settings, CROWD - 5000);
    list_free(&settings.allow_read);
    free(pattern.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_mounts),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_visible),
        cmocka_unit_test(test_root_entry),
        cmocka_unit_test(test_standins),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_hidden_standin),
        cmocka_unit_test(test_own_files),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test_setup_teardown(test_many, make_crowd, remove_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
