#include "proxy/policy/request_rules.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/path_pattern.h"
#include "proxy/policy/pattern.h"

struct rule {
    size_t host; /* index of its pattern among the distinct ones */
    char **methods;
    size_t method_count;
    struct path_pattern **paths;
    size_t path_count;
    bool needs_query; /* of its path patterns, one asks for a query */
    bool allow;
    char *reason;
};

struct request_rules {
    struct pattern_list *all; /* the host pattern of each rule: where to begin */
    struct rule *rules;
    size_t count, room;
    /* The distinct host patterns, a list each: many rules of one host are one question. */
    struct pattern_list **hosts;
    size_t host_count;
};

bool request_method_valid(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = text_lower((unsigned char)s[i]);
        bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!alphanumeric && memchr(others, c, sizeof others - 1) == NULL)
            return false;
    }
    return n != 0 && n <= REQUEST_METHOD_MAX;
}

struct request_rules *request_rules_new(void)
{
    struct request_rules *rules = mem_alloc(sizeof *rules);
    rules->all = pattern_list_new(PATTERN_DENIED);
    return rules;
}

static void free_rule(struct rule *rule)
{
    for (size_t i = 0; i < rule->method_count; i++)
        free(rule->methods[i]);
    for (size_t i = 0; i < rule->path_count; i++)
        path_pattern_free(rule->paths[i]);
    free(rule->methods);
    free(rule->paths);
    free(rule->reason);
}

void request_rules_free(struct request_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->count; i++)
        free_rule(&rules->rules[i]);
    for (size_t i = 0; i < rules->host_count; i++)
        pattern_list_free(rules->hosts[i]);
    pattern_list_free(rules->all);
    free(rules->rules);
    free(rules->hosts);
    free(rules);
}

static size_t add_host(struct request_rules *rules, const char *pattern)
{
    size_t i = 0;
    while (i < rules->host_count && strcmp(pattern_list_entry(rules->hosts[i], 0), pattern) != 0)
        i++;
    if (i < rules->host_count)
        return i;
    rules->hosts = mem_resize(rules->hosts, rules->host_count + 1, sizeof(struct pattern_list *));
    struct pattern_list *list = pattern_list_new(PATTERN_DENIED);
    pattern_list_add(list, pattern);
    pattern_list_seal(list);
    rules->hosts[rules->host_count++] = list;
    return i;
}

static void add_paths(struct rule *rule, const char *const *paths, size_t count)
{
    rule->paths = mem_array(count, sizeof(struct path_pattern *));
    for (size_t i = 0; i < count; i++) {
        struct path_pattern *pattern = path_pattern_new(paths[i], strlen(paths[i]));
        assert(pattern != NULL);
        rule->paths[rule->path_count++] = pattern;
        rule->needs_query |= path_pattern_has_query(pattern);
        if (!path_pattern_is_any(pattern))
            continue;
        /* The other patterns add nothing, and how the path is read does not matter. */
        while (rule->path_count != 0)
            path_pattern_free(rule->paths[--rule->path_count]);
        rule->needs_query = false;
        return;
    }
}

void request_rules_add(struct request_rules *rules, const struct request_rule *rule)
{
    assert(rules->count < REQUEST_RULES_MAX);
    if (rules->count == rules->room) {
        rules->room = rules->room != 0 ? 2 * rules->room : 16;
        rules->rules = mem_resize(rules->rules, rules->room, sizeof *rules->rules);
    }
    struct rule *r = &rules->rules[rules->count++];
    *r = (struct rule){.host = add_host(rules, rule->host),
                       .method_count = rule->method_count,
                       .allow = rule->allow,
                       .reason = rule->reason != NULL ? mem_dup(rule->reason) : NULL};
    pattern_list_add(rules->all, rule->host);
    if (rule->method_count != 0)
        r->methods = mem_array(rule->method_count, sizeof(char *));
    for (size_t i = 0; i < rule->method_count; i++)
        r->methods[i] = mem_dup(rule->methods[i]);
    if (rule->path_count != 0)
        add_paths(r, rule->paths, rule->path_count);
}

void request_rules_seal(struct request_rules *rules)
{
    pattern_list_seal(rules->all);
}

/* The request being judged. */
struct question {
    const struct host *host;
    uint16_t port;
    const char *method;
    size_t method_len;
    const struct request_path *path;
    uint8_t *answers; /* for each distinct host pattern, once asked */
};
enum { NOT_ASKED, MATCHES, MATCHES_NOT };

static bool host_matches(const struct request_rules *rules, const struct rule *rule,
                         const struct question *q)
{
    uint8_t *answer = &q->answers[rule->host];
    if (*answer == NOT_ASKED)
        *answer = pattern_list_match(rules->hosts[rule->host], q->host, q->port) >= 0 ? MATCHES
                                                                                      : MATCHES_NOT;
    return *answer == MATCHES;
}

static bool method_matches(const struct rule *rule, const struct question *q)
{
    for (size_t i = 0; i < rule->method_count; i++)
        if (text_equal_fold(rule->methods[i], strlen(rule->methods[i]), q->method, q->method_len))
            return true;
    return rule->method_count == 0;
}

static bool path_matches(const struct rule *rule, const struct request_path *path)
{
    for (size_t i = 0; i < rule->path_count; i++)
        if (path_pattern_match(rule->paths[i], path))
            return true;
    return rule->path_count == 0;
}

static enum rule_verdict judge(const struct request_rules *rules, const struct rule *rule,
                               const struct question *q)
{
    if (!host_matches(rules, rule, q) || !method_matches(rule, q))
        return RULE_NONE;
    if (rule->path_count != 0 &&
        (q->path->ambiguous || (rule->needs_query && q->path->query_ambiguous)))
        return RULE_AMBIGUOUS;
    if (!path_matches(rule, q->path))
        return RULE_NONE;
    return rule->allow ? RULE_ALLOW : RULE_DENY;
}

bool request_rules_concern(const struct request_rules *rules, const struct host *host,
                           uint16_t port)
{
    return pattern_list_match(rules->all, host, port) >= 0;
}

enum rule_verdict request_rules_decide(const struct request_rules *rules, const struct host *host,
                                       uint16_t port, const char *method, size_t method_len,
                                       const char *target, size_t target_len,
                                       struct rule_match *out)
{
    *out = (struct rule_match){0};
    long first = pattern_list_match(rules->all, host, port);
    if (first < 0)
        return RULE_NONE;

    uint8_t answers[REQUEST_RULES_MAX] = {NOT_ASKED};
    struct request_path path;
    request_path_init(&path, target, target_len);
    const struct question q = {.host = host,
                               .port = port,
                               .method = method,
                               .method_len = method_len,
                               .path = &path,
                               .answers = answers};
    enum rule_verdict verdict = RULE_NONE;
    size_t i = (size_t)first;
    for (; i < rules->count && verdict == RULE_NONE; i++)
        verdict = judge(rules, &rules->rules[i], &q);
    request_path_free(&path);
    if (verdict == RULE_NONE)
        return RULE_NONE;
    *out = (struct rule_match){.index = i - 1,
                               .host = pattern_list_entry(rules->all, i - 1),
                               .reason = rules->rules[i - 1].reason};
    return verdict;
}
