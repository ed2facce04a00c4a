#include "decider/reference/rules_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "decider/reference/rules_schema.h"
#include "proxy/settings/notes.h"
#include "proxy/settings/validate.h"

enum { DENY_STATUS = 403, LINE_BYTES_MAX = 2 * SETTINGS_FILE_MAX, READ_ONCE = 65536 };

/* --- what is wrong with it --- */

static void put_error(struct buf *error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void put_error(struct buf *error, const char *fmt, ...)
{
    struct buf line;
    va_list ap;
    buf_init(&line, LINE_BYTES_MAX);
    va_start(ap, fmt);
    buf_vprintf(&line, fmt, ap);
    va_end(ap);
    settings_line(error, buf_chars(&line), buf_len(&line));
    buf_free(&line);
}

static void put_issues(const char *name, const struct issues *issues, struct buf *error)
{
    for (size_t i = 0; i < issues->count; i++) {
        const struct issue *issue = &issues->list[i];
        put_error(error, "Error: %s: %s: %s", name, issue->path[0] != '\0' ? issue->path : "(root)",
                  issue->message);
    }
    if (issues->dropped != 0)
        put_error(error, "Error: %s: and %zu more", name, issues->dropped);
}

static bool is_valid(const char *name, const json_t *document, struct buf *error)
{
    struct issues issues = {0};
    struct validation v = {.issues = &issues};
    buf_init(&v.path, LINE_BYTES_MAX);
    rules_schema_validate(&v, document);
    put_issues(name, &issues, error);
    bool valid = issues.count == 0;
    issues_free(&issues);
    buf_free(&v.path);
    return valid;
}

/* --- from here on the document is valid --- */

/* The strings of a list, borrowed; the array is the caller's. NULL when there are none. */
static const char **strings_of(const json_t *list, size_t *count)
{
    *count = json_array_size(list);
    if (*count == 0)
        return NULL;
    const char **strings = mem_array(*count, sizeof(char *));
    for (size_t i = 0; i < *count; i++)
        strings[i] = json_string_value(json_array_get(list, i));
    return strings;
}

static uint32_t number_of(const json_t *object, const char *key, uint32_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL ? (uint32_t)json_number_value(value) : otherwise;
}

static char *lower(const char *name)
{
    char *copy = mem_dup(name);
    for (char *c = copy; *c != '\0'; c++)
        *c = (char)text_lower((unsigned char)*c);
    return copy;
}

static void add_paths(struct decider_rule *rule, const json_t *list)
{
    rule->paths = mem_array(json_array_size(list) + 1, sizeof(struct path_pattern *));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        struct path_pattern *pattern =
            path_pattern_new(json_string_value(item), json_string_length(item));
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

static void add_headers(struct decider_rule *rule, const json_t *object)
{
    const char *name;
    json_t *present;
    rule->headers = mem_array(json_object_size(object) + 1, sizeof *rule->headers);
    json_object_foreach((json_t *)object, name, present)
    {
        struct rule_header *header = &rule->headers[rule->header_count++];
        *header = (struct rule_header){.name = mem_dup(name), .present = json_is_true(present)};
        rule_fold_name(header->name);
    }
}

static struct decider_header set_of(const char *name, const json_t *value)
{
    struct decider_header header = {.name = lower(name)};
    if (json_is_array(value)) {
        header.values = strings_of(value, &header.value_count);
        return header;
    }
    const char **one = mem_array(1, sizeof *one);
    one[0] = json_string_value(value);
    header.values = one;
    header.value_count = 1;
    return header;
}

/* The answers of a rule. */
static void add_verdicts(struct decider_rule *rule, const json_t *object)
{
    const json_t *set = json_object_get(object, "setHeaders");
    const json_t *removed = json_object_get(object, "removeHeaders");
    const char *name;
    json_t *value;
    struct decider_verdict verdict = {
        .action = DECIDER_DENY,
        .status = (uint16_t)number_of(object, "status", DENY_STATUS),
        .reason = json_string_value(json_object_get(object, "reason")),
    };
    if (strcmp(json_string_value(json_object_get(object, "action")), "allow") == 0)
        verdict = (struct decider_verdict){.action = DECIDER_ALLOW};
    rule->request = rule->connection = verdict;
    rule->connection.ttl_s = number_of(object, "ttl", 0);

    rule->set = mem_array(json_object_size(set) + 1, sizeof *rule->set);
    json_object_foreach((json_t *)set, name, value)
    {
        rule->set[rule->request.set_count++] = set_of(name, value);
    }
    rule->request.set = rule->set;
    rule->removed = mem_array(json_array_size(removed) + 1, sizeof(char *));
    for (size_t i = 0; i < json_array_size(removed); i++)
        rule->removed[rule->request.removed_count++] =
            lower(json_string_value(json_array_get(removed, i)));
    rule->request.removed = (const char *const *)rule->removed;
}

static unsigned via_bits(const json_t *list)
{
    unsigned bits = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *via = json_string_value(json_array_get(list, i));
        bits |= strcmp(via, "connect") == 0 ? RULE_CONNECT
                : strcmp(via, "socks") == 0 ? RULE_SOCKS
                                            : RULE_HTTP;
    }
    return bits;
}

/* distinct: index of each host pattern that there is, by its text. */
static size_t add_host(struct decider_rules *rules, json_t *distinct, const char *pattern)
{
    const json_t *known = json_object_get(distinct, pattern);
    pattern_list_add(rules->all, pattern);
    if (known != NULL)
        return (size_t)json_integer_value(known);
    struct pattern_list *list = pattern_list_new(PATTERN_DENIED);
    pattern_list_add(list, pattern);
    pattern_list_seal(list);
    json_object_set_new(distinct, pattern, json_integer((json_int_t)rules->host_count));
    rules->hosts[rules->host_count] = list;
    return rules->host_count++;
}

static void add_rule(struct decider_rules *rules, json_t *distinct, const json_t *object)
{
    struct decider_rule *rule = &rules->rules[rules->count++];
    const json_t *host = json_object_get(object, "host");
    const json_t *body = json_object_get(object, "body");
    const char *user = json_string_value(json_object_get(object, "user"));

    rule->host = add_host(rules, distinct, host != NULL ? json_string_value(host) : "*");
    rule->methods = strings_of(json_object_get(object, "methods"), &rule->method_count);
    add_paths(rule, json_object_get(object, "paths"));
    add_headers(rule, json_object_get(object, "headers"));
    rule->body = (struct rule_body){
        .max = number_of(body, "max", 0),
        .contains = json_string_value(json_object_get(body, "contains")),
        .longer = json_is_true(json_object_get(body, "longer")),
    };
    rule->via = via_bits(json_object_get(object, "via"));
    rule->user = user;
    add_verdicts(rule, object);
    rule->connections = rule->method_count == 0 && json_object_get(object, "paths") == NULL &&
                        rule->header_count == 0 && body == NULL;
    rule->requests = rule->via == 0 && user == NULL && rule->connection.ttl_s == 0;
}

static unsigned asks_of(const json_t *list)
{
    unsigned asks = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        asks |= strcmp(json_string_value(json_array_get(list, i)), "request") == 0
                    ? DECIDER_REQUESTS
                    : DECIDER_CONNECTIONS;
    return asks != 0 ? asks : DECIDER_CONNECTIONS | DECIDER_REQUESTS;
}

static void set_default(struct decider_rules *rules, const json_t *object)
{
    rules->otherwise = (struct decider_verdict){
        .action = DECIDER_DENY, .status = DENY_STATUS, .reason = "no rule of the decider applies"};
    if (object == NULL)
        return;
    const char *reason = json_string_value(json_object_get(object, "reason"));
    if (strcmp(json_string_value(json_object_get(object, "action")), "allow") == 0)
        rules->otherwise = (struct decider_verdict){.action = DECIDER_ALLOW};
    else
        rules->otherwise.status = (uint16_t)number_of(object, "status", DENY_STATUS);
    if (reason != NULL)
        rules->otherwise.reason = reason;
}

/* Takes the document over. */
static struct decider_rules *build(json_t *document)
{
    const json_t *list = json_object_get(document, "rules");
    size_t count = json_array_size(list);
    struct decider_rules *rules = mem_alloc(sizeof *rules);
    json_t *distinct = json_object();

    *rules = (struct decider_rules){.refs = 1,
                                    .document = document,
                                    .asks = asks_of(json_object_get(document, "asks")),
                                    .all = pattern_list_new(PATTERN_DENIED)};
    rules->allowed = strings_of(json_object_get(document, "allowedDomains"), &rules->allowed_count);
    rules->denied = strings_of(json_object_get(document, "deniedDomains"), &rules->denied_count);
    rules->rules = mem_array(count + 1, sizeof *rules->rules);
    rules->hosts = mem_array(count + 1, sizeof(struct pattern_list *));
    for (size_t i = 0; i < count; i++)
        add_rule(rules, distinct, json_array_get(list, i));
    pattern_list_seal(rules->all);
    set_default(rules, json_object_get(document, "default"));
    json_decref(distinct);
    return rules;
}

/* The whole file; false with errno. */
static bool read_file(const char *path, struct buf *content)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t n = 1;
    while (n != 0 && (n > 0 || errno == EINTR)) {
        uint8_t *to = buf_reserve(content, READ_ONCE);
        if (to == NULL) {
            errno = EFBIG;
            n = -1;
            break;
        }
        n = read(fd, to, READ_ONCE);
        buf_commit(content, n > 0 ? (size_t)n : 0);
    }
    int number = errno;
    close(fd);
    errno = number;
    return n == 0;
}

struct decider_rules *decider_rules_read(const char *path, struct buf *error)
{
    struct buf content;
    struct decider_rules *rules = NULL;
    buf_init(&content, SETTINGS_FILE_MAX + READ_ONCE);
    if (read_file(path, &content))
        rules = decider_rules_parse(path, buf_cstr(&content), buf_len(&content), error);
    else
        put_error(error, "Error: %s: %s", path, strerror(errno));
    buf_free(&content);
    return rules;
}

struct decider_rules *decider_rules_parse(const char *name, const char *text, size_t n,
                                          struct buf *error)
{
    json_error_t why;
    /* jansson passes over one that follows a number. */
    if (n != 0 && memchr(text, '\0', n) != NULL) {
        put_error(error, "Error: %s is not valid JSON: a NUL byte", name);
        return NULL;
    }
    json_t *document = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (document == NULL) {
        put_error(error, "Error: %s is not valid JSON: %s (line %d, column %d)", name, why.text,
                  why.line, why.column);
        return NULL;
    }
    if (is_valid(name, document, error))
        return build(document);
    json_decref(document);
    return NULL;
}
