#include "proxy/settings/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/settings/decider.h"
#include "proxy/settings/load.h"
#include "proxy/settings/notes.h"
#include "proxy/settings/refusals.h"
#include "proxy/settings/rules.h"

/* A member of a member; NULL anywhere gives NULL. */
static const json_t *get(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

/* A copy, NULL for an absent value. A NUL becomes U+0001, which matches, names and opens as little,
 * so that a C string never stands for less than the whole. */
static char *copy(const json_t *string)
{
    if (string == NULL)
        return NULL;
    size_t n = json_string_length(string);
    char *s = mem_dup_n(json_string_value(string), n);
    for (size_t i = 0; i < n; i++)
        if (s[i] == '\0')
            s[i] = '\1';
    return s;
}

/* NULL-terminated; NULL for an absent or empty list. */
static char **copy_list(const json_t *list)
{
    size_t n = json_array_size(list);
    if (n == 0)
        return NULL;
    char **copies = mem_array(n + 1, sizeof *copies);
    for (size_t i = 0; i < n; i++)
        copies[i] = copy(json_array_get(list, i));
    return copies;
}

static void free_list(char **list)
{
    for (char **s = list; s != NULL && *s != NULL; s++)
        free(*s);
    free(list);
}

/* Names and addresses of a decider's hello, behind those of the settings. */
static void add_decider_lists(struct policy *policy, const struct decider_lists *lists, bool strict)
{
    policy_begin_decider(policy);
    for (size_t i = 0; i < lists->allowed_count && !strict; i++)
        policy_allow(policy, lists->allowed[i]);
    for (size_t i = 0; i < lists->denied_count; i++)
        policy_deny(policy, lists->denied[i], NULL);
}

/* Private networks, which names may not lead to once a decider decides everything. */
static void deny_private_ranges(struct policy *policy)
{
    static const char *const ranges[] = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
                                         "100.64.0.0/10", "fc00::/7"};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct address_range range;
        if (address_range_parse(ranges[i], strlen(ranges[i]), &range))
            policy_deny_range(policy, &range);
    }
}

static struct policy *build_policy(const json_t *network, const struct decider_lists *lists)
{
    struct policy *policy = policy_new();
    bool strict = json_is_true(json_object_get(network, "strictAllowlist"));
    const json_t *list = json_object_get(network, "allowedDomains");
    for (size_t i = 0; i < json_array_size(list); i++)
        policy_allow(policy, json_string_value(json_array_get(list, i)));

    list = json_object_get(network, "deniedDomains");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *entry = json_string_value(json_array_get(list, i));
        char *reason = copy(get(network, "deniedDomainReasons", entry));
        policy_deny(policy, entry, reason);
        free(reason);
    }

    list = json_object_get(network, "deniedResolvedAddresses");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        struct address_range range;
        if (address_range_parse(json_string_value(text), json_string_length(text), &range))
            policy_deny_range(policy, &range);
    }
    if (lists != NULL)
        add_decider_lists(policy, lists, strict);
    if (lists != NULL && lists->proxy_only)
        deny_private_ranges(policy);
    policy_set_strict(policy, strict);
    policy_seal(policy);
    return policy;
}

static struct violation_filter *build_filter(const json_t *map)
{
    if (json_object_size(map) == 0)
        return NULL;
    struct violation_filter *filter = violation_filter_new();
    const char *command;
    json_t *texts;
    json_object_foreach((json_t *)map, command, texts)
    {
        for (size_t i = 0; i < json_array_size(texts); i++) {
            char *text = copy(json_array_get(texts, i));
            violation_filter_add(filter, command, text);
            free(text);
        }
    }
    return filter;
}

static void build_limits(struct limits *limits, const json_t *proxy)
{
    const json_t *value;
    *limits = limits_default;
#define TAKE_FROM(object, field, name)              \
    if ((value = get(proxy, object, name)) != NULL) \
        limits->field = (uint32_t)json_number_value(value);
#define TAKE_TIMEOUT(field, name, value, minimum, maximum, why) TAKE_FROM("timeouts", field, name)
#define TAKE_LIMIT(field, name, value, minimum, maximum, why) TAKE_FROM("limits", field, name)
    TIMEOUTS(TAKE_TIMEOUT)
    LIMITS(TAKE_LIMIT)
#undef TAKE_LIMIT
#undef TAKE_TIMEOUT
#undef TAKE_FROM
}

/* NULL for an absent list. */
static struct pattern_list *build_hosts(const json_t *list)
{
    if (list == NULL)
        return NULL;
    struct pattern_list *hosts = pattern_list_new(PATTERN_PLAIN);
    for (size_t i = 0; i < json_array_size(list); i++)
        pattern_list_add(hosts, json_string_value(json_array_get(list, i)));
    pattern_list_seal(hosts);
    return hosts;
}

static uint32_t number_or(const json_t *value, uint32_t otherwise)
{
    return value != NULL ? (uint32_t)json_number_value(value) : otherwise;
}

static void build_tls(struct snapshot *s, const json_t *tls)
{
    enum { MAX_TUNNELS = 256, HANDSHAKE_MS = 10000 };
    s->tls_terminate = tls != NULL;
    s->tls_exclude = build_hosts(json_object_get(tls, "excludeDomains"));
    s->tls_only = build_hosts(json_object_get(tls, "onlyHosts"));
    s->tls_max_tunnels = number_or(json_object_get(tls, "maxTunnels"), MAX_TUNNELS);
    s->tls_handshake_ms = number_or(json_object_get(tls, "handshakeTimeoutMs"), HANDSHAKE_MS);
    s->tls_ca_certificate = copy(json_object_get(tls, "caCertPath"));
    s->tls_ca_key = copy(json_object_get(tls, "caKeyPath"));
    s->tls_extra = copy_list(json_object_get(tls, "extraCaCertPaths"));
}

static void fold_name(char *name)
{
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' || *c == '.' ? '-' : (char)text_lower((unsigned char)*c);
}

/* As enum target_mode of proxy/http/target.h counts them. */
static uint8_t ambiguous_target(const json_t *mode)
{
    static const char *const modes[] = {"refuse", "asSpelled", "normalize"};
    uint8_t found = 0;
    for (uint8_t i = 0; mode != NULL && i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(json_string_value(mode), modes[i]) == 0)
            found = i;
    return found;
}

static void build_network(struct snapshot *s, const json_t *network,
                          const struct decider_lists *lists)
{
    s->policy = build_policy(network, lists);
    s->proxy_only = lists != NULL && lists->proxy_only;
    s->allow_plaintext_header_set =
        json_is_true(json_object_get(network, "allowPlaintextHeaderSet"));
    s->ambiguous_target = ambiguous_target(json_object_get(network, "ambiguousRequestTarget"));
    s->request_rules = rules_build(json_object_get(network, "rules"));
    s->refuse_opaque_tunnels = json_is_true(json_object_get(network, "refuseOpaqueTunnels"));
    s->require_host_match = json_is_true(json_object_get(network, "requireHostMatch"));
    build_tls(s, json_object_get(network, "tlsTerminate"));
    s->strip_response_headers = copy_list(json_object_get(network, "stripResponseHeaders"));
    for (char **name = s->strip_response_headers; name != NULL && *name != NULL; name++)
        fold_name(*name);

    const json_t *domains = get(network, "mitmProxy", "domains");
    if (domains == NULL)
        return;
    s->mitm_socket = copy(get(network, "mitmProxy", "socketPath"));
    s->mitm_domains = build_hosts(domains);
}

static void build_own(struct snapshot *s, const json_t *proxy)
{
    build_limits(&s->limits, proxy);
    s->listen = copy_list(json_object_get(proxy, "listen"));
    s->listen_any_interface = json_is_true(json_object_get(proxy, "listenAnyInterface"));
    s->token_file = copy(get(proxy, "auth", "tokenFile"));
    s->log_file = copy(json_object_get(proxy, "log"));
    s->dns_servers = copy_list(get(proxy, "dns", "servers"));
    s->dns_hosts = !json_is_false(get(proxy, "dns", "hostsFile"));
}

static const char *from_environment(void *ctx, const char *name)
{
    (void)ctx;
    return getenv(name);
}

static struct routes *build_routes(const json_t *network, bool environment, struct buf *warnings,
                                   struct buf *error)
{
    struct buf why;
    buf_init(&why, SETTINGS_FILE_MAX);
    char *http = copy(get(network, "parentProxy", "http"));
    char *https = copy(get(network, "parentProxy", "https"));
    char *no_proxy = copy(get(network, "parentProxy", "noProxy"));
    const struct route_sources sources = {.http = http,
                                          .https = https,
                                          .no_proxy = no_proxy,
                                          .getenv = environment ? from_environment : NULL};
    struct routes *routes = routes_new(&sources, warnings, &why);
    if (routes == NULL) {
        buf_puts(error, "Error: ");
        settings_line(error, buf_cstr(&why), buf_len(&why));
    }
    free(http);
    free(https);
    free(no_proxy);
    buf_wipe(&why);
    return routes;
}

struct snapshot *snapshot_build(const json_t *document, enum settings_use use, bool environment,
                                struct buf *warnings, struct buf *error)
{
    return snapshot_build_with(document, use, environment, NULL, warnings, error);
}

struct snapshot *snapshot_build_with(const json_t *document, enum settings_use use,
                                     bool environment, const struct decider_lists *lists,
                                     struct buf *warnings, struct buf *error)
{
    const json_t *network = json_object_get(document, "network");
    if (settings_refused(document, use, error))
        return NULL;
    struct routes *routes = build_routes(network, environment, warnings, error);
    if (routes == NULL)
        return NULL;

    struct snapshot *s = mem_alloc(sizeof *s);
    s->refs = 1;
    s->routes = routes;
    s->ignore_violations = build_filter(json_object_get(document, "ignoreViolations"));
    s->mask_credentials = settings_mask(document);
    build_network(s, network, lists);
    decider_build(s, json_object_get(document, "decider"));
    build_own(s, json_object_get(document, "proxy"));
    settings_notes(document, warnings);
    return s;
}

struct snapshot *snapshot_load(const char *path, enum settings_use use, bool environment,
                               struct buf *warnings, struct buf *error)
{
    json_t *document = settings_load(path, use, error);
    if (document == NULL)
        return NULL;
    struct snapshot *snapshot = snapshot_build(document, use, environment, warnings, error);
    json_decref(document);
    return snapshot;
}

/* What the fields hold that are fixed once requests are served. */
static void free_fixed(struct snapshot *s)
{
    routes_free(s->routes);
    free_list(s->strip_response_headers);
    free_list(s->listen);
    free_list(s->dns_servers);
    free_list(s->tls_extra);
    free(s->tls_ca_certificate);
    free(s->tls_ca_key);
    free(s->decider_exec);
    free(s->decider_unix);
    placements_free(s->placements);
    free(s->token_file);
    free(s->log_file);
}

void snapshot_keep_fixed(struct snapshot *s, struct snapshot *present)
{
    struct snapshot *first = present->first != NULL ? present->first : present;
    free_fixed(s);
    s->first = snapshot_ref(first);
    s->limits = first->limits;
    s->routes = first->routes;
    s->refuse_opaque_tunnels = first->refuse_opaque_tunnels;
    s->require_host_match = first->require_host_match;
    s->allow_plaintext_header_set = first->allow_plaintext_header_set;
    s->ambiguous_target = first->ambiguous_target;
    s->proxy_only = first->proxy_only;
    s->strip_response_headers = first->strip_response_headers;
    s->tls_terminate = first->tls_terminate;
    s->tls_ca_certificate = first->tls_ca_certificate;
    s->tls_ca_key = first->tls_ca_key;
    s->tls_extra = first->tls_extra;
    s->decider_exec = first->decider_exec;
    s->decider_unix = first->decider_unix;
    s->decider_proto = first->decider_proto;
    s->decider_level = first->decider_level;
    s->decider_timeout_ms = first->decider_timeout_ms;
    s->placements = first->placements;
    s->mask_credentials = first->mask_credentials;
    s->listen = first->listen;
    s->listen_any_interface = first->listen_any_interface;
    s->token_file = first->token_file;
    s->log_file = first->log_file;
    s->dns_servers = first->dns_servers;
    s->dns_hosts = first->dns_hosts;
}

void snapshot_strip_headers(struct snapshot *s, const char *const *names, size_t count)
{
    size_t present = 0;
    while (s->strip_response_headers != NULL && s->strip_response_headers[present] != NULL)
        present++;
    if (count == 0)
        return;
    char **list = mem_resize(s->strip_response_headers, present + count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        list[present + i] = mem_dup(names[i]);
        fold_name(list[present + i]);
    }
    list[present + count] = NULL;
    s->strip_response_headers = list;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
    s->refs++;
    return s;
}

void snapshot_unref(struct snapshot *s)
{
    if (s == NULL || --s->refs != 0)
        return;
    policy_free(s->policy);
    request_rules_free(s->request_rules);
    violation_filter_free(s->ignore_violations);
    pattern_list_free(s->mitm_domains);
    pattern_list_free(s->tls_exclude);
    pattern_list_free(s->tls_only);
    free(s->mitm_socket);
    if (s->first != NULL)
        snapshot_unref(s->first);
    else
        free_fixed(s);
    free(s);
}
