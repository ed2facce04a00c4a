#include "proxy/settings/own_keys.h"

#include <string.h>
#include <sys/un.h>

#include "base/limits.h"
#include "proxy/policy/address.h"
#include "proxy/settings/decider.h"
#include "proxy/settings/rules.h"

static void check_text(struct validation *v, const json_t *value)
{
    if (json_has_nul(value))
        validation_issue(v, "String must not contain a NUL character");
}

/* Decimal digits alone, `least` to 65535. */
static bool port_valid(const char *s, unsigned least)
{
    unsigned value = 0;
    size_t n = strlen(s);
    if (n == 0 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    return value >= least && value <= 65535;
}

/* An IPv4 address, or an IPv6 address in brackets. */
static bool host_valid_for_port(const char *s, size_t n, bool zone)
{
    struct address ignored;
    if (n >= 2 && s[0] == '[' && s[n - 1] == ']')
        return memchr(s, ':', n) != NULL && address_parse(s + 1, n - 2, zone, &ignored);
    return memchr(s, ':', n) == NULL && address_parse(s, n, false, &ignored);
}

static bool listen_valid(const char *s)
{
    static const char scheme[] = "unix:";
    if (strncmp(s, scheme, sizeof scheme - 1) == 0) {
        size_t n = strlen(s) - (sizeof scheme - 1);
        return n != 0 && n < sizeof(((struct sockaddr_un *)0)->sun_path);
    }
    const char *colon = strrchr(s, ':');
    if (colon == NULL || colon == s || !port_valid(colon + 1, 0))
        return false;
    size_t n = (size_t)(colon - s);
    return (n == 9 && memcmp(s, "localhost", n) == 0) || host_valid_for_port(s, n, true);
}

static void check_listen(struct validation *v, const json_t *value)
{
    if (json_has_nul(value) || !listen_valid(json_string_value(value)))
        validation_issue(v, "Invalid listen address. Use ADDRESS:PORT, [IPV6]:PORT, "
                            "localhost:PORT or unix:PATH, e.g. \"127.0.0.1:3128\".");
}

static bool server_valid(const char *s)
{
    struct address ignored;
    if (address_parse(s, strlen(s), true, &ignored))
        return true;
    const char *colon = strrchr(s, ':');
    return colon != NULL && colon != s && port_valid(colon + 1, 1) &&
           host_valid_for_port(s, (size_t)(colon - s), true);
}

static void check_server(struct validation *v, const json_t *value)
{
    if (json_has_nul(value) || !server_valid(json_string_value(value)))
        validation_issue(v, "Invalid DNS server. Use ADDRESS, ADDRESS:PORT or [IPV6]:PORT, e.g. "
                            "\"192.0.2.53\" or \"[2001:db8::53]:5353\".");
}

static const struct option listen_item = {.type = OPTION_STRING, .check = check_listen};
static const struct option server_item = {.type = OPTION_STRING, .check = check_server};

static const struct option auth_options[] = {
    {.key = "tokenFile", .type = OPTION_STRING, .need = REQUIRED, .min = 1, .check = check_text},
    {.key = NULL},
};
static const struct shape auth_shape = {.options = auth_options, .strict = true};

static const struct option dns_options[] = {
    {.key = "servers", .type = OPTION_LIST, .min = 1, .item = &server_item},
    {.key = "hostsFile", .type = OPTION_BOOLEAN},
    {.key = NULL},
};
static const struct shape dns_shape = {.options = dns_options, .strict = true};

#define BOUNDED(field, name, value, minimum, maximum, why) \
    {.key = name, .type = OPTION_INTEGER, .min = (minimum), .max = (maximum)},
static const struct option limit_options[] = {LIMITS(BOUNDED){.key = NULL}};
static const struct option timeout_options[] = {TIMEOUTS(BOUNDED){.key = NULL}};
#undef BOUNDED
static const struct shape limit_shape = {.options = limit_options, .strict = true};
static const struct shape timeout_shape = {.options = timeout_options, .strict = true};

static const struct option proxy_options[] = {
    {.key = "listen", .type = OPTION_LIST, .item = &listen_item},
    {.key = "listenAnyInterface", .type = OPTION_BOOLEAN},
    {.key = "auth", .type = OPTION_OBJECT, .shape = &auth_shape},
    {.key = "log", .type = OPTION_STRING, .min = 1, .check = check_text},
    {.key = "dns", .type = OPTION_OBJECT, .shape = &dns_shape},
    {.key = "limits", .type = OPTION_OBJECT, .shape = &limit_shape},
    {.key = "timeouts", .type = OPTION_OBJECT, .shape = &timeout_shape},
    {.key = NULL},
};
static const struct shape proxy_shape = {.options = proxy_options, .strict = true};

static const struct option proxy_option = {
    .key = "proxy", .type = OPTION_OBJECT, .shape = &proxy_shape};

/* Keys this program gives a meaning to, by the object they are in. */
static const struct {
    const char *object; /* NULL: the document */
    const char *key;
    const struct option *option;
} own_keys[] = {
    {NULL, "proxy", &proxy_option},
    {NULL, "decider", &decider_option},
    {"network", "rules", &rules_option},
};

void own_keys_validate(struct validation *v, const json_t *document)
{
    for (size_t i = 0; i < sizeof own_keys / sizeof own_keys[0]; i++) {
        const char *outer = own_keys[i].object;
        const json_t *object = outer != NULL ? json_object_get(document, outer) : document;
        const json_t *value = json_object_get(object, own_keys[i].key);
        if (value == NULL)
            continue;
        size_t mark = buf_len(&v->path);
        if (outer != NULL)
            path_push(v, outer);
        path_push(v, own_keys[i].key);
        validate_value(v, own_keys[i].option, value);
        path_pop(v, mark);
    }
    rules_validate_tunnels(v, document);
}
