#include "proxy/policy/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/name_table.h"
#include "proxy/policy/proxy_url.h"

struct routes {
    struct parent_proxy http, https; /* host NULL: none */

    /* What is dialled directly. */
    bool everything;
    struct address_set *addresses;
    struct name_table *names; /* each for itself and for what is under it */
    size_t name_count;
};

/* A value and where it was found. */
struct sourced {
    const char *value; /* NULL: not set anywhere */
    const char *name;
    bool environment;
};

/* The first that is set, an empty one too: the settings' value, else either environment variable.
 */
static struct sourced first_set(const struct route_sources *sources, const char *setting,
                                const char *setting_name, const char *upper, const char *lower)
{
    const char *const names[] = {upper, lower};

    if (setting != NULL)
        return (struct sourced){setting, setting_name, false};
    for (size_t i = 0; i < 2 && sources->getenv != NULL; i++) {
        const char *value = sources->getenv(sources->ctx, names[i]);
        if (value != NULL)
            return (struct sourced){value, names[i], true};
    }
    return (struct sourced){NULL, setting_name, false};
}

/* False when the settings name a proxy that cannot be used; one of the environment only warns. */
static bool set_parent(struct parent_proxy *parent, const struct sourced *from,
                       struct buf *warnings, struct buf *error)
{
    if (from->value == NULL || from->value[0] == 0 || proxy_url_parse(from->value, parent))
        return true;
    if (from->environment)
        buf_puts(warnings, "srt: warning: ");
    struct buf *to = from->environment ? warnings : error;
    buf_printf(to, "%s \"", from->name);
    proxy_url_redact(to, from->value);
    buf_puts(to, "\" is not a usable http:// or https:// proxy");
    if (from->environment)
        buf_puts(to, ", ignored\n");
    return from->environment;
}

static void trim(const char **s, size_t *n)
{
    while (*n != 0 && (unsigned char)(*s)[*n - 1] <= 0x20)
        --*n;
    while (*n != 0 && (unsigned char)(*s)[0] <= 0x20) {
        ++*s;
        --*n;
    }
}

/* Length without a final ":<digits>". */
static size_t without_port(const char *s, size_t n)
{
    size_t digits = n;
    while (digits != 0 && s[digits - 1] >= '0' && s[digits - 1] <= '9')
        digits--;
    return digits != n && digits != 0 && s[digits - 1] == ':' ? digits - 1 : n;
}

static size_t without_trailing_dot(const char *s, size_t n)
{
    return n != 0 && s[n - 1] == '.' ? n - 1 : n;
}

static void add_name(struct routes *r, const char *s, size_t n)
{
    char name[HOST_MAX];

    if (n != 0 && s[0] == '.') {
        s++;
        n--;
    }
    if (n == 0 || n > sizeof name) /* no host is that long */
        return;
    for (size_t i = 0; i < n; i++)
        name[i] = (char)text_lower((unsigned char)s[i]);
    name_table_add(r->names, NAME_EXACT, name, n, NAME_EVERY_PORT, r->name_count);
    name_table_add(r->names, NAME_UNDER, name, n, NAME_EVERY_PORT, r->name_count++);
}

/* One entry of NO_PROXY, trimmed (section 7.3). */
static void add_direct(struct routes *r, const char *s, size_t n)
{
    struct address_range range;

    if (n == 1 && s[0] == '*') {
        r->everything = true;
        return;
    }
    if (memchr(s, '/', n) != NULL) {
        if (address_range_parse(s, n, &range))
            address_set_add(r->addresses, &range);
        return;
    }
    size_t bare = without_port(s, n);
    if (n > 2 && s[0] == '[' && (s[n - 1] == ']' || s[bare - 1] == ']')) {
        n = (s[n - 1] == ']' ? n : bare) - 2;
        s++;
    }
    if (n >= 2 && s[0] == '*' && s[1] == '.') {
        s++;
        n--;
    }
    n = without_trailing_dot(s, n);
    if (address_range_parse(s, n, &range)) {
        address_set_add(r->addresses, &range);
        return;
    }
    n = without_trailing_dot(s, without_port(s, n));
    add_name(r, s, n);
}

static void add_no_proxy(struct routes *r, const char *list)
{
    for (;;) {
        size_t n = strcspn(list, ",");
        const char *entry = list;
        size_t len = n;
        trim(&entry, &len);
        if (len != 0)
            add_direct(r, entry, len);
        if (list[n] == 0)
            return;
        list += n + 1;
    }
}

static void build_direct(struct routes *r, const char *no_proxy)
{
    static const char *const loopback[] = {"127.0.0.0/8", "::1"};

    r->addresses = address_set_new();
    r->names = name_table_new();
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++)
        add_direct(r, loopback[i], strlen(loopback[i]));
    if (no_proxy != NULL)
        add_no_proxy(r, no_proxy);
    address_set_seal(r->addresses);
    name_table_seal(r->names);
}

struct routes *routes_new(const struct route_sources *sources, struct buf *warnings,
                          struct buf *error)
{
    struct sourced http =
        first_set(sources, sources->http, "network.parentProxy.http", "HTTP_PROXY", "http_proxy");
    struct sourced https = first_set(sources, sources->https, "network.parentProxy.https",
                                     "HTTPS_PROXY", "https_proxy");
    struct sourced no_proxy = first_set(sources, sources->no_proxy, "network.parentProxy.noProxy",
                                        "NO_PROXY", "no_proxy");
    struct routes *r = mem_alloc(sizeof *r);

    build_direct(r, no_proxy.value);
    if (set_parent(&r->http, &http, warnings, error) &&
        set_parent(&r->https, &https, warnings, error))
        return r;
    routes_free(r);
    return NULL;
}

void routes_free(struct routes *r)
{
    if (r == NULL)
        return;
    proxy_url_clear(&r->http);
    proxy_url_clear(&r->https);
    address_set_free(r->addresses);
    name_table_free(r->names);
    free(r);
}

static bool is_direct(const struct routes *r, const struct host *host)
{
    if (r->everything || host_is_localhost(host))
        return true;
    if (name_table_find(r->names, NAME_EXACT, host->text, host->len, NAME_EVERY_PORT) != NAME_NONE)
        return true;
    if (host->is_address)
        return address_set_has(r->addresses, &host->address);
    return name_table_find_under(r->names, host->text, host->len, NAME_EVERY_PORT) != NAME_NONE;
}

const struct parent_proxy *routes_parent(const struct routes *r, enum route_kind kind)
{
    if (r == NULL)
        return NULL;
    const struct parent_proxy *parent =
        kind == ROUTE_TUNNEL && r->https.host != NULL ? &r->https : &r->http;
    return parent->host != NULL ? parent : NULL;
}

const struct parent_proxy *routes_find(const struct routes *r, const struct host *host,
                                       enum route_kind kind)
{
    const struct parent_proxy *parent = routes_parent(r, kind);
    return parent == NULL || is_direct(r, host) ? NULL : parent;
}
