#include "proxy/http/field.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum {
    VISIBLE = BYTE_TARGET | BYTE_TEXT | BYTE_VISIBLE,
    TOKEN = BYTE_TOKEN | VISIBLE,
    NO_AUTHORITY = BYTE_NO_AUTHORITY | VISIBLE,
    TOKEN_NO_AUTHORITY = BYTE_TOKEN | NO_AUTHORITY
};

const uint8_t http_bytes[256] = {
    ['\t'] = BYTE_TEXT,
    [' '] = BYTE_TEXT,
    ['!'] = TOKEN,
    ['"'] = NO_AUTHORITY,
    ['#' ... '\''] = TOKEN,
    ['('] = VISIBLE,
    [')'] = VISIBLE,
    ['*'] = TOKEN,
    ['+'] = TOKEN,
    [','] = VISIBLE,
    ['-'] = TOKEN,
    ['.'] = TOKEN,
    ['/'] = VISIBLE,
    ['0' ... '9'] = TOKEN,
    [':'] = VISIBLE,
    [';'] = VISIBLE,
    ['<'] = NO_AUTHORITY,
    ['='] = VISIBLE,
    ['>'] = NO_AUTHORITY,
    ['?'] = VISIBLE,
    ['@'] = VISIBLE,
    ['A' ... 'Z'] = TOKEN,
    ['['] = VISIBLE,
    ['\\'] = NO_AUTHORITY,
    [']'] = VISIBLE,
    ['^'] = TOKEN_NO_AUTHORITY,
    ['_'] = TOKEN,
    ['`'] = TOKEN_NO_AUTHORITY,
    ['a' ... 'z'] = TOKEN,
    ['{'] = NO_AUTHORITY,
    ['|'] = TOKEN_NO_AUTHORITY,
    ['}'] = NO_AUTHORITY,
    ['~'] = TOKEN,
    [0x80 ... 0xFF] = BYTE_TEXT | BYTE_VISIBLE,
};

enum { NAME_MAX_KNOWN = 19, FIELDS_FIRST = 32 };

struct known_name {
    const char *name;
    uint8_t id;
    uint8_t once;
};

/* Sorted by length; known_from[] below says where each length begins. */
static const struct known_name known[] = {
    {"te", FIELD_TE, 0},
    {"age", FIELD_ONCE, 0},
    {"host", FIELD_HOST, 0},
    {"date", FIELD_DATE, 0},
    {"etag", FIELD_ONCE, 1},
    {"from", FIELD_ONCE, 2},
    {"expect", FIELD_EXPECT, 0},
    {"cookie", FIELD_COOKIE, 0},
    {"server", FIELD_ONCE, 3},
    {"trailer", FIELD_TRAILER, 0},
    {"upgrade", FIELD_UPGRADE, 0},
    {"expires", FIELD_ONCE, 4},
    {"referer", FIELD_ONCE, 5},
    {"location", FIELD_ONCE, 6},
    {"connection", FIELD_CONNECTION, 0},
    {"keep-alive", FIELD_KEEP_ALIVE, 0},
    {"set-cookie", FIELD_SET_COOKIE, 0},
    {"user-agent", FIELD_ONCE, 7},
    {"retry-after", FIELD_ONCE, 8},
    {"content-type", FIELD_ONCE, 9},
    {"max-forwards", FIELD_ONCE, 10},
    {"authorization", FIELD_ONCE, 11},
    {"last-modified", FIELD_ONCE, 12},
    {"content-length", FIELD_CONTENT_LENGTH, 0},
    {"proxy-connection", FIELD_PROXY_CONNECTION, 0},
    {"transfer-encoding", FIELD_TRANSFER_ENCODING, 0},
    {"if-modified-since", FIELD_ONCE, 13},
    {"proxy-authenticate", FIELD_PROXY_AUTHENTICATE, 0},
    {"proxy-authorization", FIELD_PROXY_AUTHORIZATION, 0},
    {"if-unmodified-since", FIELD_ONCE, 14},
};

static const uint8_t known_from[NAME_MAX_KNOWN + 2] = {
    0, 0, 0, 1, 2, 6, 6, 9, 13, 14, 14, 18, 19, 21, 23, 24, 24, 25, 27, 28, 30,
};

uint8_t field_identify(const uint8_t *name, size_t n, uint8_t *once)
{
    *once = 0;
    if (n > NAME_MAX_KNOWN)
        return FIELD_OTHER;
    for (size_t k = known_from[n]; k < known_from[n + 1]; k++) {
        const char *want = known[k].name;
        size_t i = 0;
        /* Among token bytes only the two cases of a letter, and '-' itself, give these values. */
        while (i < n && (name[i] | 0x20) == want[i])
            i++;
        if (i == n) {
            *once = known[k].once;
            return known[k].id;
        }
    }
    return FIELD_OTHER;
}

bool http_is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!byte_is((uint8_t)s[i], BYTE_TOKEN))
            return false;
    return n != 0;
}

/* True when one of eight bytes is below 0x20 or is 0x7F. */
static bool has_control(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t del = eight ^ (ones * 0x7F);
    return ((((eight - ones * 0x20) & ~eight) | ((del - ones) & ~del)) & tops) != 0;
}

/* The first byte from at on that may not stand in a field value, or end. */
static size_t value_end(const uint8_t *p, size_t at, size_t end)
{
    for (;;) {
        uint64_t eight;
        while (end - at >= sizeof eight) {
            memcpy(&eight, p + at, sizeof eight);
            if (has_control(eight))
                break;
            at += sizeof eight;
        }
        while (at < end && byte_is(p[at], BYTE_TEXT) && p[at] != '\t')
            at++;
        if (at == end || p[at] != '\t')
            return at;
        at++;
    }
}

static struct field *next_field(struct head *h)
{
    if (h->count == h->capacity) {
        h->capacity = h->capacity != 0 ? h->capacity * 2 : FIELDS_FIRST;
        h->fields = mem_resize(h->fields, h->capacity, sizeof *h->fields);
    }
    return &h->fields[h->count++];
}

bool fields_parse(struct head *h, const uint8_t *p, size_t at, size_t end)
{
    while (at < end) {
        size_t name = at;
        while (at < end && byte_is(p[at], BYTE_TOKEN))
            at++;
        if (at == name || at == end || p[at] != ':')
            return false;
        size_t name_len = at - name;
        for (at++; at < end && byte_is_blank(p[at]);)
            at++;
        size_t value = at;
        at = value_end(p, at, end);
        if (end - at < 2 || p[at] != '\r' || p[at + 1] != '\n')
            return false;
        size_t value_len = at - value;
        while (value_len != 0 && byte_is_blank(p[value + value_len - 1]))
            value_len--;
        at += 2;

        struct field *f = next_field(h);
        f->name = (struct span){(uint32_t)name, (uint32_t)name_len};
        f->value = (struct span){(uint32_t)value, (uint32_t)value_len};
        f->id = field_identify(p + name, name_len, &f->once);
    }
    return true;
}

bool field_named(const struct field *f, const uint8_t *p, const char *name, size_t n)
{
    return text_equal_fold((const char *)p + f->name.at, f->name.len, name, n);
}

bool list_next(const uint8_t **at, const uint8_t *end, const uint8_t **item, size_t *len)
{
    const uint8_t *s = *at;
    while (s < end && (byte_is_blank(*s) || *s == ','))
        s++;
    *item = s;
    while (s < end && *s != ',')
        s++;
    *at = s;
    while (s > *item && byte_is_blank(s[-1]))
        s--;
    *len = (size_t)(s - *item);
    return *len != 0;
}
