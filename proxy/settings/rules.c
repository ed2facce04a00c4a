#include "proxy/settings/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/policy/path_pattern.h"
#include "proxy/policy/pattern.h"

enum { PORT_OF_TUNNELS = 443, HOST_PATTERN_MAX = 300 };

static void check_host(struct validation *v, const json_t *value)
{
    if (json_has_nul(value) ||
        !pattern_valid(PATTERN_DENIED, json_string_value(value), json_string_length(value)))
        validation_issue(v, "Invalid host pattern. Use what network.deniedDomains takes: a name, "
                            "\"*.example.com\", an address or \"*\", with an optional \":port\".");
}

static void check_method(struct validation *v, const json_t *value)
{
    const char *s = json_string_value(value);
    if (!request_method_valid(s, json_string_length(value)))
        validation_issue(v, "Invalid method. Use one method of HTTP, e.g. \"GET\".");
    else if (strcmp(s, "CONNECT") == 0)
        validation_issue(v, "Rules do not judge tunnels. Use network.allowedDomains and "
                            "network.deniedDomains for them.");
}

void rules_check_path(struct validation *v, const json_t *value)
{
    if (!path_pattern_valid(json_string_value(value), json_string_length(value)))
        validation_issue(v, "Invalid path pattern. Use a path that starts with \"/\", with \"*\" "
                            "for one whole segment, \"**\" once for any number of them, and \"?\" "
                            "before an exact query; without empty or dot segments, \"\\\", \"#\" "
                            "or escapes of \"/\" and \"\\\".");
}

static void check_reason(struct validation *v, const json_t *value)
{
    if (json_has_nul(value))
        validation_issue(v, "String must not contain a NUL character");
}

static const char *const action_choices[] = {"allow", "deny", NULL};
static const struct option method_item = {.type = OPTION_STRING, .check = check_method};
static const struct option path_item = {.type = OPTION_STRING, .check = rules_check_path};

static const struct option rule_options[] = {
    {.key = "host",
     .type = OPTION_STRING,
     .need = REQUIRED,
     .max = HOST_PATTERN_MAX,
     .check = check_host},
    {.key = "methods",
     .type = OPTION_LIST,
     .min = 1,
     .max = REQUEST_RULE_METHODS_MAX,
     .item = &method_item},
    {.key = "paths",
     .type = OPTION_LIST,
     .min = 1,
     .max = REQUEST_RULE_PATHS_MAX,
     .item = &path_item},
    {.key = "action", .type = OPTION_ENUM, .need = REQUIRED, .choices = action_choices},
    {.key = "reason",
     .type = OPTION_STRING,
     .min = 1,
     .max = REQUEST_REASON_MAX,
     .check = check_reason},
    {.key = NULL},
};
static const struct shape rule_shape = {.options = rule_options, .strict = true};
static const struct option rule_item = {.type = OPTION_OBJECT, .shape = &rule_shape};

const struct option rules_option = {
    .key = "rules", .type = OPTION_LIST, .max = REQUEST_RULES_MAX, .item = &rule_item};

/* The hosts whose tunnels stay closed although TLS is terminated, or NULL. */
static struct pattern_list *excluded_hosts(const json_t *terminate)
{
    const json_t *entries = json_object_get(terminate, "excludeDomains");
    struct pattern_list *list = pattern_list_new(PATTERN_PLAIN);
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        if (json_is_string(entry) && !json_has_nul(entry) &&
            pattern_valid(PATTERN_PLAIN, json_string_value(entry), json_string_length(entry)))
            pattern_list_add(list, json_string_value(entry));
    }
    pattern_list_seal(list);
    return list;
}

static void check_tunnel(struct validation *v, const json_t *host, const json_t *terminate,
                         const struct pattern_list *excluded)
{
    if (!json_is_string(host) || json_string_length(host) > HOST_PATTERN_MAX)
        return;
    struct buf name;
    buf_init(&name, HOST_PATTERN_MAX);
    unsigned port = pattern_split(json_string_value(host), json_string_length(host), &name);
    if (port == PORT_OF_TUNNELS && terminate == NULL)
        validation_issue(v, "A rule for port 443 has to see inside TLS, which nothing opens "
                            "without network.tlsTerminate. Add that, or use network.allowedDomains "
                            "and network.deniedDomains.");
    else if (port == PORT_OF_TUNNELS &&
             pattern_list_covers(excluded, buf_chars(&name), buf_len(&name)))
        validation_issue(v, "A rule for port 443 has to see inside TLS, which "
                            "network.tlsTerminate.excludeDomains leaves closed for this host.");
    buf_free(&name);
}

void rules_validate_tunnels(struct validation *v, const json_t *document)
{
    const json_t *network = json_object_get(document, "network");
    const json_t *rules = json_object_get(network, "rules");
    const json_t *terminate = json_object_get(network, "tlsTerminate");
    struct pattern_list *excluded = excluded_hosts(terminate);
    size_t mark = path_push(v, "network");
    path_push(v, "rules");
    for (size_t i = 0; i < json_array_size(rules); i++) {
        size_t outer = path_push_index(v, i);
        path_push(v, "host");
        check_tunnel(v, json_object_get(json_array_get(rules, i), "host"), terminate, excluded);
        path_pop(v, outer);
    }
    path_pop(v, mark);
    pattern_list_free(excluded);
}

/* The strings of a list, borrowed; the array is the caller's. */
static const char **strings_of(const json_t *list, size_t *count)
{
    *count = json_array_size(list);
    const char **strings = mem_array(*count, sizeof(char *));
    for (size_t i = 0; i < *count; i++)
        strings[i] = json_string_value(json_array_get(list, i));
    return strings;
}

static void add_rule(struct request_rules *rules, const json_t *object)
{
    struct request_rule rule = {
        .host = json_string_value(json_object_get(object, "host")),
        .allow = strcmp(json_string_value(json_object_get(object, "action")), "allow") == 0,
        .reason = json_string_value(json_object_get(object, "reason")),
    };
    const char **methods = strings_of(json_object_get(object, "methods"), &rule.method_count);
    const char **paths = strings_of(json_object_get(object, "paths"), &rule.path_count);
    rule.methods = methods;
    rule.paths = paths;
    request_rules_add(rules, &rule);
    free(methods);
    free(paths);
}

struct request_rules *rules_build(const json_t *list)
{
    if (json_array_size(list) == 0)
        return NULL;
    struct request_rules *rules = request_rules_new();
    for (size_t i = 0; i < json_array_size(list); i++)
        add_rule(rules, json_array_get(list, i));
    request_rules_seal(rules);
    return rules;
}
