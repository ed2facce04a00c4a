#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/path.h"
#include "tests/unit/tree_fixture.h"

static void contains_by_whole_components(void **state)
{
    static const struct {
        const char *path, *root;
        bool within, beneath;
    } cases[] = {{"/a", "/a", true, false},     {"/a/b", "/a", true, true},
                 {"/ab", "/a", false, false},   {"/a", "/a/b", false, false},
                 {"/", "/", true, false},       {"/a", "/", true, true},
                 {"/xy/z", "/x", false, false}, {"/a/b/c", "/a/b", true, true},
                 {"/a\n/b", "/a\n", true, true}};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(path_within(cases[i].path, cases[i].root), cases[i].within);
        assert_int_equal(path_beneath(cases[i].path, cases[i].root), cases[i].beneath);
    }
}

static void check_text(char *got, const char *want)
{
    if (want == NULL)
        assert_null(got);
    else
        assert_string_equal(got, want);
    free(got);
}

static void takes_paths_apart_and_joins_them(void **state)
{
    (void)state;
    check_text(path_join("/", "a"), "/a");
    check_text(path_join("/a", "b/c"), "/a/b/c");
    check_text(path_join("/a/", "b"), "/a/b");
    check_text(path_parent("/"), "/");
    check_text(path_parent("/a"), "/");
    check_text(path_parent("/a/b"), "/a");
    assert_int_equal(path_depth("/"), 0);
    assert_int_equal(path_depth("/a"), 1);
    assert_int_equal(path_depth("/a/bc/d"), 3);
    check_text(path_fold("/a/../../b/./c//d/.."), "/b/c");
    check_text(path_fold("/.."), "/");
}

static void spells_an_entry(void **state)
{
    static const struct {
        const char *entry, *directory, *home, *want;
    } cases[] = {
        {"/a/", "/w", "/h", "/a"},
        {"/", "/w", "/h", "/"},
        {"///", "/w", "/h", "/"},
        {"/a//b///c", "/w", "/h", "/a/b/c"},
        {"/a/./b", "/w", "/h", "/a/b"},
        {"/a/.", "/w", "/h", "/a"},
        {"/a/./.", "/w", "/h", "/a"},
        {"/.", "/w", "/h", "/"},
        {"~", "/w", "/h", "/h"},
        {"~/", "/w", "/h", "/h"},
        {"~/a", "/w", "/h/", "/h/a"},
        {"~", "/w", "", NULL},
        {"~//", "/w", "", NULL},
        {"~/a", "/w", "", "/a"},
        {"", "/w", "/h", NULL},
        {"~user", "/w", "/h", "/w/~user"},
        {"~user/x", "/w", "/h", "/w/~user/x"},
        {"a", "/w", "/h", "/w/a"},
        {".", "/w", "/h", "/w"},
        {"./a/", "/w", "/h", "/w/a"},
        {"../a", "/w/x", "/h", "/w/a"},
        {"../../../a", "/w/x", "/h", "/a"},
        {"..", "/w", "/h", "/"},
        {"a/../b", "/w", "/h", "/w/b"},
        {"a", "/", "/h", "/a"},
        {"/a/../b", "/w", "/h", "/a/../b"},
        {"~/../b", "/w", "/h", "/h/../b"},
        {"...", "/w", "/h", "/w/..."},
        {".a", "/w", "/h", "/w/.a"},
        {"a\nb", "/w", "/h", "/w/a\nb"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = path_spell(cases[i].entry, cases[i].directory, cases[i].home);
        const char *want = cases[i].want;
        if ((got == NULL) != (want == NULL) || (want != NULL && strcmp(got, want) != 0))
            fail_msg("%s: got %s, not %s", cases[i].entry, got, want);
        free(got);
    }
}

static const char *const links[] = {"d:d/e",      "f:d/f",        "l:l=d",        "l:up=..",
                                    "l:c1=c2",    "l:c2=c1",      "l:gone=no",    "l:abs=$/d/e",
                                    "l:d/b=../l", "l:sl=d/",      "l:fsl=d/f/",   "l:w=d/./e/..",
                                    "d:\xff",     "l:bad=\xff/x", "f:d/\xc3\xa9", NULL};

static void finds_the_real_path(void **state)
{
    static const struct {
        const char *path, *want;
        int number;
    } cases[] = {
        {"$", "$", 0},
        {"$/d/f", "$/d/f", 0},
        {"$/l/e", "$/d/e", 0},
        {"$/abs", "$/d/e", 0},
        {"$/d/b/e", "$/d/e", 0},
        {"$/l/b/b/b", "$/d", 0},
        {"$/sl", "$/d", 0},
        {"$/w", "$/d", 0},
        {"$/l/..", "$", 0}, /* folded in the text: the directory that holds the link */
        {"$/nowhere/../d", "$/d", 0},
        {"$/./d//e/", "$/d/e", 0},
        {"$/d/\xc3\xa9", "$/d/\xc3\xa9", 0},
        {"$/up/x/y", NULL, ENOENT},
        {"$/no", NULL, ENOENT},
        {"$/no/x", NULL, ENOENT},
        {"$/gone", NULL, ENOENT},
        {"$/d/f/x", NULL, ENOTDIR},
        {"$/fsl", NULL, ENOTDIR},
        {"$/c1", NULL, ELOOP},
        {"$/c1/x", NULL, ELOOP},
        {"$/\xff", NULL, EILSEQ},
        {"$/bad", NULL, EILSEQ},
        {"/", "/", 0},
        {"/..", "/", 0},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, links);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = tree_text(root, cases[i].path);
        char *got = path_real(path);
        int number = got == NULL ? errno : 0;
        char *want = cases[i].want != NULL ? tree_text(root, cases[i].want) : NULL;
        if (number != cases[i].number || (got != NULL && want != NULL && strcmp(got, want) != 0))
            fail_msg("%s: got %s, %d", cases[i].path, got, number);
        free(path);
        free(got);
        free(want);
    }
    tree_remove(root);
}

static void follows_forty_links_and_no_more(void **state)
{
    char *root = tree_new(), *path;
    (void)state;

    tree_make(root, (const char *const[]){"l:l0=/", NULL});
    for (int i = 1; i <= 40; i++) {
        char node[32];
        snprintf(node, sizeof node, "l:l%d=l%d", i, i - 1);
        tree_make(root, (const char *const[]){node, NULL});
    }
    path = tree_text(root, "$/l39");
    check_text(path_real(path), "/");
    free(path);
    path = tree_text(root, "$/l40");
    assert_null(path_real(path));
    assert_int_equal(errno, ELOOP);
    free(path);
    tree_remove(root);
}

static void in_a_closed_directory(const char *root)
{
    char *inside = tree_text(root, "$/shut/x"), *location;

    assert_null(path_real(inside));
    assert_int_equal(errno, EACCES);
    assert_false(path_is_absence(EACCES));
    check_text(path_canonical(inside), inside);
    location = path_name_location(inside);
    assert_string_equal(location, inside);
    free(location);
    free(inside);
}

static void says_what_cannot_be_looked_at(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root, (const char *const[]){"0:shut", NULL});
    tree_give(root);
    as_user(in_a_closed_directory, root);
    tree_remove(root);
}

static void resolves_only_what_stays(void **state)
{
    static const struct {
        const char *entry, *want;
    } cases[] = {
        {"$/d/f", "$/d/f"},         {"$/l", "$/l"},          {"$/l/e", "$/l/e"},
        {"l/e", "$/l/e"},           {"$/d/../d/f", "$/d/f"}, {"$/no/../d", "$/d"},
        {"$/no/../x", "$/no/../x"}, {"no/../x", "$/x"},      {"$/l/../d", "$/d"},
        {"$/d//f/", "$/d/f"},       {"~/e", "$/d/e"},        {"$/c1", "$/c1"},
        {"$/up", "$/up"},
    };
    char *root = tree_new();
    char *home = path_join(root, "d");
    (void)state;

    tree_make(root, links);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *entry = tree_text(root, cases[i].entry), *want = tree_text(root, cases[i].want);
        char *got = path_resolve(entry, root, home);
        if (strcmp(got, want) != 0)
            fail_msg("%s: got %s, not %s", entry, got, want);
        free(entry);
        free(want);
        free(got);
    }
    free(home);
    tree_remove(root);
}

static void locates_a_name(void **state)
{
    char *root = tree_new(), *name = tree_text(root, "$/l/b"), *want = tree_text(root, "$/d/b");
    (void)state;

    tree_make(root, links);
    check_text(path_name_location(name), want);
    check_text(path_name_location("/"), "/");
    check_text(path_name_location("/nowhere"), "/nowhere");
    free(name);
    free(want);
    tree_remove(root);
}

static void keeps_lists(void **state)
{
    static const struct paths none;
    struct paths p = none;
    (void)state;

    paths_sort(&p);
    paths_add(&p, NULL);
    assert_int_equal(p.count, 0);
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "/a/%02d", i % 50);
        paths_add(&p, mem_dup(name));
    }
    paths_add(&p, mem_dup("/a"));
    assert_true(paths_has(&p, "/a/49"));
    assert_false(paths_has(&p, "/a/50"));
    assert_true(paths_cover(&p, "/a/50"));
    assert_false(paths_cover(&p, "/b"));
    paths_sort(&p);
    assert_int_equal(p.count, 51);
    assert_string_equal(p.list[0], "/a");
    assert_string_equal(p.list[50], "/a/49");
    paths_free(&p);
    assert_int_equal(p.count, 0);
    paths_add(&p, mem_dup("/again"));
    paths_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contains_by_whole_components),
        cmocka_unit_test(takes_paths_apart_and_joins_them),
        cmocka_unit_test(spells_an_entry),
        cmocka_unit_test(finds_the_real_path),
        cmocka_unit_test(follows_forty_links_and_no_more),
        cmocka_unit_test(says_what_cannot_be_looked_at),
        cmocka_unit_test(resolves_only_what_stays),
        cmocka_unit_test(locates_a_name),
        cmocka_unit_test(keeps_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
