#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/scan.h"
#include "tests/unit/tree_fixture.h"

#define FIXED                                                                            \
    ".gitconfig .gitmodules .bashrc .bash_profile .zshrc .zprofile .profile .ripgreprc " \
    ".mcp.json .vscode .idea .claude/commands .claude/agents "

enum { NODES_MAX = 12 };

struct scan_case {
    const char *nodes[NODES_MAX];
    unsigned depth;
    bool allow_git_config;
    const char *found; /* beyond the fixed names */
};

static void check(const char *root, const char *what, unsigned depth, bool allow_git_config,
                  const char *found)
{
    struct scan_options options = {
        .directory = root, .depth = depth, .allow_git_config = allow_git_config};
    struct paths out = {.count = 0};
    char names[1024];
    bool cut = true;

    assert_true(scan_mandatory(&options, &out, &cut));
    assert_false(cut);
    snprintf(names, sizeof names, "%s%s", FIXED, found);
    assert_paths(what, &out, root, names);
    paths_free(&out);
}

static void check_cases(const struct scan_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *root = tree_new();
        tree_make(root, cases[i].nodes);
        check(root, cases[i].nodes[0] != NULL ? cases[i].nodes[0] : "empty", cases[i].depth,
              cases[i].allow_git_config, cases[i].found);
        tree_remove(root);
    }
}

static void names_what_is_in_the_directory_itself(void **state)
{
    static const struct scan_case cases[] = {
        {{NULL}, 3, false, ""},
        {{"f:.git/HEAD"}, 3, false, ".git/hooks .git/config"},
        {{"f:.git/HEAD"}, 1, false, ".git/hooks .git/config"},
        {{"f:.git/HEAD", "f:.git/config"}, 3, true, ".git/hooks"},
        {{"d:.git"}, 3, false, ".git/hooks .git/config"},
        {{"f:.git"}, 3, false, ".git"},
        {{"f:.git"}, 3, true, ".git"},
        {{"f:g/HEAD", "l:.git=g"}, 3, false, ".git/hooks .git/config"},
        {{"l:.git=none"}, 3, false, ""},
        {{"f:.bashrc", "f:.vscode/x", "f:.claude/agents/x"}, 3, false, ""},
        {{"f:.BASHRC", "f:.VsCode/x"}, 3, false, ".BASHRC .VsCode"},
    };
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void finds_files_to_their_depth(void **state)
{
    static const struct scan_case cases[] = {
        {{"f:a/.bashrc", "f:a/b/.bashrc", "f:a/b/c/.bashrc"}, 3, false, "a/.bashrc a/b/.bashrc"},
        {{"f:a/.bashrc", "f:a/b/.bashrc"}, 2, false, "a/.bashrc"},
        {{"f:a/.bashrc"}, 1, false, ""},
        {{"f:1/2/3/4/5/6/7/8/9/.mcp.json", "f:1/2/3/4/5/6/7/8/9/A/.mcp.json"},
         10,
         false,
         "1/2/3/4/5/6/7/8/9/.mcp.json"},
        {{"f:a/.ZshRC", "f:a/.zshrc2", "f:a/zshrc", "f:a/.PROFILE"},
         3,
         false,
         "a/.ZshRC a/.PROFILE"},
        {{"f:.hidden/.gitmodules", "f:a/.gitignore"}, 3, false, ".hidden/.gitmodules"},
        {{"d:a/.bashrc", "p:b/.bashrc", "l:c/.bashrc=x"}, 3, false, ""},
        {{"f:far/.bashrc", "l:a=far"}, 3, false, "far/.bashrc"},
    };
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void finds_directories_that_hold_a_file(void **state)
{
    static const struct scan_case cases[] = {
        {{"f:a/.vscode/x", "f:b/.IDEA/x", "d:c/.vscode"}, 3, false, "a/.vscode b/.IDEA"},
        {{"f:a/b/.vscode/x"}, 3, false, ""},
        {{"f:a/b/.vscode/x"}, 4, false, "a/b/.vscode"},
        {{"f:a/.vscode/x"}, 2, false, ""},
        {{"f:a/.vscode/s/x"}, 3, false, "a/.vscode"},
        {{"f:a/.vscode/s/t/x"}, 3, false, ""},
        {{"f:a/.vscode/s/t/x", "f:a/.vscode/s/y"}, 3, false, "a/.vscode"},
        {{"f:a/.claude/commands/x", "f:a/.Claude/Agents/y", "f:a/.claude/z"},
         3,
         false,
         "a/.claude/commands a/.Claude/Agents"},
        {{"f:a/b/.claude/commands/x"}, 3, false, ""},
        {{"f:a/.vscode/.idea/x", "f:a/.vscode/.bashrc"}, 3, false, "a/.vscode"},
        {{"f:a/b/.vscode/.bashrc"}, 4, false, "a/b/.vscode"},
        {{"l:a/.vscode=../b", "f:b/x"}, 3, false, ""},
        {{"l:a/.vscode/x=y"}, 3, false, ""},
    };
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void finds_nested_repositories(void **state)
{
    static const struct scan_case cases[] = {
        {{"f:a/.git/HEAD", "f:a/.git/config"}, 3, false, "a/.git/hooks a/.git/config"},
        {{"f:a/.git/HEAD", "f:a/.git/config"}, 3, true, "a/.git/hooks"},
        {{"f:a/.git/HEAD", "f:a/.git/hooks/x"}, 3, false, "a/.git/hooks"},
        {{"f:a/.git/config"}, 3, false, "a/.git/config"},
        {{"f:a/.git/hooks/x"}, 3, false, "a/.git/hooks"},
        {{"d:a/.git/hooks"}, 3, false, ""},
        {{"f:a/.GIT/head", "f:a/.GIT/Config"}, 3, false, "a/.GIT/hooks a/.GIT/Config"},
        {{"f:a/b/.git/HEAD", "f:a/b/.git/config"}, 3, false, ""},
        {{"f:a/b/.git/HEAD", "f:a/b/.git/hooks/x"}, 4, false, "a/b/.git/hooks"},
        {{"f:a/.git"}, 3, false, ""},
        {{"f:a/HEAD", "f:a/config", "f:a/hooks/x"}, 3, false, ""},
    };
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void goes_into_no_directory_of_modules(void **state)
{
    static const struct scan_case cases[] = {
        {{"f:node_modules/.bashrc", "f:node_modules/p/.bashrc", "f:node_modules/.vscode/x"},
         3,
         false,
         "node_modules/.bashrc"},
        {{"f:a/node_modules/.bashrc", "f:a/node_modules/p/.bashrc"},
         3,
         false,
         "a/node_modules/.bashrc"},
        {{"f:Node_Modules/p/.bashrc"}, 3, false, "Node_Modules/p/.bashrc"},
    };
    (void)state;
    check_cases(cases, sizeof cases / sizeof *cases);
}

static void in_closed_directories(const char *root)
{
    check(root, "closed", 3, false, "shut a/b/shut list a/.vscode/shut");
}

static void denies_whole_what_it_cannot_read(void **state)
{
    static const char *const nodes[] = {
        "0:shut",    "0:a/b/shut", "0:a/b/c/shut",     "d:list/s",       "r:list", "d:files",
        "f:files/x", "r:files",    "0:a/.vscode/shut", "l:lnk=a/b/shut", NULL};
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    tree_give(root);
    as_user(in_closed_directories, root);
    tree_remove(root);
}

static void in_directories_of_others(const char *root)
{
    check(root, "others", 3, false, "");
}

static void leaves_out_what_another_user_shut(void **state)
{
    char *root;
    (void)state;

    if (getuid() != 0)
        skip();
    root = tree_new();
    tree_make(root, (const char *const[]){"0:shut", "0:a/shut", NULL});
    as_user(in_directories_of_others, root);
    tree_remove(root);
}

static void takes_names_of_any_bytes(void **state)
{
    static const struct scan_case cases[] = {
        {{"f:\xff\n/.bashrc", "f:a\nb/.git/HEAD"}, 3, false, "\xff\n/.bashrc a\nb/.git/hooks"},
    };
    (void)state;
    check_cases(cases, 1);
}

static void needs_a_directory_it_can_open(void **state)
{
    (void)state;
    check("/nowhere/at-all", "nowhere", 3, false, "");
}

static bool after_five(void *ctx)
{
    return ++*(int *)ctx > 5;
}

static void stops_when_told_to(void **state)
{
    char *root = tree_new(), node[32];
    int asked = 0;
    struct scan_options options = {
        .directory = root, .depth = 3, .stopped = after_five, .ctx = &asked};
    struct paths out = {.count = 0};
    (void)state;

    for (int i = 0; i < 50; i++) {
        snprintf(node, sizeof node, "d:d%d", i);
        tree_make(root, (const char *const[]){node, NULL});
    }
    assert_false(scan_mandatory(&options, &out, NULL));
    assert_int_equal(asked, 6);
    paths_free(&out);
    tree_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_is_in_the_directory_itself),
        cmocka_unit_test(finds_files_to_their_depth),
        cmocka_unit_test(finds_directories_that_hold_a_file),
        cmocka_unit_test(finds_nested_repositories),
        cmocka_unit_test(goes_into_no_directory_of_modules),
        cmocka_unit_test(denies_whole_what_it_cannot_read),
        cmocka_unit_test(leaves_out_what_another_user_shut),
        cmocka_unit_test(takes_names_of_any_bytes),
        cmocka_unit_test(needs_a_directory_it_can_open),
        cmocka_unit_test(stops_when_told_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
