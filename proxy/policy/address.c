#include "proxy/policy/address.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum {
    GROUPS = 8, /* of 16 bits in an IPv6 address */
    NO_GAP = GROUPS + 1
};

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

static int hex_value(char c)
{
    unsigned char lower = text_lower((unsigned char)c);
    if (lower >= '0' && lower <= '9')
        return lower - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool parse_ipv4(const char *s, size_t n, uint8_t out[4])
{
    size_t i = 0;
    for (int part = 0; part < 4; part++) {
        if (part != 0 && (i >= n || s[i++] != '.'))
            return false;
        size_t start = i;
        unsigned value = 0;
        while (i < n && i - start < 3 && s[i] >= '0' && s[i] <= '9')
            value = value * 10 + (unsigned)(s[i++] - '0');
        if (i == start || value > 255 || (i - start > 1 && s[start] == '0'))
            return false;
        out[part] = (uint8_t)value;
    }
    return i == n;
}

static void put_groups(const uint16_t *groups, size_t count, size_t gap, uint8_t out[16])
{
    size_t zeros = GROUPS - count;
    for (size_t i = 0; i < count; i++) {
        size_t at = i < gap ? i : i + zeros;
        out[2 * at] = (uint8_t)(groups[i] >> 8);
        out[2 * at + 1] = (uint8_t)(groups[i] & 0xFF);
    }
}

static bool parse_ipv6(const char *s, size_t n, uint8_t out[16])
{
    uint16_t groups[GROUPS] = {0};
    size_t count = 0, gap = NO_GAP, i = 0;

    memset(out, 0, 16);
    if (n >= 2 && s[0] == ':' && s[1] == ':') {
        gap = 0;
        i = 2;
    }
    while (i < n) {
        size_t start = i;
        unsigned value = 0;
        if (count == GROUPS)
            return false;
        while (i < n && i - start < 4 && hex_value(s[i]) >= 0)
            value = value << 4 | (unsigned)hex_value(s[i++]);
        if (i < n && s[i] == '.') {
            uint8_t tail[4];
            if (count > GROUPS - 2 || !parse_ipv4(s + start, n - start, tail))
                return false;
            groups[count++] = (uint16_t)(tail[0] << 8 | tail[1]);
            groups[count++] = (uint16_t)(tail[2] << 8 | tail[3]);
            break;
        }
        if (i == start)
            return false;
        groups[count++] = (uint16_t)value;
        if (i == n)
            break;
        if (s[i++] != ':' || i == n)
            return false;
        if (s[i] == ':') {
            if (gap != NO_GAP)
                return false;
            gap = count;
            i++;
        }
    }
    if (gap == NO_GAP ? count != GROUPS : count == GROUPS)
        return false;
    put_groups(groups, count, gap, out);
    return true;
}

/* Bytes of an IPv6 address as a struct address, folded when it is a mapped one. */
static void set_ipv6(struct address *a, const uint8_t bytes[16])
{
    *a = (struct address){.family = 6};
    if (memcmp(bytes, mapped_prefix, sizeof mapped_prefix) == 0) {
        a->family = 4;
        memcpy(a->bytes, bytes + 12, 4);
    } else {
        memcpy(a->bytes, bytes, 16);
    }
}

static bool zone_valid(const char *s, size_t n)
{
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = text_lower((unsigned char)s[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '-' &&
            c != '_' && c != ':')
            return false;
    }
    return true;
}

/* The index a zone stands for: its number, or the interface of that name; 0 when neither. */
static uint32_t zone_index(const char *s, size_t n)
{
    char name[IF_NAMESIZE] = {0};
    uint64_t number = 0;
    size_t digits = 0;

    while (digits < n && s[digits] >= '0' && s[digits] <= '9' && number <= UINT32_MAX)
        number = number * 10 + (unsigned)(s[digits++] - '0');
    if (digits == n && number <= UINT32_MAX)
        return (uint32_t)number;
    if (n >= sizeof name)
        return 0;
    memcpy(name, s, n);
    return if_nametoindex(name);
}

/* The address before a zone; *zone is its length with the "%" or 0. */
static bool parse_with_zone(const char *s, size_t n, uint8_t bytes[16], size_t *zone)
{
    const char *percent = memchr(s, '%', n);
    size_t len = percent != NULL ? (size_t)(percent - s) : n;

    *zone = n - len;
    if (percent != NULL && !zone_valid(percent + 1, *zone - 1))
        return false;
    return parse_ipv6(s, len, bytes);
}

bool address_parse(const char *s, size_t n, bool allow_zone, struct address *out)
{
    uint8_t bytes[16];
    size_t zone = 0;

    *out = (struct address){0};
    if (parse_ipv4(s, n, bytes)) {
        out->family = 4;
        memcpy(out->bytes, bytes, 4);
        return true;
    }
    if (n == 0 || !parse_with_zone(s, n, bytes, &zone) || (zone != 0 && !allow_zone))
        return false;
    set_ipv6(out, bytes);
    if (zone != 0 && out->family == 6)
        out->scope = zone_index(s + n - zone + 1, zone - 1);
    return true;
}

/* The first longest run of two or more zero groups; *length is 0 when there is none. */
static size_t longest_zero_run(const uint16_t groups[GROUPS], size_t *length)
{
    size_t best = 0;
    *length = 0;
    for (size_t i = 0; i < GROUPS;) {
        size_t run = 0;
        while (i + run < GROUPS && groups[i + run] == 0)
            run++;
        if (run >= 2 && run > *length) {
            best = i;
            *length = run;
        }
        i += run + 1;
    }
    return best;
}

size_t address_format(const struct address *a, char out[ADDRESS_TEXT_MAX])
{
    const uint8_t *b = a->bytes;
    uint16_t groups[GROUPS];
    size_t run, len = 0;

    if (a->family == 4)
        return (size_t)snprintf(out, ADDRESS_TEXT_MAX, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
    for (size_t i = 0; i < GROUPS; i++)
        groups[i] = (uint16_t)(b[2 * i] << 8 | b[2 * i + 1]);
    size_t start = longest_zero_run(groups, &run);
    for (size_t i = 0; i < GROUPS; i++) {
        if (run != 0 && i == start) {
            out[len++] = ':';
            out[len++] = ':';
            i += run - 1;
            continue;
        }
        if (i != 0 && out[len - 1] != ':')
            out[len++] = ':';
        len += (size_t)snprintf(out + len, ADDRESS_TEXT_MAX - len, "%x", groups[i]);
    }
    out[len] = 0;
    return len;
}

int address_compare(const struct address *a, const struct address *b)
{
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

bool address_equal(const struct address *a, const struct address *b)
{
    return address_compare(a, b) == 0;
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (a->family == 4) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in.sin_addr, a->bytes, 4);
        memcpy(out, &in, sizeof in);
        return sizeof in;
    }
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = a->scope};
    memcpy(&in6.sin6_addr, a->bytes, 16);
    memcpy(out, &in6, sizeof in6);
    return sizeof in6;
}

bool address_from_sockaddr(const struct sockaddr *sa, struct address *out, uint16_t *port)
{
    *out = (struct address){0};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        out->family = 4;
        memcpy(out->bytes, &in.sin_addr, 4);
        if (port != NULL)
            *port = ntohs(in.sin_port);
        return true;
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof in6);
        set_ipv6(out, in6.sin6_addr.s6_addr);
        out->scope = out->family == 6 ? in6.sin6_scope_id : 0;
        if (port != NULL)
            *port = ntohs(in6.sin6_port);
        return true;
    }
    return false;
}

bool address_carried(const struct address *a, struct address *out)
{
    /* Where the IPv4 bytes are: the well-known prefixes of RFC 4291, 2765, 6052 and 3056. */
    static const struct {
        uint8_t prefix[12];
        uint8_t length, at;
    } carriers[] = {
        {{0}, 12, 12},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}, 12, 12},
        {{0x00, 0x64, 0xFF, 0x9B}, 12, 12},
        {{0x20, 0x02}, 2, 2},
    };

    *out = (struct address){.family = 4};
    if (a->family != 6)
        return false;
    for (size_t i = 0; i < sizeof carriers / sizeof carriers[0]; i++) {
        if (memcmp(a->bytes, carriers[i].prefix, carriers[i].length) == 0) {
            memcpy(out->bytes, a->bytes + carriers[i].at, 4);
            return true;
        }
    }
    return false;
}

/* 1 to 3 digits, at most 128. */
static bool parse_prefix(const char *s, size_t n, unsigned *out)
{
    unsigned value = 0;
    if (n < 1 || n > 3)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    *out = value;
    return value <= 128;
}

bool address_range_parse(const char *s, size_t n, struct address_range *out)
{
    const char *slash = n != 0 ? memchr(s, '/', n) : NULL;
    size_t whole = slash != NULL ? (size_t)(slash - s) : n;
    const char *percent = whole != 0 ? memchr(s, '%', whole) : NULL;
    size_t len = percent != NULL ? (size_t)(percent - s) : whole; /* whatever the zone */
    uint8_t bytes[16];
    unsigned prefix = 128;

    *out = (struct address_range){0};
    if (slash != NULL && !parse_prefix(slash + 1, n - whole - 1, &prefix))
        return false;
    if (parse_ipv4(s, len, bytes)) {
        if (slash != NULL && prefix > 32)
            return false;
        out->first.family = 4;
        memcpy(out->first.bytes, bytes, 4);
    } else {
        if (len == 0 || !parse_ipv6(s, len, bytes))
            return false;
        set_ipv6(&out->first, bytes);
        if (out->first.family == 4) {
            if (prefix < 96)
                return false;
            prefix -= 96;
        }
    }
    out->last = out->first;
    unsigned bits = out->first.family == 4 ? 32 : 128;
    for (unsigned bit = prefix; bit < bits; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        out->first.bytes[bit / 8] &= (uint8_t)~mask;
        out->last.bytes[bit / 8] |= mask;
    }
    return true;
}
