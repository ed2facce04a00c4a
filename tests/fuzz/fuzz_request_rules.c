/*
 * Path patterns and request rules against any target: forms are stable, what is
 * forwarded is judged alike, and matching agrees with a plain reading of segments.
 *
 * Input: a pattern, a line end, a target.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/http/target.h"
#include "proxy/policy/path_pattern.h"
#include "proxy/policy/request_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_form(const struct request_path *p)
{
    if (p->ambiguous || (p->path_len == 1 && p->path[0] == '*'))
        return;
    assert(p->path_len != 0 && p->path[0] == '/');
    for (size_t i = 0; i < p->path_len; i++) {
        assert(p->path[i] != '\0' && p->path[i] != '\\');
        if (p->path[i] != '/')
            continue;
        const char *segment = p->path + i + 1;
        size_t left = p->path_len - i - 1;
        assert(left == 0 || segment[0] != '/');
        assert(left < 1 || segment[0] != '.' || (left > 1 && segment[1] != '/'));
        assert(left < 2 || segment[0] != '.' || segment[1] != '.' ||
               (left > 2 && segment[2] != '/'));
    }
}

/* The target as it goes out names the path that was judged. */
static void check_forwarded(const struct request_path *p, const char *target, size_t n)
{
    struct buf out;
    struct request_path again;
    if (p->ambiguous || p->path[0] != '/')
        return;
    buf_init(&out, 3 * n + 1);
    assert(target_forwarded(&out, target, n));
    request_path_init(&again, buf_chars(&out), buf_len(&out));
    assert(!again.ambiguous && again.path_len == p->path_len &&
           memcmp(again.path, p->path, p->path_len) == 0);
    request_path_free(&again);
    buf_free(&out);
}

/* Segments one by one, trying every length for two stars; pattern: without escapes. */
static bool matches(const char *pattern, size_t n, const char *path, size_t len)
{
    if (n == 0)
        return len == 0;
    const char *slash = n > 1 ? memchr(pattern + 1, '/', n - 1) : NULL;
    size_t first = slash != NULL ? (size_t)(slash - pattern) : n;
    if (first == 3 && pattern[1] == '*' && pattern[2] == '*') {
        for (size_t i = 0; i <= len; i++)
            if ((i == len || path[i] == '/') &&
                matches(pattern + first, n - first, path + i, len - i))
                return true;
        return false;
    }
    slash = len > 1 ? memchr(path + 1, '/', len - 1) : NULL;
    size_t here = slash != NULL ? (size_t)(slash - path) : len;
    if (len == 0)
        return false;
    bool same = first == 2 && pattern[1] == '*'
                    ? here > 1
                    : first == here && memcmp(pattern, path, first) == 0;
    return same && matches(pattern + first, n - first, path + here, len - here);
}

static void check_match(const char *s, size_t n, const struct path_pattern *pattern,
                        const struct request_path *p)
{
    bool got = path_pattern_match(pattern, p);
    if (memchr(s, '?', n) == NULL && memchr(s, '%', n) == NULL && p->path[0] == '/')
        assert(got == matches(s, n, p->path, p->path_len));
    if (path_pattern_is_any(pattern))
        assert(got || p->path[0] == '*');
}

static void check_rules(const char *s, const struct path_pattern *pattern,
                        const struct request_path *p, const char *target, size_t n)
{
    static const char *const methods[] = {"GET"};
    const struct request_rule first = {
        .host = "a.test", .methods = methods, .method_count = 1, .paths = &s, .path_count = 1};
    const struct request_rule last = {.host = "*", .allow = true};
    struct request_rules *rules = request_rules_new();
    struct rule_match match;
    struct host host;
    assert(host_canonicalise("a.test", 6, &host) == HOST_OK);
    request_rules_add(rules, &first);
    request_rules_add(rules, &last);
    request_rules_seal(rules);
    enum rule_verdict verdict = request_rules_decide(rules, &host, 80, "get", 3, target, n, &match);
    bool unclear = p->ambiguous || (path_pattern_has_query(pattern) && p->query_ambiguous);
    if (path_pattern_is_any(pattern))
        assert(verdict == RULE_DENY);
    else if (unclear)
        assert(verdict == RULE_AMBIGUOUS && match.index == 0);
    else
        assert(verdict == (path_pattern_match(pattern, p) ? RULE_DENY : RULE_ALLOW));
    assert(request_rules_decide(rules, &host, 80, "PUT", 3, target, n, &match) == RULE_ALLOW);
    assert(match.index == 1);
    request_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size != 0 ? memchr(data, '\n', size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : 0;
    char *s = mem_dup_n((const char *)data, n);
    /* Exactly as large as what is read, so that a byte too many is seen. */
    size_t target_len = end != NULL ? size - n - 1 : size;
    char *target = mem_array(target_len, 1);
    if (target_len != 0)
        memcpy(target, data + size - target_len, target_len);
    struct request_path p;
    request_path_init(&p, target, target_len);
    check_form(&p);
    check_forwarded(&p, target, target_len);
    struct path_pattern *pattern = path_pattern_new(s, n);
    assert((pattern != NULL) == path_pattern_valid(s, n));
    if (pattern != NULL) {
        if (!p.ambiguous && !p.query_ambiguous)
            check_match(s, n, pattern, &p);
        check_rules(s, pattern, &p, target, target_len);
    }
    path_pattern_free(pattern);
    request_path_free(&p);
    free(s);
    free(target);
    return 0;
}
