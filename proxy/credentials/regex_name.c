#include "proxy/credentials/regex_name.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/credentials/regex.h"

#define NONE UINT32_MAX

int regex_hex_digit(uint32_t c)
{
    if (c >= '0' && c <= '9')
        return (int)(c - '0');
    if (c >= 'A' && c <= 'F')
        return (int)(c - 'A') + 10;
    return c >= 'a' && c <= 'f' ? (int)(c - 'a') + 10 : -1;
}

static uint32_t join(uint32_t high, uint32_t low)
{
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* Four hex digits at text[at], else NONE. */
static uint32_t hex4(const uint16_t *text, size_t n, size_t at)
{
    uint32_t value = 0;
    if (n - at < 4)
        return NONE;
    for (size_t i = 0; i < 4; i++) {
        int d = regex_hex_digit(text[at + i]);
        if (d < 0)
            return NONE;
        value = value * 16 + (uint32_t)d;
    }
    return value;
}

/* `{1F600}` at text[*at], else NONE. */
static uint32_t take_braced(const uint16_t *text, size_t n, size_t *at)
{
    uint32_t value = 0;
    size_t i = *at + 1;
    for (int d; i < n && (d = regex_hex_digit(text[i])) >= 0; i++) {
        value = value * 16 + (uint32_t)d;
        if (value > 0x10ffff)
            return NONE;
    }
    if (i == *at + 1 || i >= n || text[i] != '}')
        return NONE;
    *at = i + 1;
    return value;
}

/* What follows `\u`, a pair of surrogate escapes joined; NONE when it is no escape. */
static uint32_t take_escape(const uint16_t *text, size_t n, size_t *at)
{
    if (*at < n && text[*at] == '{')
        return take_braced(text, n, at);
    uint32_t value = hex4(text, n, *at);
    if (value == NONE)
        return NONE;
    *at += 4;
    if (value < 0xd800 || value > 0xdbff || n - *at < 6 || text[*at] != '\\' ||
        text[*at + 1] != 'u')
        return value;
    uint32_t low = hex4(text, n, *at + 2);
    if (low == NONE || low < 0xdc00 || low > 0xdfff)
        return value;
    *at += 6;
    return join(value, low);
}

/*
 * Outside ASCII: blocks without letters, digits or marks. What lies between is
 * taken for a letter; a name made of unassigned code points harms nobody.
 */
static bool is_symbol(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {
        {0x80, 0xa9},       {0xab, 0xb4},       {0xb6, 0xb6},       {0xb8, 0xb9},
        {0xbb, 0xbf},       {0xd7, 0xd7},       {0xf7, 0xf7},       {0x2c2, 0x2c5},
        {0x2d2, 0x2df},     {0x37e, 0x37e},     {0x589, 0x58f},     {0x5be, 0x5be},
        {0x600, 0x60f},     {0x61b, 0x61f},     {0x66a, 0x66d},     {0x1680, 0x1680},
        {0x2000, 0x200b},   {0x200e, 0x203e},   {0x2041, 0x2053},   {0x2055, 0x2070},
        {0x207a, 0x207e},   {0x208a, 0x208e},   {0x20a0, 0x20c0},   {0x2190, 0x2bff},
        {0x2e00, 0x2e2e},   {0x2e30, 0x3004},   {0x3008, 0x3020},   {0x3030, 0x3030},
        {0x303d, 0x3040},   {0x30a0, 0x30a0},   {0x3190, 0x319f},   {0x3200, 0x33ff},
        {0x4dc0, 0x4dff},   {0xd800, 0xf8ff},   {0xfe10, 0xfe1f},   {0xfe30, 0xfe32},
        {0xfe35, 0xfe4c},   {0xfe50, 0xfe6f},   {0xfeff, 0xff0f},   {0xff1a, 0xff20},
        {0xff3b, 0xff3e},   {0xff40, 0xff40},   {0xff5b, 0xff65},   {0xffe0, 0xffff},
        {0x1d000, 0x1d164}, {0x1f000, 0x1fbef}, {0xe0000, 0xe00ff}, {0xf0000, 0x10ffff},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        if (c >= blocks[i].first && c <= blocks[i].last)
            return true;
    return false;
}

static bool is_digit_or_mark(uint32_t c)
{
    return (c >= '0' && c <= '9') || c == 0xb7 || (c >= 0x300 && c <= 0x36f) ||
           (c >= 0x660 && c <= 0x669) || c == 0x200c || c == 0x200d || c == 0x203f || c == 0x2040 ||
           (c >= 0x20d0 && c <= 0x20f0) || (c >= 0xfe00 && c <= 0xfe0f) ||
           (c >= 0xfe20 && c <= 0xfe2f) || (c >= 0xff10 && c <= 0xff19) ||
           (c >= 0xe0100 && c <= 0xe01ef);
}

static bool may_stand(uint32_t c, bool first)
{
    if (is_digit_or_mark(c))
        return !first;
    if (c < 128)
        return c == '$' || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    return !is_symbol(c);
}

const char *regex_name_take(const uint16_t *text, size_t n, size_t *at, struct regex_name *name)
{
    *name = (struct regex_name){0};
    size_t i = *at, capacity = 0;
    while (i < n && text[i] != '>') {
        uint32_t c = text[i++];
        if (c == '\\') {
            if (i >= n || text[i] != 'u')
                goto invalid;
            i++;
            c = take_escape(text, n, &i);
            if (c == NONE) {
                regex_name_free(name);
                return "Invalid Unicode escape";
            }
        } else if (c >= 0xd800 && c <= 0xdbff && i < n && text[i] >= 0xdc00 && text[i] <= 0xdfff) {
            c = join(c, text[i++]);
        }
        if (!may_stand(c, name->count == 0))
            goto invalid;
        if (name->count == capacity) {
            capacity = capacity != 0 ? capacity * 2 : 8;
            name->codes = mem_resize(name->codes, capacity, sizeof *name->codes);
        }
        name->codes[name->count++] = c;
    }
    if (i >= n || name->count == 0)
        goto invalid;
    *at = i + 1;
    return NULL;

invalid:
    regex_name_free(name);
    return "Invalid capture group name";
}

bool regex_name_equal(const struct regex_name *a, const struct regex_name *b)
{
    return a->count == b->count && memcmp(a->codes, b->codes, a->count * sizeof *a->codes) == 0;
}

void regex_name_free(struct regex_name *name)
{
    free(name->codes);
    *name = (struct regex_name){0};
}

bool regex_names_add(struct regex_names *l, struct regex_name *name, uint32_t value)
{
    if (l->count == REGEX_NAMES_MAX) {
        regex_name_free(name);
        return false;
    }
    if (l->count == l->capacity) {
        l->capacity = l->capacity != 0 ? l->capacity * 2 : 4;
        l->list = mem_resize(l->list, l->capacity, sizeof *l->list);
    }
    l->list[l->count++] = (struct regex_name_use){*name, value};
    return true;
}

const struct regex_name_use *regex_names_find(const struct regex_names *l,
                                              const struct regex_name *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (regex_name_equal(&l->list[i].name, name))
            return &l->list[i];
    return NULL;
}

void regex_names_free(struct regex_names *l)
{
    for (size_t i = 0; i < l->count; i++)
        regex_name_free(&l->list[i].name);
    free(l->list);
}
