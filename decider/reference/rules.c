#include "decider/reference/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/host.h"

struct decider_rules *decider_rules_ref(struct decider_rules *rules)
{
    rules->refs++;
    return rules;
}

static void free_rule(struct decider_rule *rule)
{
    for (size_t i = 0; i < rule->path_count; i++)
        path_pattern_free(rule->paths[i]);
    for (size_t i = 0; i < rule->header_count; i++)
        free(rule->headers[i].name);
    for (size_t i = 0; i < rule->request.set_count; i++) {
        free((void *)rule->set[i].name);
        free((void *)rule->set[i].values);
    }
    for (size_t i = 0; i < rule->request.removed_count; i++)
        free(rule->removed[i]);
    free(rule->methods);
    free(rule->paths);
    free(rule->headers);
    free(rule->set);
    free(rule->removed);
}

void decider_rules_unref(struct decider_rules *rules)
{
    if (rules == NULL || --rules->refs != 0)
        return;
    for (size_t i = 0; i < rules->count; i++)
        free_rule(&rules->rules[i]);
    for (size_t i = 0; i < rules->host_count; i++)
        pattern_list_free(rules->hosts[i]);
    pattern_list_free(rules->all);
    free(rules->rules);
    free(rules->hosts);
    free(rules->allowed);
    free(rules->denied);
    json_decref(rules->document);
    free(rules);
}

static char fold(char c)
{
    return c == '_' || c == '.' ? '-' : (char)text_lower((unsigned char)c);
}

void rule_fold_name(char *name)
{
    for (; *name != '\0'; name++)
        *name = fold(*name);
}

/* What is asked, and what has been found out about it so far. */
struct question {
    const struct peer_message *message;
    struct host host;
    uint8_t answers[DECIDER_RULES_MAX]; /* for each distinct host pattern, once asked */
    struct request_path path;           /* once `path_read` */
    bool path_read;
};
enum { NOT_ASKED, MATCHES, MATCHES_NOT };

static bool host_matches(const struct decider_rules *rules, const struct decider_rule *rule,
                         struct question *q)
{
    uint8_t *answer = &q->answers[rule->host];
    if (*answer == NOT_ASKED)
        *answer = pattern_list_match(rules->hosts[rule->host], &q->host, q->message->port) >= 0
                      ? MATCHES
                      : MATCHES_NOT;
    return *answer == MATCHES;
}

static bool method_matches(const struct decider_rule *rule, const char *method)
{
    for (size_t i = 0; i < rule->method_count; i++)
        if (text_equal_fold(rule->methods[i], strlen(rule->methods[i]), method, strlen(method)))
            return true;
    return rule->method_count == 0;
}

static bool name_is(const char *name, const char *folded)
{
    while (*name != '\0' && fold(*name) == *folded) {
        name++;
        folded++;
    }
    return *name == '\0' && *folded == '\0';
}

static bool has_header(const json_t *headers, const char *folded)
{
    const char *name;
    json_t *values;
    if (headers == NULL)
        return false;
    json_object_foreach((json_t *)headers, name, values)
    {
        if (name_is(name, folded))
            return true;
    }
    return false;
}

static bool headers_match(const struct decider_rule *rule, const json_t *headers)
{
    for (size_t i = 0; i < rule->header_count; i++)
        if (has_header(headers, rule->headers[i].name) != rule->headers[i].present)
            return false;
    return true;
}

/* The target is put together again: where it was cut says nothing about a fragment in it. */
static const struct request_path *path_of(struct question *q)
{
    if (q->path_read)
        return &q->path;
    const struct peer_message *m = q->message;
    struct buf target;
    buf_init(&target, SIZE_MAX / 2);
    buf_puts(&target, m->path);
    if (m->query != NULL) {
        buf_puts(&target, "?");
        buf_puts(&target, m->query);
    }
    request_path_init(&q->path, buf_chars(&target), buf_len(&target));
    buf_free(&target);
    q->path_read = true;
    return &q->path;
}

enum fit { FITS_NOT, FITS, FIT_UNCLEAR };

static enum fit path_fits(const struct decider_rule *rule, struct question *q)
{
    if (rule->path_count == 0)
        return FITS;
    const struct request_path *path = path_of(q);
    if (path->ambiguous || (rule->needs_query && path->query_ambiguous))
        return FIT_UNCLEAR;
    for (size_t i = 0; i < rule->path_count; i++)
        if (path_pattern_match(rule->paths[i], path))
            return FITS;
    return FITS_NOT;
}

static unsigned via_of(const char *via)
{
    if (strcmp(via, "connect") == 0)
        return RULE_CONNECT;
    return strcmp(via, "socks") == 0 ? RULE_SOCKS : RULE_HTTP;
}

/* Whether a rule applies by everything but the body. */
static enum fit rule_fits(const struct decider_rules *rules, const struct decider_rule *rule,
                          struct question *q)
{
    const struct peer_message *m = q->message;
    if (m->kind == PEER_CONNECTION) {
        bool fits = rule->connections && (rule->via == 0 || (rule->via & via_of(m->via)) != 0) &&
                    (rule->user == NULL || (m->user != NULL && strcmp(rule->user, m->user) == 0)) &&
                    host_matches(rules, rule, q);
        return fits ? FITS : FITS_NOT;
    }
    if (!rule->requests || !host_matches(rules, rule, q) || !method_matches(rule, m->method) ||
        !headers_match(rule, m->headers))
        return FITS_NOT;
    return path_fits(rule, q);
}

static void add_candidate(struct rule_result *result, size_t index, uint32_t max)
{
    if (result->candidates == NULL)
        result->candidates = mem_array(DECIDER_RULES_MAX, sizeof *result->candidates);
    result->candidates[result->candidate_count++] = (uint16_t)index;
    if (max > result->body_max)
        result->body_max = max;
}

static const struct decider_verdict ambiguous = {
    .action = DECIDER_DENY,
    .status = 400,
    .reason = "servers disagree about which path this target names, so that no rule can judge it"};
static const struct decider_verdict bad_host = {
    .action = DECIDER_DENY, .status = 400, .reason = "no rule can judge this host"};

static struct rule_decision judge(const struct decider_rules *rules, struct question *q,
                                  struct rule_result *result)
{
    bool connection = q->message->kind == PEER_CONNECTION;
    long first = pattern_list_match(rules->all, &q->host, q->message->port);
    for (size_t i = first < 0 ? rules->count : (size_t)first; i < rules->count; i++) {
        const struct decider_rule *rule = &rules->rules[i];
        enum fit fit = rule_fits(rules, rule, q);
        if (fit == FIT_UNCLEAR)
            return (struct rule_decision){&ambiguous, (long)i};
        if (fit == FITS && rule->body.max == 0)
            return (struct rule_decision){connection ? &rule->connection : &rule->request, (long)i};
        if (fit == FITS)
            add_candidate(result, i, rule->body.max);
    }
    return (struct rule_decision){&rules->otherwise, RULE_NONE_APPLIED};
}

void decider_rules_decide(const struct decider_rules *rules, const struct peer_message *m,
                          struct rule_result *result)
{
    struct question q = {.message = m};
    *result = (struct rule_result){.decision = {&bad_host, RULE_NOT_ASKED}};
    if (host_canonicalise(m->host, strlen(m->host), &q.host) != HOST_OK)
        return;
    result->decision = judge(rules, &q, result);
    if (q.path_read)
        request_path_free(&q.path);
}

static bool body_fits(const struct rule_body *rule, const uint8_t *body, size_t n, bool cut)
{
    bool longer = cut || n > rule->max;
    n = n < rule->max ? n : rule->max;
    if (rule->longer && !longer)
        return false;
    if (rule->contains != NULL)
        return memmem(body, n, rule->contains, strlen(rule->contains)) != NULL;
    return rule->longer || n != 0;
}

struct rule_decision decider_rules_decide_body(const struct decider_rules *rules,
                                               const struct rule_result *result,
                                               const uint8_t *body, size_t n, bool cut)
{
    for (size_t i = 0; i < result->candidate_count; i++) {
        size_t index = result->candidates[i];
        const struct decider_rule *rule = &rules->rules[index];
        if (body_fits(&rule->body, body, n, cut))
            return (struct rule_decision){&rule->request, (long)index};
    }
    return result->decision;
}

void rule_result_free(struct rule_result *result)
{
    MEM_FREE(result->candidates);
    result->candidate_count = 0;
}
