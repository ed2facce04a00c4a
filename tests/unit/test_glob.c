#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/glob.h"
#include "tests/unit/tree_fixture.h"

static bool matches(const char *pattern, const char *path)
{
    struct glob *g = glob_new(pattern, 0);
    bool match = glob_match(g, path, strlen(path));

    glob_free(g);
    return match;
}

static void matches_by_the_syntax(void **state)
{
    static const struct {
        const char *pattern, *yes, *no; /* paths separated by "|" */
    } cases[] = {
        {"/a", "/a", "/|/ab|/a/b|/A|/a/"},
        {"/a/*", "/a/b|/a/.x|/a/|/a/n\nm", "/a|/a/b/c"},
        {"/a*c", "/ac|/abc|/abcc", "/a/c|/acb"},
        {"/a?c",
         "/abc|/a?c|/a\nc|/a\xc3\xa9"
         "c|/a\xff"
         "c|/a\xf0\x9f\x98\x80"
         "c",
         "/ac|/a/c|/abbc|/a\xc3\xa9\xa9"
         "c"},
        {"/a/**", "/a/|/a/b|/a/b/c|/a/\n/x", "/a|/b"},
        {"/**/x", "/x|/a/x|/a/b/x|/a\n/x", "/ax|/a/xb"},
        {"/a/**/b", "/a/b|/a/x/b|/a/x/y/b", "/a/xb|/ab"},
        {"/a**/b", "/ab|/ax/b|/ax/y/b|/a/b", "/axb|/b"},
        {"/a**b", "/ab|/a/b|/axx/yb", "/a|/abc"},
        {"/a/***/b", "/a/b|/a/xb|/a/x/b|/a/x/y/b", "/a"},
        {"/a/****", "/a/|/a/b|/a/b/c", "/a"},
        {"/[abc]", "/a|/b|/c", "/d|/ab|/"},
        {"/[a-cx]", "/a|/b|/c|/x", "/d|/-"},
        {"/[-a]", "/-|/a", "/b"},
        {"/[a-]", "/-|/a", "/b"},
        {"/[^a]", "/^|/a", "/b"},
        {"/[!a]", "/!|/a", "/b"},
        {"/[]a]", "/[]a]", "/a|/]"},
        {"/[]", "/[]", "/|/[|/]"},
        {"/[user-id]", "/[user-id]", "/u|/s|/user-id"},
        {"/[b-a*]", "/[b-a]|/[b-axy]", "/b|/[b-a/]"},
        {"/[a", "/[a", "/a|/["},
        {"/a]", "/a]", "/a"},
        {"/[a*", "/[a|/[axx", "/a|/*"},
        {"/[*?]", "/*|/?", "/a|/[*?]"},
        {"/a[/]b", "/a/b", "/a[/]b|/ab"},
        {"/[[a]", "/[|/a", "/[[a]"},
        {"/[[a]]", "/[]|/a]", "/a|/["},
        {"/[\\]]", "/\\]", "/]|/\\"},
        {"/\\*", "/\\|/\\x", "/*"},
        {"/[\xc3\xa0-\xc3\xbf]", "/\xc3\xa9", "/e|/\xc3|/\xa9"},
        {"/{a,b}", "/{a,b}", "/a|/b"},
        {"/a/", "/a/", "/a|/a/b"},
        {"/x/*/", "/x/y/", "/x/y|/x/y/z"},
        {"", "", "/"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int wanted = 0; wanted < 2; wanted++) {
            const char *p = wanted ? cases[i].yes : cases[i].no;
            for (;;) {
                size_t n = strcspn(p, "|");
                char *path = mem_dup_n(p, n);
                if (matches(cases[i].pattern, path) != (bool)wanted)
                    fail_msg("%s on %s: not %d", cases[i].pattern, path, wanted);
                free(path);
                if (p[n] == '\0')
                    break;
                p += n + 1;
            }
        }
    }
}

static void takes_an_anchor_as_it_is(void **state)
{
    struct glob *g = glob_new("/w/[a]*/*.c", 7);
    (void)state;

    assert_true(glob_match(g, "/w/[a]*/x.c", 11));
    assert_false(glob_match(g, "/w/a/x.c", 8));
    assert_false(glob_match(g, "/w/[a]b/x.c", 11));
    assert_true(glob_may_match_beneath(g, "/w/[a]*", 7));
    assert_false(glob_may_match_beneath(g, "/w/a", 4));
    glob_free(g);
}

static void knows_where_a_match_may_lie(void **state)
{
    static const struct {
        const char *pattern, *directory;
        bool may;
    } cases[] = {
        {"/a/*.c", "/a", true},      {"/a/*.c", "/", true},       {"/a/*.c", "/b", false},
        {"/a/*.c", "/a/b", false},   {"/a/**/x", "/a/b", true},   {"/a/**/x", "/b", false},
        {"/a/*/x", "/a/b", true},    {"/a/*/x", "/a/b/c", false}, {"/a", "/a", false},
        {"/a/b*/**", "/a/bc", true}, {"/a/b*/**", "/a/c", false}, {"/a**b", "/axx/y", true},
        {"/a[/]b", "/a", true},      {"/a/", "/a", false},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct glob *g = glob_new(cases[i].pattern, 0);
        bool may = glob_may_match_beneath(g, cases[i].directory, strlen(cases[i].directory));
        if (may != cases[i].may)
            fail_msg("%s beneath %s: %d", cases[i].pattern, cases[i].directory, may);
        glob_free(g);
    }
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void needs_no_more_than_pattern_times_path(void **state)
{
    static const char *const pieces[] = {"*a", "**a", "**/a", "*", "?*", "[a]**/", "**/*/"};
    static char path[4096];
    double start = seconds();
    (void)state;

    memset(path, 'a', sizeof path);
    for (size_t i = 1; i < sizeof path; i += 2)
        path[i] = i % 6 == 1 ? '/' : 'a';
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t k = strlen(pieces[i]);
        char *pattern = mem_alloc(k * 100 + 2);
        for (size_t n = 0; n < 100; n++)
            memcpy(pattern + n * k, pieces[i], k);
        pattern[k * 100] = 'b';
        struct glob *g = glob_new(pattern, 0);
        assert_false(glob_match(g, path, sizeof path));
        glob_free(g);
        free(pattern);
    }
    assert_true(seconds() - start < 5);
}

static void expand(const char *root, const char *text, size_t anchor, struct paths *denied,
                   struct paths *sealed)
{
    struct pattern_reading pattern = {.text = tree_text(root, text),
                                      .anchor = anchor != 0 ? anchor + strlen(root) : 0};
    struct paths links = {.count = 0};

    glob_expand_deny(&pattern, denied, sealed, &links);
    paths_free(&links);
    free(pattern.text);
}

static void check_deny(const char *root, const char *text, size_t anchor, const char *denied_names,
                       const char *sealed_names)
{
    struct paths denied = {.count = 0}, sealed = {.count = 0};

    expand(root, text, anchor, &denied, &sealed);
    assert_paths(text, &denied, root, denied_names);
    assert_paths(text, &sealed, root, sealed_names);
    paths_free(&denied);
    paths_free(&sealed);
}

static void expands_a_deny(void **state)
{
    static const char *const nodes[] = {"f:a.pem",
                                        "f:b.txt",
                                        "f:.hid.pem",
                                        "f:s/c.pem",
                                        "f:s/t/d.pem",
                                        "p:s/fifo.pem",
                                        "d:empty",
                                        "f:build/x",
                                        "f:s/build/y/z",
                                        "d:s/t/build",
                                        "f:[w]/e.pem",
                                        "f:w/e.pem",
                                        "f:build2",
                                        "l:s/link.pem=../b.txt",
                                        "l:gone.pem=nothing",
                                        "l:c1.pem=c1.pem",
                                        NULL};
    static const struct {
        const char *pattern;
        size_t anchor;
        const char *denied;
    } cases[] = {
        {"$/*.pem", 0, "a.pem .hid.pem"},
        {"$/s/*.pem", 0, "s/c.pem s/fifo.pem b.txt"},
        {"$/**/*.pem", 0, "a.pem .hid.pem s/c.pem s/t/d.pem s/fifo.pem b.txt [w]/e.pem w/e.pem"},
        {"$/**/t", 0, "s/t"},
        {"$/s/**/d.pem", 0, "s/t/d.pem"},
        {"$/**/build/**", 0, "build build/x s/build s/build/y s/build/y/z"},
        {"$/b*/**", 0, "build build/x"},
        {"$/em*", 0, "empty"},
        {"$/em*/**", 0, ""},
        {"$/s/t/**", 0, "s/t/d.pem s/t/build"},
        {"$/[w]/*", 0, "w/e.pem"},
        {"$/[w]/*", 4, "[w]/e.pem"},
        {"$/no/*", 0, ""},
        {"$/b.txt/x/*", 0, ""},
        {"$/*/", 0, ""},
        {"/*/x", 0, ""},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_deny(root, cases[i].pattern, cases[i].anchor, cases[i].denied, "");
    tree_remove(root);
}

static void follows_links_to_where_they_lead(void **state)
{
    static const char *const nodes[] = {"f:real/a.pem",
                                        "f:real/sub/b.pem",
                                        "l:w/certs=../real",
                                        "l:w/up=..",
                                        "l:w/self=.",
                                        "l:w/root=/",
                                        "l:w/x.pem=/",
                                        "f:w/in/c.pem",
                                        "l:w/again=in",
                                        "l:w/in/back=../in",
                                        "f:far/d.pem",
                                        "l:real/sub/far=../../far",
                                        "l:far/loop=../real",
                                        "l:w/dir.pem=../real/sub",
                                        "l:base=w",
                                        "d:hollow",
                                        "l:w/build=../hollow",
                                        "l:w/mid=../far",
                                        NULL};
    static const struct {
        const char *pattern, *denied;
    } cases[] = {
        /* x.pem leads to the root, so what holds it is hidden */
        {"$/w/*.pem", "w real/sub"},
        {"$/w/**/*.pem", "w real/sub real/a.pem real/sub/b.pem w/in/c.pem far/d.pem"},
        {"$/w/certs/*.pem", "real/a.pem"},
        {"$/w/*/a.pem", "real/a.pem"},
        {"$/w/m*/loop/a.pem", "real/a.pem"},
        {"$/w/c*/sub/far/d.pem", "far/d.pem"},
        {"$/w/u*/far/d.pem", ""},
        {"$/base/*n/*.pem", "w/in/c.pem"},
        {"$/w/s*/in", ""},
        {"$/w/r*/tmp", ""},
        {"$/w/r*", "w"},
        {"$/w/b*/**", "hollow"},
        {"$/w/a*n", "w/in"},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_deny(root, cases[i].pattern, 0, cases[i].denied, "");
    tree_remove(root);
}

static void names_the_links_that_it_needs(void **state)
{
    static const char *const nodes[] = {"f:real/a.pem",
                                        "l:w/certs=../real",
                                        "l:w/a.pem=../f",
                                        "l:w/gone.pem=none",
                                        "f:f",
                                        "l:w/b.txt=../f",
                                        "l:w/empty=../hollow",
                                        "d:hollow",
                                        "l:base=w",
                                        "f:far/deep/d.pem",
                                        "l:w/mid=../mid",
                                        "l:mid/far=../far",
                                        "l:gone=none",
                                        "l:w/build=../far",
                                        NULL};
    static const struct {
        const char *pattern, *links;
    } cases[] = {
        {"$/w/*.pem", "w/a.pem w/gone.pem"},
        {"$/w/certs/*.pem", "w/certs"},
        {"$/w/c*/*.pem", "w/certs"},
        {"$/w/c*/*.key", ""},
        {"$/w/e*/*", ""},
        {"$/w/mi*/**/d.pem", "w/mid mid/far"},
        {"$/base/c*/*.pem", "base w/certs"},
        {"$/base/c*/*.key", ""},
        {"$/w/b*d/**", "w/build"},
        {"$/w/b*", "w/b.txt w/build"},
        {"$/gone/*", "gone"},
        {"$/real/*", ""},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pattern_reading pattern = {.text = tree_text(root, cases[i].pattern)};
        struct paths denied = {.count = 0}, sealed = {.count = 0}, links = {.count = 0};
        glob_expand_deny(&pattern, &denied, &sealed, &links);
        assert_paths(cases[i].pattern, &links, root, cases[i].links);
        paths_free(&denied);
        paths_free(&sealed);
        paths_free(&links);
        free(pattern.text);
    }
    tree_remove(root);
}

static void ends_where_links_go_round(void **state)
{
    char *root = tree_new();
    char node[64];
    (void)state;

    /* every directory links to every other: any number of ways, of any length */
    for (int i = 0; i < 12; i++) {
        snprintf(node, sizeof node, "f:w/d%d/k%d.pem", i, i);
        tree_make(root, (const char *const[]){node, NULL});
        for (int k = 0; k < 12; k++) {
            snprintf(node, sizeof node, "l:w/d%d/to%d=../d%d", i, k, k);
            tree_make(root, (const char *const[]){node, NULL});
        }
    }
    struct paths denied = {.count = 0}, sealed = {.count = 0};
    expand(root, "$/w/**/to*/**/to*/**/*.pem", 0, &denied, &sealed);
    assert_int_equal(denied.count, 12);
    assert_int_equal(sealed.count, 0);
    paths_free(&denied);
    paths_free(&sealed);
    tree_remove(root);
}

static void in_closed_directories(const char *root)
{
    check_deny(root, "$/w/**/*.pem", 0, "w/a.pem", "w/shut w/list");
    check_deny(root, "$/w/shut/*.pem", 0, "", "w/shut");
    check_deny(root, "$/w/shut/x/*.pem", 0, "", "w/shut");
    check_deny(root, "$/w/sh*", 0, "w/shut", "");
    check_deny(root, "$/w/sh*/**", 0, "", "w/shut");
    check_deny(root, "$/w/s*/k", 0, "", "w/shut");
    check_deny(root, "$/w/n*/k", 0, "", "");
    check_deny(root, "$/w/links/*.k", 0, "", "w/links");
    check_deny(root, "$/w/links/*.x/y", 0, "", "");
    check_deny(root, "$/w/list/*", 0, "w/list/sub", "");
}

static void seals_what_it_cannot_list(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root,
              (const char *const[]){"f:w/a.pem", "0:w/shut", "d:w/list/sub", "r:w/list",
                                    "l:w/links/l.k=../shut/k", "l:w/links/l.x=../shut/k", NULL});
    tree_give(root);
    as_user(in_closed_directories, root);
    tree_remove(root);
}

static void masks_a_file_given_as_directory(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root, (const char *const[]){"f:f", NULL});
    check_deny(root, "$/f/*", 0, "f", "");
    tree_remove(root);
}

static void takes_names_of_any_bytes(void **state)
{
    static const char *const nodes[] = {"f:a\nb/k.pem", "f:\xff\xfe/k.pem", "f:x \xc3\xa9.pem",
                                        "l:\xff\xfe/l.pem=k.pem", NULL};
    struct paths denied = {.count = 0}, sealed = {.count = 0};
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    expand(root, "$/**/*.pem", 0, &denied, &sealed);
    assert_int_equal(denied.count, 3);
    assert_int_equal(sealed.count, 1); /* a link there cannot be told where it leads */
    paths_free(&denied);
    paths_free(&sealed);
    tree_remove(root);
}

/* A place whose name is longer than a path may be is hidden with the last directory that is not. */
static void hides_what_is_too_deep_to_name(void **state)
{
    struct paths denied = {.count = 0}, sealed = {.count = 0};
    char *root = tree_new();
    char name[201], file[201];
    (void)state;

    memset(name, 'n', 200);
    name[200] = '\0';
    memcpy(file, name, sizeof file);
    memcpy(file + 196, ".pem", sizeof ".pem");
    int fd = open(root, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 25; i++) {
        /* the last directory that can be named holds a file that cannot */
        if (i == 20)
            close(openat(fd, file, O_CREAT | O_WRONLY, 0644));
        assert_int_equal(mkdirat(fd, name, 0755), 0);
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = next;
    }
    close(openat(fd, "k.pem", O_CREAT | O_WRONLY, 0644));
    close(fd);
    expand(root, "$/**/*.pem", 0, &denied, &sealed);
    assert_int_equal(denied.count, 0);
    assert_int_equal(sealed.count, 1);
    assert_true(strlen(sealed.list[0]) > 3800);
    paths_free(&denied);
    paths_free(&sealed);

    fd = open(root, O_RDONLY | O_DIRECTORY);
    int up[26] = {fd};
    for (int i = 1; i <= 25; i++)
        up[i] = openat(up[i - 1], name, O_RDONLY | O_DIRECTORY);
    unlinkat(up[25], "k.pem", 0);
    unlinkat(up[20], file, 0);
    for (int i = 25; i > 0; i--) {
        close(up[i]);
        assert_int_equal(unlinkat(up[i - 1], name, AT_REMOVEDIR), 0);
    }
    close(up[0]);
    tree_remove(root);
}

static void is_quick_in_a_large_tree(void **state)
{
    enum { DIRECTORIES = 10000 };
    struct paths denied = {.count = 0}, sealed = {.count = 0};
    char *root = tree_new(), name[64];
    (void)state;

    int fd = open(root, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DIRECTORIES; i++) {
        if (i % 100 == 0) {
            snprintf(name, sizeof name, "d%d", i / 100);
            mkdirat(fd, name, 0755);
        }
        snprintf(name, sizeof name, "d%d/e%d", i / 100, i % 100);
        assert_int_equal(mkdirat(fd, name, 0755), 0);
        snprintf(name, sizeof name, "d%d/e%d/a.pem", i / 100, i % 100);
        close(openat(fd, name, O_CREAT | O_WRONLY, 0644));
        snprintf(name, sizeof name, "d%d/e%d/b.txt", i / 100, i % 100);
        close(openat(fd, name, O_CREAT | O_WRONLY, 0644));
    }
    close(fd);
    double start = seconds();
    expand(root, "$/**/*.pem", 0, &denied, &sealed);
    double taken = seconds() - start;
    assert_int_equal(denied.count, DIRECTORIES);
    assert_true(taken < 2);
    paths_free(&denied);
    paths_free(&sealed);
    tree_remove(root);
}

static void expands_an_allow(void **state)
{
    static const char *const nodes[] = {
        "f:pub/a/b", "f:pub/c",      "l:lnk=pub",  "f:x.pub", "l:y.pub=/etc/shadow",
        "d:real",    "f:real/z.pub", "l:way=real", NULL};
    static const struct {
        const char *pattern, *allowed;
    } cases[] = {
        {"$/*.pub", "x.pub y.pub"},
        {"$/p*/**", "pub/a pub/a/b pub/c"},
        {"$/l*/**", ""},
        {"$/l*", "lnk"},
        {"$/l*/c", ""},
        {"$/way/*.pub", "way/z.pub"},
        {"$/**/c", "pub/c"},
        {"/*", ""},
        {"$/no/*", ""},
        {"$/x.pub/*", ""},
    };
    char *root = tree_new();
    (void)state;

    tree_make(root, nodes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct paths allowed = {.count = 0};
        struct pattern_reading pattern = {.text = tree_text(root, cases[i].pattern)};
        glob_expand_allow(&pattern, &allowed);
        assert_paths(cases[i].pattern, &allowed, root, cases[i].allowed);
        free(pattern.text);
        paths_free(&allowed);
    }
    tree_remove(root);
}

static void allows_nothing_it_cannot_list(const char *root)
{
    struct paths allowed = {.count = 0};
    struct pattern_reading pattern = {.text = tree_text(root, "$/**/k")};

    glob_expand_allow(&pattern, &allowed);
    assert_paths("closed", &allowed, root, "a/k");
    free(pattern.text);
    paths_free(&allowed);
}

static void skips_what_an_allow_cannot_list(void **state)
{
    char *root = tree_new();
    (void)state;

    tree_make(root, (const char *const[]){"f:a/k", "0:shut", NULL});
    tree_give(root);
    as_user(allows_nothing_it_cannot_list, root);
    tree_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_by_the_syntax),
        cmocka_unit_test(takes_an_anchor_as_it_is),
        cmocka_unit_test(knows_where_a_match_may_lie),
        cmocka_unit_test(needs_no_more_than_pattern_times_path),
        cmocka_unit_test(expands_a_deny),
        cmocka_unit_test(follows_links_to_where_they_lead),
        cmocka_unit_test(names_the_links_that_it_needs),
        cmocka_unit_test(ends_where_links_go_round),
        cmocka_unit_test(seals_what_it_cannot_list),
        cmocka_unit_test(masks_a_file_given_as_directory),
        cmocka_unit_test(takes_names_of_any_bytes),
        cmocka_unit_test(hides_what_is_too_deep_to_name),
        cmocka_unit_test(is_quick_in_a_large_tree),
        cmocka_unit_test(expands_an_allow),
        cmocka_unit_test(skips_what_an_allow_cannot_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
