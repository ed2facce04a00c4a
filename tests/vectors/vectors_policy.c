/* Rows of the policy files: hosts, patterns, addresses, routes, cleaning and keys. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "proxy/policy/host.h"
#include "proxy/policy/pattern.h"
#include "proxy/policy/policy.h"
#include "proxy/policy/route.h"
#include "proxy/policy/violation.h"
#include "tests/vectors/vectors.h"

enum { TEXT_MAX = 1 << 20 };

struct span {
    const char *s;
    size_t n;
};

static struct span text_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (!json_is_string(value))
        return (struct span){NULL, 0};
    return (struct span){json_string_value(value), json_string_length(value)};
}

static bool is_text(const json_t *row, const char *key, const char *want)
{
    struct span text = text_of(row, key);
    return text.s != NULL && strcmp(text.s, want) == 0;
}

static uint16_t port_of(const json_t *row)
{
    return (uint16_t)json_integer_value(json_object_get(row, "port"));
}

static bool same_bool(struct buf *why, const char *what, bool got, const json_t *want)
{
    if (json_is_boolean(want) && got == json_is_true(want))
        return true;
    buf_printf(why, "%s: got %s", what, got ? "true" : "false");
    return false;
}

/* got NULL stands for JSON null. */
static bool same_text(struct buf *why, const char *what, const char *got, size_t n,
                      const json_t *want)
{
    if (got == NULL ? json_is_null(want)
                    : json_is_string(want) && json_string_length(want) == n &&
                          memcmp(json_string_value(want), got, n) == 0)
        return true;
    buf_printf(why, "%s: got ", what);
    text_json(why, got != NULL ? got : "(null)", got != NULL ? n : 6);
    return false;
}

static bool same_buf(struct buf *why, const char *what, struct buf *got, const json_t *want)
{
    bool same = same_text(why, what, buf_cstr(got), buf_len(got), want);
    buf_free(got);
    return same;
}

static bool host_canonical(const json_t *row, struct buf *why)
{
    struct span text = text_of(row, "host");
    struct host host;
    enum host_result result = host_canonicalise(text.s, text.n, &host);
    bool valid = host_valid(text.s, text.n);

    if (!same_bool(why, "valid", valid, json_object_get(row, "valid")))
        return false;
    if (!valid)
        return true;
    return same_text(why, "canonical", result == HOST_NO_CANONICAL ? NULL : host.text, host.len,
                     json_object_get(row, "canonical"));
}

static bool domain_match(const json_t *row, struct buf *why)
{
    struct span pattern = text_of(row, "pattern"), text = text_of(row, "host");
    struct pattern_list *list = pattern_list_new(PATTERN_DENIED);
    struct host host;

    pattern_list_add(list, pattern.s);
    pattern_list_seal(list);
    bool match = host_canonicalise(text.s, text.n, &host) == HOST_OK &&
                 pattern_list_match(list, &host, port_of(row)) == 0;
    pattern_list_free(list);
    return same_bool(why, "match", match, json_object_get(row, "match"));
}

static bool same_split(const json_t *want, const char *s, size_t n, struct buf *why)
{
    struct buf host;
    buf_init(&host, TEXT_MAX);
    unsigned port = pattern_split(s, n, &host);
    const json_t *wanted = json_object_get(want, "port");

    if (port != (json_is_integer(wanted) ? json_integer_value(wanted) : 0)) {
        buf_printf(why, "split: got port %u", port);
        buf_free(&host);
        return false;
    }
    return same_buf(why, "split", &host, json_object_get(want, "host"));
}

static bool pattern_validity(const json_t *row, struct buf *why)
{
    static const struct {
        const char *column;
        enum pattern_kind kind;
    } columns[] = {
        {"allowed", PATTERN_ALLOWED}, {"denied", PATTERN_DENIED}, {"plain", PATTERN_PLAIN}};
    struct span pattern = text_of(row, "pattern");

    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        bool valid = pattern_valid(columns[i].kind, pattern.s, pattern.n);
        if (!same_bool(why, columns[i].column, valid, json_object_get(row, columns[i].column)))
            return false;
    }
    const json_t *split = json_object_get(row, "split");
    return split == NULL || same_split(split, pattern.s, pattern.n, why);
}

static bool inject_cover(const json_t *row, struct buf *why)
{
    struct span inject = text_of(row, "injectHost");
    struct pattern_list *list = pattern_list_new(PATTERN_DENIED);
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(row, "patterns"), i, entry)
    {
        pattern_list_add(list, json_string_value(entry));
    }
    pattern_list_seal(list);
    bool covered = pattern_list_covers(list, inject.s, inject.n);
    pattern_list_free(list);
    return same_bool(why, "covered", covered, json_object_get(row, "covered"));
}

static struct policy *policy_of(const json_t *row)
{
    struct policy *policy = policy_new();
    struct address_range range;
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(row, "allowed"), i, entry)
    {
        policy_allow(policy, json_string_value(entry));
    }
    json_array_foreach(json_object_get(row, "denied"), i, entry)
    {
        policy_deny(policy, json_string_value(entry), NULL);
    }
    json_array_foreach(json_object_get(row, "deniedResolved"), i, entry)
    {
        if (address_range_parse(json_string_value(entry), json_string_length(entry), &range))
            policy_deny_range(policy, &range);
    }
    policy_seal(policy);
    return policy;
}

static struct address_set *local_of(const json_t *row)
{
    struct address_set *local = address_set_new();
    struct address_range range;
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(row, "local"), i, entry)
    {
        if (address_range_parse(json_string_value(entry), json_string_length(entry), &range))
            address_set_add(local, &range);
    }
    address_set_seal(local);
    return local;
}

/* Judges every address of the row; returns the classes of the dropped, appends the kept. */
static unsigned judge_all(const json_t *row, const struct host *host, json_t *kept)
{
    struct policy *policy = policy_of(row);
    struct address_set *local = local_of(row);
    unsigned dropped = 0;
    size_t i;
    json_t *entry;

    json_array_foreach(json_object_get(row, "addresses"), i, entry)
    {
        struct address a;
        enum address_class class = ADDRESS_UNPARSABLE;
        if (host->is_address) /* an IP literal is never judged */
            class = ADDRESS_KEPT;
        else if (address_parse(json_string_value(entry), json_string_length(entry), true, &a))
            class = policy_judge_address(policy, host, port_of(row), &a, local);
        if (class == ADDRESS_KEPT)
            json_array_append(kept, entry);
        else
            dropped |= 1U << class;
    }
    address_set_free(local);
    policy_free(policy);
    return dropped;
}

static bool address_guard(const json_t *row, struct buf *why)
{
    struct span name = text_of(row, "hostname");
    json_t *kept = json_array();
    struct host host;
    char reason[512], message[1024];
    bool same;

    host_canonicalise(name.s, name.n, &host);
    unsigned dropped = judge_all(row, &host, kept);
    size_t len = address_reason(dropped, reason, sizeof reason);
    if (json_array_size(kept) != 0) {
        same = json_equal(kept, json_object_get(row, "kept"));
        if (!same)
            buf_printf(why, "kept %zu addresses", json_array_size(kept));
    } else if (dropped != 0) {
        int n = snprintf(message, sizeof message, "Connection to %s blocked: %s", name.s, reason);
        same = same_text(why, "reason", reason, len, json_object_get(row, "reason")) &&
               same_text(why, "message", message, (size_t)n, json_object_get(row, "message"));
    } else {
        same = json_object_get(row, "error") != NULL;
        if (!same)
            buf_puts(why, "got an empty answer");
    }
    json_decref(kept);
    return same;
}

static const char *row_variable(void *ctx, const char *name)
{
    return json_string_value(json_object_get(ctx, name));
}

static bool same_route(const struct parent_proxy *got, const json_t *want, struct buf *why)
{
    if (got == NULL || !json_is_object(want)) {
        if (got == NULL && json_is_string(want))
            return true;
        buf_printf(why, "route: got %s", got != NULL ? got->host : "direct");
        return false;
    }
    const char *credential = got->authorization;
    return same_bool(why, "tls", got->tls, json_object_get(want, "tls")) &&
           same_text(why, "host", got->host, strlen(got->host), json_object_get(want, "host")) &&
           same_text(why, "authorization", credential, credential != NULL ? strlen(credential) : 0,
                     json_object_get(want, "authorization")) &&
           same_bool(why, "port", got->port == json_integer_value(json_object_get(want, "port")),
                     json_true());
}

static bool no_proxy(const json_t *row, struct buf *why)
{
    json_t *config = json_object_get(row, "config");
    struct route_sources sources = {
        .http = json_string_value(json_object_get(config, "http")),
        .https = json_string_value(json_object_get(config, "https")),
        .no_proxy = json_string_value(json_object_get(config, "noProxy")),
        .getenv = row_variable,
        .ctx = json_object_get(row, "env"),
    };
    struct span name = text_of(row, "host");
    struct buf warnings, error;
    struct host host;
    bool same = false;

    buf_init(&warnings, TEXT_MAX);
    buf_init(&error, TEXT_MAX);
    struct routes *routes = routes_new(&sources, &warnings, &error);
    if (routes == NULL)
        buf_printf(why, "error: %s", buf_cstr(&error));
    else if (host_canonicalise(name.s, name.n, &host) != HOST_OK)
        buf_puts(why, "the host has no canonical form");
    else
        same = same_route(
            routes_find(routes, &host, is_text(row, "scheme", "http") ? ROUTE_PLAIN : ROUTE_TUNNEL),
            json_object_get(row, "route"), why);
    routes_free(routes);
    buf_free(&warnings);
    buf_free(&error);
    return same;
}

static bool violation_text(const json_t *row, struct buf *why)
{
    static const struct {
        const char *column;
        void (*make)(struct buf *out, const char *s, size_t n);
    } columns[] = {{"line", text_clean},
                   {"reason", text_clean_reason},
                   {"key", text_clean_key},
                   {"phrase", text_phrase}};
    struct span text = text_of(row, "text");

    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        struct buf got;
        buf_init(&got, TEXT_MAX);
        columns[i].make(&got, text.s, text.n);
        if (!same_buf(why, columns[i].column, &got, json_object_get(row, columns[i].column)))
            return false;
    }
    return true;
}

static bool proxy_user_encode(const json_t *row, struct buf *why)
{
    struct span command = text_of(row, "command");
    struct buf encoded, user;

    buf_init(&encoded, TEXT_MAX);
    buf_init(&user, TEXT_MAX);
    attribution_encode(&encoded, &user, command.s, command.n);
    bool same = same_buf(why, "encoded", &encoded, json_object_get(row, "encoded"));
    return same_buf(why, "user", &user, json_object_get(row, "user")) && same;
}

static bool proxy_user_decode(const json_t *row, struct buf *why)
{
    struct span user = text_of(row, "user");
    size_t n;
    const char *encoded = attribution_encoded(user.s, user.n, &n);
    struct buf key;

    if (!same_text(why, "encoded", encoded, n, json_object_get(row, "encoded")))
        return false;
    if (encoded == NULL)
        return same_text(why, "key", NULL, 0, json_object_get(row, "key"));
    buf_init(&key, TEXT_MAX);
    attribution_decode(&key, encoded, n);
    return same_buf(why, "key", &key, json_object_get(row, "key"));
}

static bool proxy_user(const json_t *row, struct buf *why)
{
    bool encode = is_text(row, "op", "encode");
    return encode ? proxy_user_encode(row, why) : proxy_user_decode(row, why);
}

const struct vector_file vectors_policy[] = {
    {"host-canonical", host_canonical},
    {"domain-match", domain_match},
    {"pattern-valid", pattern_validity},
    {"inject-cover", inject_cover},
    {"address-guard", address_guard},
    {"no-proxy", no_proxy},
    {"violation-text", violation_text},
    {"proxy-user", proxy_user},
    {NULL, NULL},
};
