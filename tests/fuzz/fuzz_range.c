/*
 * Ranges, one a line, then a line with an address: a set says what its ranges
 * say one by one, and what it parsed can be written and parsed again.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/policy/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RANGES_MAX = 64 };

static void check_text(const struct address *a)
{
    char text[ADDRESS_TEXT_MAX];
    struct address back;
    size_t n = address_format(a, text);

    assert(n == strlen(text) && n < ADDRESS_TEXT_MAX);
    assert(address_parse(text, n, false, &back));
    assert(address_equal(a, &back));
}

static void check_sockaddr(const struct address *a)
{
    struct sockaddr_storage ss;
    struct address back;
    uint16_t port;

    assert(address_to_sockaddr(a, 443, &ss) != 0);
    assert(address_from_sockaddr((const struct sockaddr *)&ss, &back, &port));
    assert(port == 443 && address_equal(a, &back) && a->scope == back.scope);
}

static bool in_range(const struct address_range *range, const struct address *a)
{
    return address_compare(&range->first, a) <= 0 && address_compare(a, &range->last) <= 0;
}

static void check_member(const struct address_set *set, const struct address_range *ranges,
                         size_t count, const struct address *a)
{
    bool want = false;
    for (size_t i = 0; i < count; i++)
        want = want || in_range(&ranges[i], a);
    assert(address_set_has(set, a) == want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address_range ranges[RANGES_MAX];
    struct address_set *set = address_set_new();
    struct address a, carried;
    size_t count = 0;
    const char *s = (const char *)data;

    while (count < RANGES_MAX) {
        const char *newline = size != 0 ? memchr(s, '\n', size) : NULL;
        if (newline == NULL)
            break;
        size_t n = (size_t)(newline - s);
        struct address_range *range = &ranges[count];
        if (address_range_parse(s, n, range)) {
            assert(range->first.family == range->last.family);
            assert(address_compare(&range->first, &range->last) <= 0);
            address_set_add(set, range);
            count++;
        }
        s += n + 1;
        size -= n + 1;
    }
    address_set_seal(set);
    for (size_t i = 0; i < count; i++) {
        check_member(set, ranges, count, &ranges[i].first);
        check_member(set, ranges, count, &ranges[i].last);
        check_text(&ranges[i].first);
    }
    if (address_parse(s, size, true, &a)) {
        check_member(set, ranges, count, &a);
        check_text(&a);
        check_sockaddr(&a);
        if (address_carried(&a, &carried))
            assert(a.family == 6 && carried.family == 4);
    }
    address_set_free(set);
    return 0;
}
