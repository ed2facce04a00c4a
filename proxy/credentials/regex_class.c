#include "proxy/credentials/regex.h"

#include <stdlib.h>

#include "base/mem.h"

static const struct regex_range digits[] = {{'0', '9'}};
static const struct regex_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/* WhiteSpace and LineTerminator of ECMA-262 sections 12.2 and 12.3. */
static const struct regex_range spaces[] = {
    {0x0009, 0x000d}, {0x0020, 0x0020}, {0x00a0, 0x00a0}, {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

void regex_class_add(struct regex_class *c, uint32_t first, uint32_t last)
{
    if (c->count == c->capacity) {
        c->capacity = c->capacity != 0 ? c->capacity * 2 : 4;
        c->ranges = mem_resize(c->ranges, c->capacity, sizeof *c->ranges);
    }
    c->ranges[c->count++] = (struct regex_range){(uint16_t)first, (uint16_t)last};
}

static void add_sorted(struct regex_class *c, const struct regex_range *ranges, size_t count,
                       bool complement)
{
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (!complement)
            regex_class_add(c, ranges[i].first, ranges[i].last);
        else if (ranges[i].first > next)
            regex_class_add(c, next, ranges[i].first - 1u);
        next = ranges[i].last + 1u;
    }
    if (complement && next <= REGEX_UNIT_MAX)
        regex_class_add(c, next, REGEX_UNIT_MAX);
}

void regex_class_add_escape(struct regex_class *c, uint32_t letter)
{
    bool complement = letter < 'a';
    switch (letter | 0x20) {
    case 'd':
        add_sorted(c, digits, COUNT(digits), complement);
        break;
    case 's':
        add_sorted(c, spaces, COUNT(spaces), complement);
        break;
    default:
        add_sorted(c, words, COUNT(words), complement);
        break;
    }
}

static int compare(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return (x->last > y->last) - (x->last < y->last);
}

void regex_class_seal(struct regex_class *c, bool negated)
{
    if (c->count != 0)
        qsort(c->ranges, c->count, sizeof *c->ranges, compare);
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (kept != 0 && c->ranges[i].first <= c->ranges[kept - 1].last + 1u) {
            if (c->ranges[i].last > c->ranges[kept - 1].last)
                c->ranges[kept - 1].last = c->ranges[i].last;
        } else {
            c->ranges[kept++] = c->ranges[i];
        }
    }
    c->count = kept;
    if (negated) {
        struct regex_class complement = {0};
        add_sorted(&complement, c->ranges, c->count, true);
        free(c->ranges);
        *c = complement;
    }
}
