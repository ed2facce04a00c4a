#include "proxy/settings/notes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/host.h"
#include "proxy/policy/pattern.h"

void settings_line(struct buf *out, const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;

    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t bytes = text_utf8_decode(p + i, n - i, &code);
        bool good = bytes != 0 && !text_is_unsafe(code);
        bytes = bytes == 0 ? 1 : bytes;
        if (good)
            buf_append(out, p + i, bytes);
        for (size_t k = 0; k < bytes && !good; k++)
            buf_printf(out, "\\x%02x", p[i + k]);
        i += bytes;
    }
    buf_puts(out, "\n");
}

static void warn(struct buf *warnings, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct buf *warnings, const char *fmt, ...)
{
    struct buf line;
    va_list ap;
    buf_init(&line, SETTINGS_FILE_MAX);
    buf_puts(&line, "srt: warning: ");
    va_start(ap, fmt);
    buf_vprintf(&line, fmt, ap);
    va_end(ap);
    settings_line(warnings, buf_cstr(&line), buf_len(&line));
    buf_free(&line);
}

static void dead_entries(const json_t *list, enum pattern_kind kind, const char *path,
                         struct buf *warnings)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *text = json_string_value(entry);
        if (pattern_matches_nothing(kind, text, json_string_length(entry)))
            warn(warnings, "%s.%zu: entry \"%s\" can match no host", path, i, text);
    }
}

static void dead_inject_hosts(const json_t *credentials, const char *key, struct buf *warnings)
{
    const json_t *list = json_object_get(credentials, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct buf path;
        buf_init(&path, 100);
        buf_printf(&path, "credentials.%s.%zu.injectHosts", key, i);
        dead_entries(json_object_get(json_array_get(list, i), "injectHosts"), PATTERN_PLAIN,
                     buf_cstr(&path), warnings);
        buf_free(&path);
    }
}

static void dead_rules(const json_t *rules, struct buf *warnings)
{
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *host = json_object_get(json_array_get(rules, i), "host");
        const char *text = json_string_value(host);
        if (pattern_matches_nothing(PATTERN_DENIED, text, json_string_length(host)))
            warn(warnings, "network.rules.%zu.host: entry \"%s\" can match no host", i, text);
    }
}

/* Rules whose hosts can be reached past them, said once. */
static void passable_rules(const json_t *network, struct buf *warnings)
{
    const json_t *rules = json_object_get(network, "rules");
    if (json_array_size(rules) == 0 ||
        json_is_true(json_object_get(network, "refuseOpaqueTunnels")))
        return;
    if (json_object_get(network, "tlsTerminate") != NULL) {
        warn(warnings, "network.rules: SOCKS, tunnels that carry no TLS and hosts that are not "
                       "terminated pass by the rules, unless network.refuseOpaqueTunnels refuses "
                       "such tunnels");
        return;
    }
    struct buf host;
    buf_init(&host, SETTINGS_FILE_MAX);
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *pattern = json_object_get(json_array_get(rules, i), "host");
        buf_clear(&host);
        if (pattern_split(json_string_value(pattern), json_string_length(pattern), &host) != 0)
            continue;
        warn(warnings,
             "network.rules.%zu: rules judge plain HTTP requests only, since nothing opens tunnels "
             "(network.tlsTerminate) or refuses them (network.refuseOpaqueTunnels); what goes to "
             "\"%s\" through a tunnel, all HTTPS, is not judged",
             i, json_string_value(pattern));
        break;
    }
    buf_free(&host);
}

/* Requests that a decider is meant to see, and cannot. */
static void unseen_requests(const json_t *document, struct buf *warnings)
{
    const json_t *level = json_object_get(json_object_get(document, "decider"), "level");
    const json_t *network = json_object_get(document, "network");
    const json_t *proto = json_object_get(json_object_get(document, "decider"), "proto");
    if (level == NULL || strcmp(json_string_value(level), "connection") == 0 ||
        json_number_value(proto) == 1 || json_object_get(network, "tlsTerminate") != NULL ||
        json_is_true(json_object_get(network, "refuseOpaqueTunnels")))
        return;
    warn(warnings, "decider.level: only plain HTTP requests can be asked about, since nothing "
                   "opens tunnels (network.tlsTerminate) or refuses them "
                   "(network.refuseOpaqueTunnels)");
}

/* An entry as it matches: everything, what lies under a base, or one host. */
struct entry {
    enum { ENTRY_ANY, ENTRY_UNDER, ENTRY_HOST } kind;
    char *text; /* lower case, canonical where it is an address; from the dot on for UNDER */
    size_t len;
    unsigned port; /* 0: every port */
};

static struct entry *split_list(const json_t *list)
{
    struct entry *entries = mem_array(json_array_size(list), sizeof *entries);
    struct buf host;
    buf_init(&host, SETTINGS_FILE_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        struct entry *e = &entries[i];
        struct host canonical;
        buf_clear(&host);
        e->port = pattern_split(json_string_value(value), json_string_length(value), &host);
        const char *text = buf_cstr(&host);
        e->kind = strcmp(text, "*") == 0        ? ENTRY_ANY
                  : strncmp(text, "*.", 2) == 0 ? ENTRY_UNDER
                                                : ENTRY_HOST;
        if (e->kind == ENTRY_UNDER)
            text++;
        else if (host_canonicalise(text, strlen(text), &canonical) == HOST_OK)
            text = canonical.text;
        e->len = strlen(text);
        e->text = mem_dup_n(text, e->len);
        for (size_t c = 0; c < e->len; c++)
            e->text[c] = (char)text_lower((unsigned char)e->text[c]);
    }
    buf_free(&host);
    return entries;
}

static void free_entries(struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(entries[i].text);
    free(entries);
}

static bool ends_with(const struct entry *e, const struct entry *end)
{
    return e->len >= end->len && memcmp(e->text + e->len - end->len, end->text, end->len) == 0;
}

/* Everything that `allow` allows, `deny` denies. */
static bool shadows(const struct entry *deny, const struct entry *allow)
{
    struct address ignored;
    if (deny->port != 0 && deny->port != allow->port)
        return false;
    if (deny->kind == ENTRY_ANY)
        return true;
    if (deny->kind == ENTRY_UNDER)
        return ends_with(allow, deny) && !(allow->kind == ENTRY_HOST &&
                                           address_parse(allow->text, allow->len, false, &ignored));
    return allow->kind == ENTRY_HOST && allow->len == deny->len &&
           memcmp(allow->text, deny->text, deny->len) == 0;
}

static bool shadows_all(const struct entry *deny, const struct entry *allowed, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!shadows(deny, &allowed[i]))
            return false;
    return true;
}

static bool is_shadowed(const struct entry *allow, const struct entry *denied, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (shadows(&denied[i], allow))
            return true;
    return false;
}

static void shadowed_list(const json_t *network, struct buf *warnings)
{
    const json_t *allowed = json_object_get(network, "allowedDomains");
    const json_t *denied = json_object_get(network, "deniedDomains");
    size_t allow_count = json_array_size(allowed), deny_count = json_array_size(denied);
    struct entry *allow = split_list(allowed), *deny = split_list(denied);
    bool all = allow_count != 0 && deny_count != 0;

    for (size_t i = 0; i < allow_count && all; i++)
        all = is_shadowed(&allow[i], deny, deny_count);
    size_t first = 0;
    while (all && first < deny_count && !shadows_all(&deny[first], allow, allow_count))
        first++;
    if (all && first < deny_count)
        warn(warnings,
             "network.deniedDomains.%zu: entry \"%s\" shadows every entry of "
             "network.allowedDomains",
             first, json_string_value(json_array_get(denied, first)));
    else if (all)
        warn(warnings, "network.deniedDomains: its entries together shadow every entry of "
                       "network.allowedDomains");

    free_entries(allow, allow_count);
    free_entries(deny, deny_count);
}

void settings_notes(const json_t *document, struct buf *warnings)
{
    const json_t *network = json_object_get(document, "network");
    const json_t *credentials = json_object_get(document, "credentials");
    dead_entries(json_object_get(network, "allowedDomains"), PATTERN_ALLOWED,
                 "network.allowedDomains", warnings);
    dead_entries(json_object_get(network, "deniedDomains"), PATTERN_DENIED, "network.deniedDomains",
                 warnings);
    dead_entries(json_object_get(json_object_get(network, "mitmProxy"), "domains"), PATTERN_PLAIN,
                 "network.mitmProxy.domains", warnings);
    dead_entries(json_object_get(json_object_get(network, "tlsTerminate"), "excludeDomains"),
                 PATTERN_PLAIN, "network.tlsTerminate.excludeDomains", warnings);
    dead_inject_hosts(credentials, "files", warnings);
    dead_inject_hosts(credentials, "envVars", warnings);
    dead_rules(json_object_get(network, "rules"), warnings);
    passable_rules(network, warnings);
    unseen_requests(document, warnings);
    shadowed_list(network, warnings);
}
