#include "proxy/policy/pattern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/name_table.h"

/* An entry taken apart (section 4.1). */
struct split {
    const char *host; /* as written: the whole entry when it could not be split */
    size_t len;
    unsigned port; /* 0: none */
    bool is_ipv6;  /* written as IPv6; a mapped address is held as IPv4 in `address` */
    struct address address;
};

static bool parse_port(const char *s, size_t n, unsigned *out)
{
    unsigned value = 0;
    if (n < 1 || n > 5 || s[0] == '0')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    *out = value;
    return value <= 65535;
}

/* An IPv6 address with whatever follows a "%" cut off. */
static bool parse_ipv6(const char *s, size_t n, struct address *out)
{
    const char *zone = n != 0 ? memchr(s, '%', n) : NULL;
    if (zone != NULL)
        n = (size_t)(zone - s);
    return n != 0 && memchr(s, ':', n) != NULL && address_parse(s, n, false, out);
}

static struct split split_bracketed(const char *s, size_t n)
{
    struct split whole = {.host = s, .len = n};
    struct split parts = {.host = s + 1, .is_ipv6 = true};
    const char *close = memchr(s, ']', n);

    if (close == NULL)
        return whole;
    parts.len = (size_t)(close - s) - 1;
    if (!parse_ipv6(parts.host, parts.len, &parts.address))
        return whole;
    size_t rest = n - parts.len - 2;
    if (rest != 0 && (close[1] != ':' || !parse_port(close + 2, rest - 1, &parts.port)))
        return whole;
    return parts;
}

static struct split split_entry(enum pattern_kind kind, const char *s, size_t n)
{
    struct split parts = {.host = s, .len = n};

    if (n == 0)
        return parts;
    if (kind != PATTERN_PLAIN && s[0] == '[')
        return split_bracketed(s, n);
    const char *colon = memchr(s, ':', n);
    if (colon == NULL)
        return parts;
    size_t before = (size_t)(colon - s), after = n - before - 1;
    if (memchr(colon + 1, ':', after) != NULL)
        parts.is_ipv6 = parse_ipv6(s, n, &parts.address);
    else if (kind != PATTERN_PLAIN && parse_port(colon + 1, after, &parts.port))
        parts.len = before;
    return parts;
}

static bool is_wildcard(const char *s, size_t n)
{
    return n >= 2 && s[0] == '*' && s[1] == '.';
}

static bool is_any(const char *s, size_t n)
{
    return n == 1 && s[0] == '*';
}

static bool is_localhost(const char *s, size_t n)
{
    static const char name[] = "localhost";
    return n == sizeof name - 1 && memcmp(s, name, n) == 0;
}

static bool has_empty_label(const char *s, size_t n)
{
    return n == 0 || s[0] == '.' || s[n - 1] == '.' || memmem(s, n, "..", 2) != NULL;
}

static bool has_dot(const char *s, size_t n)
{
    return n != 0 && memchr(s, '.', n) != NULL;
}

/* A name with or without a leading wildcard (section 4.2). */
static bool name_valid(const char *s, size_t n)
{
    if (n == 0 || memchr(s, '/', n) != NULL || memchr(s, ':', n) != NULL)
        return false;
    if (is_localhost(s, n))
        return true;
    if (is_wildcard(s, n))
        return has_dot(s + 2, n - 2) && !has_empty_label(s + 2, n - 2);
    return has_dot(s, n) && memchr(s, '*', n) == NULL && s[0] != '.' && s[n - 1] != '.';
}

bool pattern_valid(enum pattern_kind kind, const char *s, size_t n)
{
    struct split parts = split_entry(kind, s, n);
    struct address ignored;

    if (parts.is_ipv6 && kind == PATTERN_PLAIN)
        return address_parse(s, n, true, &ignored); /* here a zone must be one */
    if (parts.is_ipv6)
        return s[0] == '[';
    if (n != 0 && s[0] == '[' && (kind != PATTERN_PLAIN || s[n - 1] == ']'))
        return false;
    if (kind == PATTERN_DENIED && is_any(parts.host, parts.len))
        return true;
    return name_valid(parts.host, parts.len);
}

unsigned pattern_split(const char *s, size_t n, struct buf *host)
{
    struct split parts = split_entry(PATTERN_DENIED, s, n);
    char text[ADDRESS_TEXT_MAX];

    if (parts.is_ipv6)
        buf_append(host, text, address_format(&parts.address, text));
    else
        buf_append(host, parts.host, parts.len);
    return parts.port;
}

bool pattern_matches_nothing(enum pattern_kind kind, const char *s, size_t n)
{
    struct split parts = split_entry(kind, s, n);
    struct host host;
    char sample[HOST_MAX + 1] = "x"; /* the shortest name under a wildcard */

    if (parts.is_ipv6 || is_any(parts.host, parts.len))
        return false;
    if (parts.len > HOST_MAX || (parts.len != 0 && parts.host[0] == '['))
        return true;
    if (!is_wildcard(parts.host, parts.len))
        return host_canonicalise(parts.host, parts.len, &host) != HOST_OK;
    memcpy(sample + 1, parts.host + 1, parts.len - 1);
    return host_canonicalise(sample, parts.len, &host) != HOST_OK || host.is_address;
}

struct pattern_list {
    enum pattern_kind kind;
    char **entries; /* as the user wrote them, for reports */
    size_t count, room;
    struct name_table *names;
};

struct pattern_list *pattern_list_new(enum pattern_kind kind)
{
    struct pattern_list *list = mem_alloc(sizeof *list);
    list->kind = kind;
    list->names = name_table_new();
    return list;
}

void pattern_list_free(struct pattern_list *list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i]);
    free(list->entries);
    name_table_free(list->names);
    free(list);
}

/* What the text of an entry is compared as. */
struct target {
    enum name_kind kind;
    bool is_address;
    char *text; /* lower case, or a canonical address */
    size_t len;
};

static struct target target_of(const struct split *parts)
{
    struct target t = {.kind = NAME_EXACT};
    struct host host;

    if (parts->is_ipv6) {
        t.text = mem_alloc(ADDRESS_TEXT_MAX);
        t.len = address_format(&parts->address, t.text);
        t.is_address = true;
        return t;
    }
    /* Number forms of IPv4 become the address; brackets and a trailing dot stay what they are:
     * characters that keep an entry from matching. */
    if (parts->len != 0 && parts->host[0] != '[' && parts->host[parts->len - 1] != '.' &&
        host_canonicalise(parts->host, parts->len, &host) == HOST_OK && host.is_address) {
        t.text = mem_dup_n(host.text, host.len);
        t.len = host.len;
        t.is_address = true;
        return t;
    }
    size_t skip = 0;
    if (is_any(parts->host, parts->len)) {
        t.kind = NAME_ANY;
        skip = 1;
    } else if (is_wildcard(parts->host, parts->len)) {
        t.kind = NAME_UNDER;
        skip = 2;
    }
    t.len = parts->len - skip;
    t.text = mem_dup_n(parts->host + skip, t.len);
    for (size_t i = 0; i < t.len; i++)
        t.text[i] = (char)text_lower((unsigned char)t.text[i]);
    return t;
}

void pattern_list_add(struct pattern_list *list, const char *entry)
{
    size_t n = strlen(entry);
    struct split parts = split_entry(list->kind, entry, n);
    struct target t = target_of(&parts);

    if (list->count == list->room) {
        list->room = list->room != 0 ? 2 * list->room : 16;
        list->entries = mem_resize(list->entries, list->room, sizeof *list->entries);
    }
    name_table_add(list->names, t.kind, t.text, t.len, parts.port, list->count);
    if (parts.port != NAME_EVERY_PORT)
        name_table_add(list->names, t.kind, t.text, t.len, NAME_PORT_IGNORED, list->count);
    list->entries[list->count++] = mem_dup_n(entry, n);
    free(t.text);
}

void pattern_list_seal(struct pattern_list *list)
{
    name_table_seal(list->names);
}

size_t pattern_list_count(const struct pattern_list *list)
{
    return list->count;
}

const char *pattern_list_entry(const struct pattern_list *list, size_t index)
{
    assert(index < list->count);
    return list->entries[index];
}

/* The smallest index of the entries that match one host. */
static size_t find(const struct name_table *names, const char *text, size_t len, bool is_address,
                   uint32_t port)
{
    size_t best = name_table_find(names, NAME_ANY, "", 0, port);
    size_t found = name_table_find(names, NAME_EXACT, text, len, port);

    best = found < best ? found : best;
    if (!is_address) {
        found = name_table_find_under(names, text, len, port);
        best = found < best ? found : best;
    }
    return best;
}

long pattern_list_match(const struct pattern_list *list, const struct host *host, uint16_t port)
{
    size_t found = find(list->names, host->text, host->len, host->is_address, port);
    return found != NAME_NONE ? (long)found : -1;
}

bool pattern_list_covers(const struct pattern_list *list, const char *inject, size_t n)
{
    struct split parts = split_entry(PATTERN_PLAIN, inject, n);
    struct target t = target_of(&parts);
    bool covered = false;

    if (t.kind == NAME_EXACT)
        covered = find(list->names, t.text, t.len, t.is_address, NAME_PORT_IGNORED) != NAME_NONE;
    else if (t.kind == NAME_UNDER)
        covered = name_table_find(list->names, NAME_UNDER, t.text, t.len, NAME_PORT_IGNORED) !=
                      NAME_NONE ||
                  name_table_find_under(list->names, t.text, t.len, NAME_PORT_IGNORED) != NAME_NONE;
    else
        covered = name_table_find(list->names, NAME_ANY, "", 0, NAME_PORT_IGNORED) != NAME_NONE;
    free(t.text);
    return covered;
}

bool pattern_list_has_address(const struct pattern_list *list, const struct address *a,
                              uint16_t port)
{
    char text[ADDRESS_TEXT_MAX];
    size_t len = address_format(a, text);
    return name_table_find(list->names, NAME_EXACT, text, len, port) != NAME_NONE;
}
