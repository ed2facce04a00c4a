#include "proxy/settings/snapshot.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/settings/load.h"
#include "proxy/settings/notes.h"
#include "proxy/settings/refusals.h"
#include "proxy/settings/schema.h"

static const char defaults[] = "{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[]},"
                               "\"filesystem\":{\"denyRead\":[],\"allowRead\":[],"
                               "\"allowWrite\":[],\"denyWrite\":[]}}";

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

static struct policy *build_policy(const json_t *network)
{
    struct policy *policy = policy_new();
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
    policy_set_strict(policy, json_is_true(json_object_get(network, "strictAllowlist")));
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

static void build_network(struct snapshot *s, const json_t *network)
{
    s->policy = build_policy(network);
    s->refuse_opaque_tunnels = json_is_true(json_object_get(network, "refuseOpaqueTunnels"));
    s->require_host_match = json_is_true(json_object_get(network, "requireHostMatch"));
    s->tls_terminate = json_object_get(network, "tlsTerminate") != NULL;
    s->strip_response_headers = copy_list(json_object_get(network, "stripResponseHeaders"));
    for (char **name = s->strip_response_headers; name != NULL && *name != NULL; name++)
        for (char *c = *name; *c != '\0'; c++)
            *c = (char)text_lower((unsigned char)*c);

    const json_t *domains = get(network, "mitmProxy", "domains");
    if (domains == NULL)
        return;
    s->mitm_socket = copy(get(network, "mitmProxy", "socketPath"));
    s->mitm_domains = pattern_list_new(PATTERN_PLAIN);
    for (size_t i = 0; i < json_array_size(domains); i++)
        pattern_list_add(s->mitm_domains, json_string_value(json_array_get(domains, i)));
    pattern_list_seal(s->mitm_domains);
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
    build_network(s, network);
    build_own(s, json_object_get(document, "proxy"));
    settings_notes(document, warnings);
    return s;
}

/* The default settings file. An empty HOME counts as none: the path must not become another. */
static void default_path(struct buf *path)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0') {
        const struct passwd *user = getpwuid(getuid());
        home = user != NULL && user->pw_dir != NULL ? user->pw_dir : "";
    }
    buf_printf(path, "%s/.srt-settings.json", home);
}

static bool is_valid(const char *path, const json_t *document, enum settings_use use,
                     struct buf *error)
{
    struct issues issues;
    bool valid = schema_validate(document, use, &issues);
    if (!valid)
        buf_printf(error, "Error: %s does not hold a valid config — ", path);
    for (size_t i = 0; i < issues.count; i++) {
        const struct issue *issue = &issues.list[i];
        buf_printf(error, "%s%s: %s", i != 0 ? "; " : "",
                   issue->path[0] != '\0' ? issue->path : "(root)", issue->message);
    }
    if (issues.dropped != 0)
        buf_printf(error, "; and %zu more", issues.dropped);
    issues_free(&issues);
    return valid;
}

static void append_error(struct buf *error, const struct buf *first, bool absent)
{
    settings_line(error, buf_chars(first), buf_len(first));
    buf_puts(error, absent ? "Refusing to run with the built-in defaults, which would drop the "
                             "rules --settings asked for.\n"
                           : "Refusing to run with the built-in defaults, which would drop this "
                             "file's rules (its denyRead, allowRead and credential entries "
                             "included).\n");
}

struct snapshot *snapshot_load(const char *path, enum settings_use use, bool environment,
                               struct buf *warnings, struct buf *error)
{
    struct snapshot *snapshot = NULL;
    struct buf home, line;
    json_t *document;
    bool explicit = path != NULL;
    buf_init(&home, 4096);
    buf_init(&line, SIZE_MAX / 2);
    if (!explicit) {
        default_path(&home);
        path = buf_cstr(&home);
    }

    enum load_result result = settings_read(path, &document, &line);
    if (result == LOAD_ABSENT && !explicit) {
        buf_clear(&line);
        document = settings_parse(defaults, sizeof defaults - 1, &line);
        result = LOAD_OK;
    }
    if (result != LOAD_OK || !is_valid(path, document, use, &line))
        append_error(error, &line, result == LOAD_ABSENT);
    else
        snapshot = snapshot_build(document, use, environment, warnings, error);

    json_decref(document);
    buf_free(&home);
    buf_free(&line);
    return snapshot;
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
    routes_free(s->routes);
    violation_filter_free(s->ignore_violations);
    pattern_list_free(s->mitm_domains);
    free_list(s->strip_response_headers);
    free_list(s->listen);
    free_list(s->dns_servers);
    free(s->mitm_socket);
    free(s->token_file);
    free(s->log_file);
    free(s);
}
