#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/policy/path_pattern.h"
#include "proxy/policy/request_rules.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* "path?query", "path" without a query, "!" for an ambiguous path, "path?!" for such a query. */
static void show_target(char out[200], const char *target)
{
    struct request_path p;
    request_path_init(&p, target, strlen(target));
    if (p.ambiguous)
        snprintf(out, 200, "!");
    else
        snprintf(out, 200, "%.*s%s%.*s", (int)p.path_len, p.path,
                 p.query_ambiguous  ? "?!"
                 : p.query_len != 0 ? "?"
                                    : "",
                 p.query_ambiguous ? 0 : (int)p.query_len, p.query);
    request_path_free(&p);
}

static void test_targets_have_one_form(void **state)
{
    (void)state;
    static const struct {
        const char *target, *form;
    } rows[] = {
        {"", "/"},
        {"/", "/"},
        {"/a/b", "/a/b"},
        {"/a/", "/a/"},
        {"?q", "/?q"},
        {"/a?", "/a"},
        {"/a#b?c", "/a"},
        {"/a?b#c", "/a?b"},
        {"a", "/a"},
        {"*", "*"},
        {"/*", "/*"},
        {"/%61%2Db%7e", "/a-b~"},
        {"/%41%4a%4A", "/AJJ"},
        {"/a%21b%3F%23", "/a!b?#"},
        {"/%25%32%66", "/%2f"},
        {"/\"%22", "/\"\""},
        {"//a///b//", "/a/b/"},
        {"/./a/./b/.", "/a/b/"},
        {"/a/../b", "/b"},
        {"/a/b/..", "/a/"},
        {"/../../a", "/a"},
        {"/a/b/../../../c", "/c"},
        {"/...", "/..."},
        {"/.a/..b", "/.a/..b"},
        {"/a;x=1/b", "/a;x=1/b"},
        {"/a/./../b", "/b"},
        {"/a//./b", "/a/b"},
        {"/?%61%2d%3d%2f%c3", "/?a-%3D%2F%C3"},
        {"/?a?b", "/?a?b"},
        {"/a?x=..%2f..", "/a?x=..%2F.."},
        /* What servers disagree about. */
        {"/a%2fb", "!"},
        {"/a%2Fb", "!"},
        {"/a%5cb", "!"},
        {"/a\\b", "!"},
        {"/a%00", "!"},
        {"/%", "!"},
        {"/%4", "!"},
        {"/%4g", "!"},
        {"/%%41", "!"},
        {"/%2e", "!"},
        {"/a/%2e%2e/b", "!"},
        {"/a/.%2E/b", "!"},
        {"/a/%2e", "!"},
        {"/..;/b", "!"},
        {"/a/..;x=1/b", "!"},
        {"/.;/b", "!"},
        {"/%2e%2e;/b", "!"},
        {"/a//../b", "!"},
        {"//../b", "!"},
        {"/a/b//../../c", "!"},
        {"/a?%", "/a?!"},
        {"/a?%zz", "/a?!"},
        {"/a?b=%00", "/a?!"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char got[200];
        show_target(got, rows[i].target);
        if (strcmp(got, rows[i].form) != 0)
            fail_msg("%s: %s, not %s", rows[i].target, got, rows[i].form);
    }
}

static void test_a_nul_in_a_target_is_ambiguous(void **state)
{
    (void)state;
    struct request_path p;
    request_path_init(&p, "/a\0b", 4);
    assert_true(p.ambiguous);
    request_path_free(&p);
}

static void test_valid_patterns(void **state)
{
    (void)state;
    static const char *const valid[] = {"/",      "/a/b",     "/a/",       "/*",     "/**",
                                        "/*/a/*", "/a/**/b",  "/**/",      "/a?",    "/a?b=*",
                                        "/%2A",   "/a%20b c", "/\xc3\xbc", "/a;b=1", "/..."};
    static const char *const invalid[] = {
        "",       "a",      "*",        "**",     "?a",     "/a*",          "/*a",
        "/***",   "/**/**", "/**/a/**", "//",     "/a//b",  "/./a",         "/a/..",
        "/a%2fb", "/a\\b",  "/a%5c",    "/%2e",   "/a%",    "/a%00",        "/a#b",
        "/a\nb",  "/a\x7f", "/a?%",     "/a?%00", "/..;/a", "/**/*.git/x?y"};
    for (size_t i = 0; i < COUNT(valid); i++)
        if (!path_pattern_valid(valid[i], strlen(valid[i])))
            fail_msg("%s is valid", valid[i]);
    for (size_t i = 0; i < COUNT(invalid); i++)
        if (path_pattern_valid(invalid[i], strlen(invalid[i])))
            fail_msg("%s is not valid", invalid[i]);
    assert_false(path_pattern_valid("/a\0b", 4));

    char longest[PATH_PATTERN_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    assert_true(path_pattern_valid(longest, PATH_PATTERN_MAX));
    assert_false(path_pattern_valid(longest, PATH_PATTERN_MAX + 1));
}

static void test_patterns_match(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *target;
        bool match;
    } rows[] = {
        {"/a/b", "/a/b", true},
        {"/a/b", "/a//%62?q", true},
        {"/a/b", "/a/./x/../b", true},
        {"/a/b", "/a/b/", false},
        {"/a/b", "/a/bc", false},
        {"/a/b", "/a", false},
        {"/a/b", "/A/b", false},
        {"/a/", "/a/", true},
        {"/a/", "/a", false},
        {"/", "/", true},
        {"/", "", true},
        {"/", "/a", false},
        {"/*", "/a", true},
        {"/*", "/", false},
        {"/*", "/a/b", false},
        {"/a/*/c", "/a/b/c", true},
        {"/a/*/c", "/a/b/b/c", false},
        {"/a/*/c", "/a//c", false},
        {"/a/*", "/a/", false},
        {"/**", "/", true},
        {"/**", "/a/b/", true},
        {"/a/**", "/a", true},
        {"/a/**", "/a/", true},
        {"/a/**", "/a/b/c", true},
        {"/a/**", "/ab", false},
        {"/a/**", "/b/a", false},
        {"/**/b", "/b", true},
        {"/**/b", "/a/a/b", true},
        {"/**/b", "/a/ab", false},
        {"/**/b", "/b/", false},
        {"/a/**/b", "/a/b", true},
        {"/a/**/b", "/a/x/y/b", true},
        {"/a/**/a", "/a", false},
        {"/a/**/*", "/a/b", true},
        {"/a/**/*", "/a", false},
        {"/a/**/*", "/a/b/", false},
        {"/a/**/*/c", "/a/c", false},
        {"/a/**/*/c", "/a/b/c", true},
        {"/**/", "/a/", true},
        {"/**/", "/a", false},
        {"/%2A", "/*", true},
        {"/%2A", "/a", false},
        {"/a%20b", "/a b", true},
        {"/\xc3\xbc", "/%c3%BC", true},
        {"/a?", "/a", true},
        {"/a?", "/a?", true},
        {"/a?", "/a?b", false},
        {"/a?b=1", "/a?b=1", true},
        {"/a?b=1", "/a?%62=1", true},
        {"/a?b=1", "/a?b%3D1", false},
        {"/a?b=1", "/a?b=1&c", false},
        {"/a?b=1", "/a", false},
        {"/a?*", "/a?b", false},
        {"/**?s=x", "/a/b?s=x", true},
        {"/**?s=x", "/a/b?s=y", false},
        {"/*", "*", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct request_path path;
        struct path_pattern *pattern = path_pattern_new(rows[i].pattern, strlen(rows[i].pattern));
        assert_non_null(pattern);
        request_path_init(&path, rows[i].target, strlen(rows[i].target));
        assert_false(path.ambiguous);
        if (path_pattern_match(pattern, &path) != rows[i].match)
            fail_msg("%s and %s", rows[i].pattern, rows[i].target);
        request_path_free(&path);
        path_pattern_free(pattern);
    }
}

static void test_methods(void **state)
{
    (void)state;
    static const char *const valid[] = {"GET", "get", "M-SEARCH", "a1!#$%&'*+-.^_`|~"};
    static const char *const invalid[] = {"", "GE T", "GET,POST", "G\xc3\x89T", "a/b", "a\"b"};
    for (size_t i = 0; i < COUNT(valid); i++)
        assert_true(request_method_valid(valid[i], strlen(valid[i])));
    for (size_t i = 0; i < COUNT(invalid); i++)
        assert_false(request_method_valid(invalid[i], strlen(invalid[i])));
    assert_false(request_method_valid("GET\0", 4));
    char longest[REQUEST_METHOD_MAX + 1];
    memset(longest, 'A', sizeof longest);
    assert_true(request_method_valid(longest, REQUEST_METHOD_MAX));
    assert_false(request_method_valid(longest, REQUEST_METHOD_MAX + 1));
}

/* Cuts s at each separator, in place. */
static size_t split(char *s, char separator, const char **parts)
{
    size_t n = 0;
    for (char *end = s; s != NULL; s = end) {
        end = strchr(s, separator);
        if (end != NULL)
            *end++ = '\0';
        parts[n++] = s;
    }
    return n;
}

/* A rule in one line: "HOST METHOD,... PATH... allow|deny", "-" for every method. */
static void add(struct request_rules *rules, const char *line)
{
    const char *words[10] = {"", "-"}, *methods[5] = {NULL};
    char *copy = mem_dup(line);
    size_t n = split(copy, ' ', words);
    assert_true(n >= 3);
    char *list = mem_dup(words[1]);
    size_t method_count = split(list, ',', methods);
    const struct request_rule rule = {
        .host = words[0],
        .methods = methods,
        .method_count = strcmp(words[1], "-") == 0 ? 0 : method_count,
        .paths = words + 2,
        .path_count = n - 3,
        .allow = strstr(line, " allow") != NULL,
        .reason = strstr(line, "reason") != NULL ? "the reason" : NULL,
    };
    request_rules_add(rules, &rule);
    free(copy);
    free(list);
}

static struct request_rules *rules_of(const char *const *lines, size_t count)
{
    struct request_rules *rules = request_rules_new();
    for (size_t i = 0; i < count; i++)
        add(rules, lines[i]);
    request_rules_seal(rules);
    return rules;
}

static enum rule_verdict decide(const struct request_rules *rules, const char *host, uint16_t port,
                                const char *method, const char *target, struct rule_match *match)
{
    struct host canonical;
    assert_int_equal(host_canonicalise(host, strlen(host), &canonical), HOST_OK);
    return request_rules_decide(rules, &canonical, port, method, strlen(method), target,
                                strlen(target), match);
}

struct decision_row {
    const char *method, *host, *target;
    uint16_t port;
    enum rule_verdict verdict;
    size_t index;
};

static void expect_decisions(const char *const *lines, size_t line_count,
                             const struct decision_row *rows, size_t count)
{
    struct request_rules *rules = rules_of(lines, line_count);
    for (size_t i = 0; i < count; i++) {
        const struct decision_row *row = &rows[i];
        struct rule_match match;
        uint16_t port = row->port != 0 ? row->port : 80;
        enum rule_verdict got = decide(rules, row->host, port, row->method, row->target, &match);
        if (got != row->verdict || match.index != row->index)
            fail_msg("%s %s%s: %d by %zu", row->method, row->host, row->target, (int)got,
                     match.index);
        assert_true((match.host == NULL) == (got == RULE_NONE));
    }
    request_rules_free(rules);
}
#define EXPECT(lines, rows) expect_decisions(lines, COUNT(lines), rows, COUNT(rows))

static void test_the_first_rule_that_applies_decides(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "a.test - /public/** allow",
        "a.test GET,HEAD /docs/* allow",
        "a.test - deny",
        "*.b.test POST deny",
        "c.test:8080 - deny",
        "a.test - allow",
        "[2001:db8::1] - deny",
    };
    static const struct decision_row rows[] = {
        {"GET", "a.test", "/public/x", 0, RULE_ALLOW, 0},
        {"POST", "a.test", "/public", 0, RULE_ALLOW, 0},
        {"GET", "A.Test.", "/docs/x", 0, RULE_ALLOW, 1},
        {"get", "a.test", "/docs/x", 0, RULE_ALLOW, 1},
        {"PUT", "a.test", "/docs/x", 0, RULE_DENY, 2},
        {"GETX", "a.test", "/docs/x", 0, RULE_DENY, 2},
        {"GET", "a.test", "/docs/x/y", 0, RULE_DENY, 2},
        {"GET", "a.test", "/public/../x", 0, RULE_DENY, 2},
        {"OPTIONS", "a.test", "*", 0, RULE_DENY, 2},
        {"POST", "x.b.test", "/", 0, RULE_DENY, 3},
        {"post", "y.x.b.test", "/", 0, RULE_DENY, 3},
        {"POST", "b.test", "/", 0, RULE_NONE, 0},
        {"GET", "x.b.test", "/", 0, RULE_NONE, 0},
        {"GET", "c.test", "/", 0, RULE_NONE, 0},
        {"GET", "c.test", "/", 8080, RULE_DENY, 4},
        {"GET", "2001:0db8::1", "/", 0, RULE_DENY, 6},
        {"GET", "d.test", "/", 0, RULE_NONE, 0},
    };
    EXPECT(lines, rows);
}

static void test_an_ambiguous_target_is_refused_where_paths_count(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "a.test GET /x/** allow", "a.test - deny",           "b.test - deny",
        "b.test - /x deny",       "c.test POST /x deny",     "d.test - /** allow",
        "d.test - /x deny",       "e.test - /x?a=1 /y deny", "f.test - /x /** allow",
    };
    static const struct decision_row rows[] = {
        {"GET", "a.test", "/x/%2e%2e/y", 0, RULE_AMBIGUOUS, 0},
        {"GET", "a.test", "/x%2fy", 0, RULE_AMBIGUOUS, 0},
        {"POST", "a.test", "/x%2fy", 0, RULE_DENY, 1},
        {"GET", "b.test", "/x%2fy", 0, RULE_DENY, 2},
        {"POST", "c.test", "/x%5cy", 0, RULE_AMBIGUOUS, 4},
        {"GET", "c.test", "/x%5cy", 0, RULE_NONE, 0},
        {"GET", "d.test", "/x%2fy", 0, RULE_ALLOW, 5},
        {"GET", "e.test", "/x?%", 0, RULE_AMBIGUOUS, 7},
        {"GET", "e.test", "/z?a=1", 0, RULE_NONE, 0},
        {"GET", "f.test", "/x%00?%", 0, RULE_ALLOW, 8},
        {"GET", "g.test", "/x%2fy", 0, RULE_NONE, 0},
    };
    EXPECT(lines, rows);
}

static void test_fetching_without_pushing(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "git.test GET /**/info/refs?service=git-upload-pack allow",
        "git.test POST /**/git-upload-pack allow",
        "git.test - deny",
    };
    static const struct decision_row rows[] = {
        {"GET", "git.test", "/a/b.git/info/refs?service=git-upload-pack", 0, RULE_ALLOW, 0},
        {"GET", "git.test", "/info/refs?service=git%2Dupload-pack", 0, RULE_ALLOW, 0},
        {"POST", "git.test", "/a/b/c.git/git-upload-pack", 0, RULE_ALLOW, 1},
        {"GET", "git.test", "/a/b.git/info/refs?service=git-receive-pack", 0, RULE_DENY, 2},
        {"GET", "git.test", "/a/info/refs?service=git-upload-pack&service=git-receive-pack", 0,
         RULE_DENY, 2},
        {"GET", "git.test", "/a/b.git/info/refs", 0, RULE_DENY, 2},
        {"POST", "git.test", "/a/b.git/git-receive-pack", 0, RULE_DENY, 2},
        {"POST", "git.test", "/git-upload-pack/../git-receive-pack", 0, RULE_DENY, 2},
        {"POST", "git.test", "/a/git-receive-pack%2f..%2fgit-upload-pack", 0, RULE_AMBIGUOUS, 1},
        {"GET", "git.test", "/", 0, RULE_DENY, 2},
    };
    EXPECT(lines, rows);
}

static void test_a_rule_for_every_host(void **state)
{
    (void)state;
    static const char *const lines[] = {"* GET,HEAD allow", "b.test POST allow", "*:80 - deny"};
    static const struct decision_row rows[] = {
        {"GET", "a.test", "/", 0, RULE_ALLOW, 0},   {"POST", "a.test", "/", 0, RULE_DENY, 2},
        {"POST", "b.test", "/", 0, RULE_ALLOW, 1},  {"POST", "a.test", "/", 8080, RULE_NONE, 0},
        {"PUT", "127.0.0.1", "/", 0, RULE_DENY, 2},
    };
    EXPECT(lines, rows);
}

static void test_what_decided_is_told(void **state)
{
    (void)state;
    static const char *const lines[] = {"*.a.test GET /reason deny", "x.a.test - deny"};
    struct request_rules *rules = rules_of(lines, COUNT(lines));
    struct rule_match match;
    assert_int_equal(decide(rules, "x.a.test", 80, "GET", "/reason", &match), RULE_DENY);
    assert_string_equal(match.host, "*.a.test");
    assert_string_equal(match.reason, "the reason");
    assert_int_equal(decide(rules, "x.a.test", 80, "GET", "/", &match), RULE_DENY);
    assert_string_equal(match.host, "x.a.test");
    assert_null(match.reason);
    request_rules_free(rules);
}

static void test_as_many_rules_as_there_may_be(void **state)
{
    (void)state;
    struct request_rules *rules = request_rules_new();
    for (size_t i = 0; i < REQUEST_RULES_MAX; i++) {
        char line[64];
        snprintf(line, sizeof line, "h%zu.test GET /p%zu deny", i, i);
        add(rules, line);
    }
    request_rules_seal(rules);
    struct rule_match match;
    assert_int_equal(decide(rules, "h999.test", 80, "GET", "/p999", &match), RULE_DENY);
    assert_int_equal(match.index, 999);
    assert_int_equal(decide(rules, "h0.test", 80, "GET", "/p1", &match), RULE_NONE);
    request_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets_have_one_form),
        cmocka_unit_test(test_a_nul_in_a_target_is_ambiguous),
        cmocka_unit_test(test_valid_patterns),
        cmocka_unit_test(test_patterns_match),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_the_first_rule_that_applies_decides),
        cmocka_unit_test(test_an_ambiguous_target_is_refused_where_paths_count),
        cmocka_unit_test(test_fetching_without_pushing),
        cmocka_unit_test(test_a_rule_for_every_host),
        cmocka_unit_test(test_what_decided_is_told),
        cmocka_unit_test(test_as_many_rules_as_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
