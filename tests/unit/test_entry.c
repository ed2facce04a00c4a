#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/entry.h"
#include "tests/unit/tree_fixture.h"

/* The patterns as a list of their texts, with ">" after the anchor. */
static void patterns_of(const struct readings *r, struct paths *out)
{
    for (size_t i = 0; i < r->pattern_count; i++) {
        const char *text = r->patterns[i].text;
        size_t n = r->patterns[i].anchor;
        struct buf shown;
        buf_init(&shown, strlen(text) + 2);
        buf_append(&shown, text, n);
        buf_puts(&shown, n != 0 ? ">" : "");
        buf_puts(&shown, text + n);
        paths_add(out, mem_dup(buf_cstr(&shown)));
        buf_free(&shown);
    }
}

static void check(const char *root, const char *text, bool literal, enum entry_use use,
                  const char *names, const char *patterns)
{
    char *home = path_join(root, "home");
    struct place place = {.directory = root, .home = home};
    struct path_entry entry = {.text = tree_text(root, text), .literal = literal};
    struct readings r;
    struct paths shown = {.count = 0};

    entry_read(&entry, use, &place, &r);
    patterns_of(&r, &shown);
    assert_paths(text, &r.names, root, names);
    assert_paths(text, &shown, root, patterns);
    paths_free(&shown);
    readings_free(&r);
    free(entry.text);
    free(home);
}

static const char *const nodes[] = {"f:home/k",
                                    "d:plain",
                                    "d:[w]/in/[x]/deep",
                                    "f:[w]/f",
                                    "l:[l]=plain",
                                    "l:[gone]=none",
                                    "l:[w]/in/lnk=../../plain",
                                    "d:a*/b*",
                                    "f:[f]",
                                    "d:real/sub",
                                    "l:way=real",
                                    "l:[w]/lk=in",
                                    NULL};

static void reads_names(void **state)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"plain", "plain"},     {"plain/**", "plain"},
        {"./plain/", "plain"},  {"~/k", "home/k"},
        {"~/", "home"},         {"missing/x", "missing/x"},
        {"$/plain", "plain"},   {"**x/../plain", "plain"},
        {"/**", "=/"},          {"plain/../home", "home"},
        {"way/sub", "way/sub"},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(root, cases[i].text, false, ENTRY_DENY, cases[i].names, "");
        check(root, cases[i].text, false, ENTRY_ALLOW, cases[i].names, "");
    }
    tree_remove(root);
}

static void takes_a_marked_entry_as_a_name(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    check(root, "a*/b*", true, ENTRY_ALLOW, "a*/b*", "");
    check(root, "no/**", true, ENTRY_DENY, "no/**", "");
    check(root, "[l]", true, ENTRY_ALLOW, "[l]", "");
    check(root, "*", true, ENTRY_DENY, "*", "");
    tree_remove(root);
}

static void reads_a_pattern_also_as_what_it_names(void **state)
{
    /* names and patterns of a deny, then of an allow; NULL: as of the deny */
    static const struct {
        const char *text, *names, *patterns, *allow_names, *allow_patterns;
    } cases[] = {
        {"*.pem", "", "*.pem", NULL, NULL},
        {"$/plain/*.pem/", "", "plain/*.pem/", NULL, NULL},
        {"plain/*.pem/", "", "plain/*.pem", NULL, NULL},
        {"**", "", "**", NULL, NULL},
        {"~/*", "", "home/*", NULL, NULL},
        {"no/../x/*", "", "x/*", NULL, NULL},
        {"$/plain/../x*", "", "x*", NULL, NULL},
        {"$/none/../x*", "", "x*", NULL, NULL},
        {"$/plain/x*/../y", "", "plain/x*/../y", NULL, NULL},
        {"way/*", "", "way/*", NULL, NULL},
        {"[w]", "[w]", "[w]", NULL, NULL},
        {"[w]/**", "[w]", "[w]/**", NULL, NULL},
        {"[w]/no/such", "[w]/no/such", "[w]/no/such", NULL, NULL},
        {"[w]/*.c", "", "[w]/*.c [w]>/*.c", NULL, NULL},
        {"[w]/*.c/**", "", "[w]/*.c/** [w]>/*.c/**", NULL, NULL},
        {"[w]/in/*.c", "", "[w]/in/*.c [w]/in>/*.c", NULL, NULL},
        {"[w]/in/no/*.c", "", "[w]/in/no/*.c [w]/in>/no/*.c", NULL, NULL},
        {"[w]/f/*.c", "", "[w]/f/*.c [w]>/f/*.c", NULL, NULL},
        {"[w]/in/[x]/*", "", "[w]/in/[x]/* [w]/in>/[x]/* [w]/in/[x]>/*", NULL, NULL},
        {"[w]/in/[x]", "[w]/in/[x]", "[w]/in/[x] [w]/in>/[x]", NULL, NULL},
        {"[w]/in/[y]", "", "[w]/in/[y] [w]/in>/[y]", NULL, NULL},
        {"[q]/*", "", "[q]/*", NULL, NULL},
        {"a*/b*/x", "a*/b*/x", "a*/b*/x a*>/b*/x", NULL, NULL},
        {"[f]/*", "", "[f]/*", NULL, NULL},
        /* A link is a name for a deny, dangling or not, and none for an allow. */
        {"[l]", "[l]", "[l]", "", NULL},
        {"[gone]", "[gone]", "[gone]", "", NULL},
        {"[l]/*", "", "[l]/* [l]>/*", "", "[l]/*"},
        {"[w]/in/lnk", "[w]/in/lnk", "[w]/in/lnk", "", NULL},
        {"[w]/in/lnk/x", "[w]/in/lnk/x", "[w]/in/lnk/x", "", NULL},
        {"[w]/in/lnk/*.c", "", "[w]/in/lnk/*.c [w]/in/lnk>/*.c", "", "[w]/in/lnk/*.c"},
        {"[w]/lk/in/*", "", "[w]/lk/in/* [w]/lk>/in/*", "", "[w]/lk/in/*"},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *names = cases[i].allow_names, *patterns = cases[i].allow_patterns;
        check(root, cases[i].text, false, ENTRY_DENY, cases[i].names, cases[i].patterns);
        check(root, cases[i].text, false, ENTRY_ALLOW, names != NULL ? names : cases[i].names,
              patterns != NULL ? patterns : cases[i].patterns);
    }
    tree_remove(root);
}

static void in_a_closed_directory(const char *root)
{
    check(root, "shut/[a]", false, ENTRY_DENY, "shut/[a]", "shut/[a]");
    check(root, "shut/[a]", false, ENTRY_ALLOW, "", "shut/[a]");
    check(root, "shut/[a]/*", false, ENTRY_DENY, "shut/[a]/*", "shut/[a]/* shut/[a]>/*");
    check(root, "shut/[a]/*", false, ENTRY_ALLOW, "", "shut/[a]/*");
}

static void counts_what_it_cannot_see_for_a_deny_alone(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root, (const char *const[]){"d:home", "0:shut", NULL});
    tree_give(root);
    as_user(in_a_closed_directory, root);
    tree_remove(root);
}

static void reads_patterns_in_an_odd_working_directory(void **state)
{
    char *root = tree_new();
    char *directory = path_join(root, "[w]");
    struct place place = {.directory = directory, .home = ""};
    struct path_entry entry = {.text = mem_dup("in/*.c")};
    struct readings r;
    struct paths shown = {.count = 0};
    (void)state;

    tree_make(root, nodes);
    entry_read(&entry, ENTRY_DENY, &place, &r);
    patterns_of(&r, &shown);
    assert_paths("in", &shown, root, "[w]/in/*.c [w]/in>/*.c");
    paths_free(&shown);
    readings_free(&r);
    free(entry.text);
    entry.text = mem_dup("~");
    entry_read(&entry, ENTRY_DENY, &place, &r);
    assert_int_equal(r.names.count + r.pattern_count, 0);
    readings_free(&r);
    free(entry.text);
    free(directory);
    tree_remove(root);
}

static void keeps_names_of_write_lists(void **state)
{
    static const struct {
        const char *text, *deny, *allow;
        bool literal, skipped, allow_skipped;
    } cases[] = {
        {"plain/**", "plain", "plain", false, false, false},
        {"no/**", "no/**", "no/**", true, false, false},
        {"*.c", "", "", false, true, true},
        {"plain/*/**", "", "", false, true, true},
        {"[w]", "[w]", "[w]", false, false, false},
        {"[l]", "[l]", "", false, false, true},
        {"[w]/*", "", "", false, true, true},
        {"~", "home", "home", false, false, false},
    };
    char *root = tree_new();
    char *home = path_join(root, "home");
    struct place place = {.directory = root, .home = home};
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct path_entry entry = {.text = mem_dup(cases[i].text), .literal = cases[i].literal};
        struct paths deny = {.count = 0}, allow = {.count = 0};
        bool skipped = false;
        entry_write_names(&entry, ENTRY_DENY, &place, &deny, &skipped);
        assert_int_equal(skipped, cases[i].skipped);
        entry_write_names(&entry, ENTRY_ALLOW, &place, &allow, &skipped);
        assert_int_equal(skipped, cases[i].allow_skipped);
        entry_write_names(&entry, ENTRY_ALLOW, &place, &deny, NULL);
        paths_sort(&deny);
        assert_paths(cases[i].text, &deny, root, cases[i].deny);
        assert_paths(cases[i].text, &allow, root, cases[i].allow);
        paths_free(&deny);
        paths_free(&allow);
        free(entry.text);
    }
    free(home);
    tree_remove(root);
}

#define SLASH(x, y)                                                                                \
    "filesystem.denyRead: Deny glob \"" x                                                          \
    "\" ends in a separator, so as a pattern it can match no path. Write \"" y                     \
    "\", which is also read as the path of that name where it exists, or add a \"**\" segment to " \
    "match at any depth."
#define TOP(x, y)                                                                             \
    "filesystem.denyRead: entry \"" x                                                         \
    "\" has a wildcard in its first component, so it cannot be enforced. List the top-level " \
    "directories it should cover, one entry each, as in \"" y "\"."

static void refuses_what_cannot_be_enforced(void **state)
{
    static const struct {
        const char *text, *directory, *error;
        bool literal, write;
    } cases[] = {
        {"/a/*/", "/w", SLASH("/a/*/", "/a/*"), false, false},
        {"/a/*/", "/w", SLASH("/a/*/", "/a/*"), false, true},
        {"/*//", "/w", SLASH("/*//", "/*"), false, true},
        {"~/[a]/", "/w", SLASH("~/[a]/", "~/[a]"), false, false},
        {"~x*/", "/w", SLASH("~x*/", "~x*"), false, false},
        {"a/*/", "/w", NULL, false, false},
        {"/a/", "/w", NULL, false, false},
        {"/a/*/", "/w", NULL, true, false},
        {"/**/*.pem", "/w", TOP("/**/*.pem", "/home/**/*.pem"), false, false},
        {"/**/*.pem", "/w", NULL, false, true},
        {"/**/*.pem", "/w", NULL, true, false},
        {"/et?/x", "/w", TOP("/et?/x", "/etc/x"), false, false},
        {"/[e]tc/**", "/w", TOP("/[e]tc/**", "/etc/**"), false, false},
        {"/none-of-these-*/x", "/w", TOP("/none-of-these-*/x", "/home/x"), false, false},
        {"/*.pem", "/w", TOP("/*.pem", "/home/*.pem"), false, false},
        {"/**/**", "/w", TOP("/**/**", "/home/**/**"), false, false},
        {"../*x", "/w", TOP("../*x", "/home/*x"), false, false},
        {"/./*x", "/w", TOP("/./*x", "/home/*x"), false, false},
        {"*x", "/", TOP("*x", "/home/*x"), false, false},
        {"*x", "/w", NULL, false, false},
        {"*x", "/[w]", NULL, false, false},
        {"x/*", "/[w]/y", NULL, false, false},
        {"../*x", "/[w]", TOP("../*x", "/home/*x"), false, false},
        {"/**", "/w", NULL, false, false},
        {"/", "/w", NULL, false, false},
        {"/etc/**/x", "/w", NULL, false, false},
        {"~/*", "/w", NULL, false, false},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct place place = {.directory = cases[i].directory, .home = "/h*"};
        struct path_entry entry = {.text = mem_dup(cases[i].text), .literal = cases[i].literal};
        struct buf error;
        buf_init(&error, 4096);
        bool refused =
            entry_refused(&entry, "filesystem.denyRead", !cases[i].write, &place, &error);
        const char *want = cases[i].error != NULL ? cases[i].error : "";
        if (refused != (cases[i].error != NULL) || strcmp(buf_cstr(&error), want) != 0)
            fail_msg("%s: got [%s], not [%s]", cases[i].text, buf_cstr(&error), want);
        buf_free(&error);
        free(entry.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names),
        cmocka_unit_test(takes_a_marked_entry_as_a_name),
        cmocka_unit_test(reads_a_pattern_also_as_what_it_names),
        cmocka_unit_test(counts_what_it_cannot_see_for_a_deny_alone),
        cmocka_unit_test(reads_patterns_in_an_odd_working_directory),
        cmocka_unit_test(keeps_names_of_write_lists),
        cmocka_unit_test(refuses_what_cannot_be_enforced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
