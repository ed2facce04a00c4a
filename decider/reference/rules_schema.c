#include "decider/reference/rules_schema.h"

#include <string.h>

#include "base/text.h"
#include "decider/entry.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/reference/rules.h"
#include "decider/strict_json.h"
#include "proxy/http/head.h"
#include "proxy/policy/pattern.h"
#include "proxy/policy/request_rules.h"
#include "proxy/settings/rules.h"

enum {
    HOST_PATTERN_MAX = 300,
    HEADER_NAME_MAX = 1024,
    TEXT_MAX = 8192, /* of a user name, and of what a body contains */
    HELLO_ROOM = 200 /* of a hello, beside its entries */
};

/* --- texts --- */

static void check_entry(struct validation *v, const json_t *value)
{
    if (!egress_entry_valid(json_string_value(value), json_string_length(value)))
        validation_issue(v, "Invalid entry. Use a lower-case name, \"*.example.com\" or an address "
                            "(IPv6 in brackets before a port), with an optional \":port\".");
}

static void check_host(struct validation *v, const json_t *value)
{
    const char *s = json_string_value(value);
    size_t n = json_string_length(value);
    if (json_has_nul(value) || !pattern_valid(PATTERN_DENIED, s, n))
        validation_issue(v, "Invalid host pattern. Use a name, \"*.example.com\", an address or "
                            "\"*\", with an optional \":port\".");
    else if (pattern_matches_nothing(PATTERN_DENIED, s, n))
        validation_issue(v, "No host can match this pattern.");
}

static void check_method(struct validation *v, const json_t *value)
{
    const char *s = json_string_value(value);
    if (!request_method_valid(s, json_string_length(value)))
        validation_issue(v, "Invalid method. Use one method of HTTP, e.g. \"GET\".");
    else if (strcmp(s, "CONNECT") == 0)
        validation_issue(v, "A CONNECT is a connection. Use \"via\": [\"connect\"].");
}

static void check_text(struct validation *v, const json_t *value)
{
    if (!strict_text_valid(json_string_value(value), json_string_length(value)))
        validation_issue(v, "String must not contain control characters");
}

static void check_contains(struct validation *v, const json_t *value)
{
    if (json_has_nul(value))
        validation_issue(v, "String must not contain a NUL character");
}

/* --- header names and values --- */

static bool is_name(struct validation *v, const char *name)
{
    bool ok = http_is_token(name, strlen(name));
    if (!ok)
        validation_issue(v, "Invalid header name");
    return ok;
}

/* An issue for a name that is there before in another spelling. seen: a set of folded names. */
static void check_once(struct validation *v, json_t *seen, const char *name)
{
    char folded[HEADER_NAME_MAX + 1];
    size_t n = strlen(name);
    if (n > HEADER_NAME_MAX) {
        validation_issue(v, "Longer than %d characters", HEADER_NAME_MAX);
        return;
    }
    memcpy(folded, name, n + 1);
    rule_fold_name(folded);
    if (json_object_get(seen, folded) != NULL)
        validation_issue(v,
                         "Named twice (case does not count, and \"-\", \"_\" and \".\" are one)");
    json_object_set_new(seen, folded, json_true());
}

static void check_headers(struct validation *v, const json_t *value)
{
    static const struct option presence = {.type = OPTION_BOOLEAN};
    static const struct option map = {.type = OPTION_MAP, .item = &presence};
    const char *name;
    json_t *member;
    validate_value(v, &map, value);
    if (json_is_object(value) && json_object_size(value) == 0)
        validation_issue(v, "Object must name at least one header");
    json_t *seen = json_object();
    json_object_foreach((json_t *)value, name, member)
    {
        size_t mark = path_push(v, name);
        if (is_name(v, name))
            check_once(v, seen, name);
        if (text_equal_fold(name, strlen(name), "host", 4))
            validation_issue(v, "Every request names its host. Use \"host\" of the rule.");
        path_pop(v, mark);
    }
    json_decref(seen);
}

static const struct option value_item = {.type = OPTION_STRING, .check = check_text};
static const struct option values_item = {.type = OPTION_LIST, .min = 1, .item = &value_item};

static void check_set_one(struct validation *v, json_t *seen, const char *name, const json_t *value)
{
    if (is_name(v, name)) {
        check_once(v, seen, name);
        if (!header_may_be_set(name))
            validation_issue(v, "No decider may set this header");
    }
    validate_value(v, json_is_string(value) ? &value_item : &values_item, value);
}

static size_t values_size(const json_t *list)
{
    size_t size = json_string_length(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        size += json_string_length(json_array_get(list, i));
    return size;
}

static void check_set(struct validation *v, const json_t *value)
{
    size_t bytes = 0, values = 0;
    const char *name;
    json_t *member;
    if (!json_is_object(value)) {
        validation_expected(v, "object", value);
        return;
    }
    if (json_object_size(value) == 0)
        validation_issue(v, "Object must name at least one header");
    json_t *seen = json_object();
    json_object_foreach((json_t *)value, name, member)
    {
        size_t mark = path_push(v, name);
        check_set_one(v, seen, name, member);
        path_pop(v, mark);
        bytes += strlen(name) + values_size(member);
        values += json_is_array(member) ? json_array_size(member) : 1;
    }
    json_decref(seen);
    if (values > HEADER_VALUES_MAX || bytes > HEADER_BYTES_MAX)
        validation_issue(v, "More than %d values, or than %d bytes of names and values",
                         HEADER_VALUES_MAX, HEADER_BYTES_MAX);
}

static void check_removed(struct validation *v, const json_t *value)
{
    static const struct option name_item = {.type = OPTION_STRING, .min = 1};
    static const struct option list = {
        .type = OPTION_LIST, .min = 1, .max = REMOVED_NAMES_MAX, .item = &name_item};
    validate_value(v, &list, value);
    size_t bytes = 0;
    json_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(item);
        size_t mark = path_push_index(v, i);
        if (name != NULL && json_has_nul(item))
            validation_issue(v, "Invalid header name");
        else if (name != NULL && is_name(v, name)) {
            check_once(v, seen, name);
            if (!header_may_be_removed(name))
                validation_issue(v, "No decider may remove this header");
        }
        path_pop(v, mark);
        bytes += json_string_length(item);
    }
    json_decref(seen);
    if (bytes > REMOVED_BYTES_MAX)
        validation_issue(v, "More than %d bytes of names", REMOVED_BYTES_MAX);
}

/* --- a rule --- */

static const char *const action_choices[] = {"allow", "deny", NULL};
static const char *const via_choices[] = {"connect", "socks", "http", NULL};
static const char *const asks_choices[] = {"connection", "request", NULL};

static const struct option method_item = {.type = OPTION_STRING, .check = check_method};
static const struct option path_item = {.type = OPTION_STRING, .check = rules_check_path};
static const struct option via_item = {.type = OPTION_ENUM, .choices = via_choices};
static const struct option asks_item = {.type = OPTION_ENUM, .choices = asks_choices};
static const struct option entry_item = {.type = OPTION_STRING, .check = check_entry};

static const struct option body_options[] = {
    {.key = "max", .type = OPTION_INTEGER, .need = REQUIRED, .min = 1, .max = DECIDER_BODY_MAX},
    {.key = "contains", .type = OPTION_STRING, .min = 1, .max = TEXT_MAX, .check = check_contains},
    {.key = "longer", .type = OPTION_BOOLEAN},
    {.key = NULL},
};
static const struct shape body_shape = {.options = body_options, .strict = true};

static const char *const of_requests[] = {"methods", "paths", "headers", "body", NULL};
static const char *const of_connections[] = {"via", "user", "ttl", NULL};
static const char *const of_allow[] = {"setHeaders", "removeHeaders", "ttl", NULL};
static const char *const of_deny[] = {"status", "reason", NULL};

/* The first key of the list that the object has, or NULL. */
static const char *key_of(const json_t *object, const char *const *keys)
{
    while (*keys != NULL && json_object_get(object, *keys) == NULL)
        keys++;
    return *keys;
}

/* Issues for keys that mean nothing with the action. */
static void check_action(struct validation *v, const json_t *object)
{
    const char *action = json_string_value(json_object_get(object, "action"));
    bool allow = strcmp(action, "allow") == 0;
    for (const char *const *key = allow ? of_deny : of_allow; *key != NULL; key++) {
        size_t mark = path_push(v, *key);
        if (json_object_get(object, *key) != NULL)
            validation_issue(v, "Has no effect with the action \"%s\"", action);
        path_pop(v, mark);
    }
}

static void check_rule(struct validation *v, const json_t *object)
{
    const char *request = key_of(object, of_requests);
    const char *connection = key_of(object, of_connections);
    if (request != NULL && connection != NULL)
        validation_issue(v, "Applies to nothing: \"%s\" is of requests, \"%s\" of connections",
                         request, connection);
    const char *edit =
        json_object_get(object, "setHeaders") != NULL ? "setHeaders" : "removeHeaders";
    if (connection != NULL && json_object_get(object, edit) != NULL)
        validation_issue(v, "\"%s\" is of connections, which have no headers for \"%s\"",
                         connection, edit);
    const json_t *body = json_object_get(object, "body");
    const json_t *contains = json_object_get(body, "contains");
    if (json_is_string(contains) && json_is_number(json_object_get(body, "max")) &&
        (double)json_string_length(contains) > json_number_value(json_object_get(body, "max")))
        validation_issue(v, "Applies to nothing: \"contains\" is longer than what is looked at");
    check_action(v, object);
}

static const struct option rule_options[] = {
    {.key = "host", .type = OPTION_STRING, .max = HOST_PATTERN_MAX, .check = check_host},
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
    {.key = "headers", .type = OPTION_CUSTOM, .check = check_headers},
    {.key = "body", .type = OPTION_OBJECT, .shape = &body_shape},
    {.key = "via", .type = OPTION_LIST, .min = 1, .item = &via_item},
    {.key = "user", .type = OPTION_STRING, .min = 1, .max = TEXT_MAX, .check = check_text},
    {.key = "action", .type = OPTION_ENUM, .need = REQUIRED, .choices = action_choices},
    {.key = "status", .type = OPTION_INTEGER, .min = 400, .max = 599},
    {.key = "reason",
     .type = OPTION_STRING,
     .min = 1,
     .max = REASON_BYTES_MAX,
     .check = check_text},
    {.key = "setHeaders", .type = OPTION_CUSTOM, .check = check_set},
    {.key = "removeHeaders", .type = OPTION_CUSTOM, .check = check_removed},
    {.key = "ttl", .type = OPTION_INTEGER, .min = 1, .max = TTL_MAX},
    {.key = NULL},
};
static const struct shape rule_shape = {
    .options = rule_options, .strict = true, .rule = check_rule};
static const struct option rule_item = {.type = OPTION_OBJECT, .shape = &rule_shape};

/* --- the document --- */

static const struct option default_options[] = {
    {.key = "action", .type = OPTION_ENUM, .need = REQUIRED, .choices = action_choices},
    {.key = "status", .type = OPTION_INTEGER, .min = 400, .max = 599},
    {.key = "reason",
     .type = OPTION_STRING,
     .min = 1,
     .max = REASON_BYTES_MAX,
     .check = check_text},
    {.key = NULL},
};
static const struct shape default_shape = {
    .options = default_options, .strict = true, .rule = check_action};

/* Returns the bytes that the list takes in a hello. */
static size_t check_entries(struct validation *v, const json_t *document, const char *key)
{
    const json_t *list = json_object_get(document, key);
    json_t *seen = json_object();
    size_t bytes = 0, outer = path_push(v, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        size_t mark = path_push_index(v, i);
        if (json_object_getn(seen, json_string_value(item), json_string_length(item)) != NULL)
            validation_issue(v, "Listed twice");
        json_object_setn_new(seen, json_string_value(item), json_string_length(item), json_true());
        path_pop(v, mark);
        bytes += json_string_length(item) + sizeof "\"\"," - 1;
    }
    path_pop(v, outer);
    json_decref(seen);
    return bytes;
}

static void check_asks(struct validation *v, const json_t *document)
{
    bool connections = false;
    const json_t *asks = json_object_get(document, "asks");
    const json_t *rules = json_object_get(document, "rules");
    for (size_t i = 0; i < json_array_size(asks); i++)
        connections |= strcmp(json_string_value(json_array_get(asks, i)), "connection") == 0;
    if (asks == NULL || connections)
        return;
    size_t outer = path_push(v, "rules");
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *key = key_of(json_array_get(rules, i), of_connections);
        size_t mark = path_push_index(v, i);
        if (key != NULL)
            validation_issue(
                v, "Never applies: \"%s\" is of connections, which \"asks\" leaves out", key);
        path_pop(v, mark);
    }
    path_pop(v, outer);
}

static void check_document(struct validation *v, const json_t *document)
{
    size_t bytes = check_entries(v, document, "allowedDomains");
    bytes += check_entries(v, document, "deniedDomains");
    if (bytes > FRAME_MAX - HELLO_ROOM)
        validation_issue(v, "allowedDomains and deniedDomains do not fit into one hello");
    check_asks(v, document);
}

static const struct option document_options[] = {
    {.key = "allowedDomains", .type = OPTION_LIST, .need = REQUIRED, .item = &entry_item},
    {.key = "deniedDomains", .type = OPTION_LIST, .need = REQUIRED, .item = &entry_item},
    {.key = "asks", .type = OPTION_LIST, .min = 1, .item = &asks_item},
    {.key = "rules",
     .type = OPTION_LIST,
     .need = REQUIRED,
     .max = DECIDER_RULES_MAX,
     .item = &rule_item},
    {.key = "default", .type = OPTION_OBJECT, .shape = &default_shape},
    {.key = NULL},
};
static const struct shape document_shape = {
    .options = document_options, .strict = true, .rule = check_document};

void rules_schema_validate(struct validation *v, const json_t *document)
{
    validate_object(v, &document_shape, document);
}
