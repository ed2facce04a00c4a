/*
 * The resolved-address check: which addresses of a permitted name may be dialled.
 * Chapter 10 section 6.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proxy/policy/compiled.h"
#include "proxy/policy/policy.h"

/* Special ranges in priority order: RFC 6890, RFC 4291 section 2.4, and the addresses at which
 * clouds serve instance metadata or their host agents. */
static const struct special_range {
    enum address_class class;
    uint8_t family, prefix; /* prefix in bits */
    uint8_t bytes[16];
} special_ranges[] = {
    {ADDRESS_LOOPBACK, 4, 8, {127}},
    {ADDRESS_LOOPBACK, 6, 128, {[15] = 1}},
    {ADDRESS_UNSPECIFIED, 4, 8, {0}},
    {ADDRESS_UNSPECIFIED, 6, 128, {0}},
    {ADDRESS_LINK_LOCAL, 4, 16, {169, 254}},
    {ADDRESS_LINK_LOCAL, 6, 10, {0xFE, 0x80}},
    {ADDRESS_MULTICAST, 4, 4, {224}},
    {ADDRESS_MULTICAST, 6, 8, {0xFF}},
    {ADDRESS_BROADCAST, 4, 32, {255, 255, 255, 255}},
    {ADDRESS_METADATA, 4, 32, {100, 100, 100, 200}},
    {ADDRESS_METADATA, 4, 32, {168, 63, 129, 16}},
    {ADDRESS_METADATA, 4, 32, {192, 0, 0, 192}},
    {ADDRESS_METADATA, 6, 32, {0xFD, 0x00, 0x0E, 0xC2}},
    /* fd20:ce::254 */
    {ADDRESS_METADATA, 6, 128, {0xFD, 0x20, 0x00, 0xCE, [14] = 0x02, 0x54}},
    /* fd00:c1::a9fe:a9fe */
    {ADDRESS_METADATA, 6, 128, {0xFD, 0x00, 0x00, 0xC1, [12] = 0xA9, 0xFE, 0xA9, 0xFE}},
    /* fd00:42::42 */
    {ADDRESS_METADATA, 6, 128, {0xFD, 0x00, 0x00, 0x42, [15] = 0x42}},
    /* fd00:a9fe:a9fe::1 */
    {ADDRESS_METADATA, 6, 128, {0xFD, 0x00, 0xA9, 0xFE, 0xA9, 0xFE, [15] = 0x01}},
    /* fd00:100::100:200 */
    {ADDRESS_METADATA, 6, 128, {0xFD, 0x00, 0x01, 0x00, [12] = 0x01, 0x00, 0x02, 0x00}},
};

static const char *const class_texts[ADDRESS_CLASSES] = {
    [ADDRESS_KEPT] = "an address that is not denied",
    [ADDRESS_DENY_LISTED] = "a deny-listed address",
    [ADDRESS_LOOPBACK] = "a loopback address",
    [ADDRESS_UNSPECIFIED] = "an unspecified address",
    [ADDRESS_LINK_LOCAL] = "a link-local address",
    [ADDRESS_MULTICAST] = "a multicast address",
    [ADDRESS_BROADCAST] = "the broadcast address",
    [ADDRESS_METADATA] = "a cloud metadata address",
    [ADDRESS_LISTED] = "a listed address",
    [ADDRESS_LOCAL] = "one of this host's addresses",
    [ADDRESS_NON_LOOPBACK] = "a non-loopback address",
    [ADDRESS_UNPARSABLE] = "an unparsable address",
};

static bool in_range(const struct special_range *range, const struct address *a)
{
    size_t whole = range->prefix / 8;
    unsigned rest = range->prefix % 8;

    if (a->family != range->family || memcmp(a->bytes, range->bytes, whole) != 0)
        return false;
    return rest == 0 || (a->bytes[whole] ^ range->bytes[whole]) >> (8 - rest) == 0;
}

static bool is_loopback(const struct address *a)
{
    for (const struct special_range *r = special_ranges; r->class == ADDRESS_LOOPBACK; r++) {
        if (in_range(r, a))
            return true;
    }
    return false;
}

/* The classes that forbid an address whatever its name, first that holds for the address or for
 * the IPv4 address it carries (NULL: none). */
static enum address_class forbidden(const struct policy *policy, const struct address *address,
                                    const struct address *carried, const struct address_set *local)
{
    for (size_t i = 0; i < sizeof special_ranges / sizeof special_ranges[0]; i++) {
        const struct special_range *r = &special_ranges[i];
        if (in_range(r, address) || (carried != NULL && in_range(r, carried)))
            return r->class;
    }
    if (address_set_has(policy->ranges, address) ||
        (carried != NULL && address_set_has(policy->ranges, carried)))
        return ADDRESS_LISTED;
    if (local != NULL &&
        (address_set_has(local, address) || (carried != NULL && address_set_has(local, carried))))
        return ADDRESS_LOCAL;
    return ADDRESS_KEPT;
}

enum address_class policy_judge_address(const struct policy *policy, const struct host *name,
                                        uint16_t port, const struct address *address,
                                        const struct address_set *local)
{
    struct address inner;
    const struct address *carried = address_carried(address, &inner) ? &inner : NULL;

    if (policy == NULL) /* nothing is allowed then */
        return ADDRESS_DENY_LISTED;
    if (pattern_list_has_address(policy->denied, address, port) ||
        (carried != NULL && pattern_list_has_address(policy->denied, carried, port)))
        return ADDRESS_DENY_LISTED;
    if (pattern_list_has_address(policy->allowed, address, port))
        return ADDRESS_KEPT;
    if (host_is_localhost(name))
        return is_loopback(address) ? ADDRESS_KEPT : ADDRESS_NON_LOOPBACK;
    return forbidden(policy, address, carried, local);
}

const char *address_class_text(enum address_class c)
{
    assert((unsigned)c < ADDRESS_CLASSES);
    return class_texts[c];
}

size_t address_reason(unsigned classes, char *out, size_t size)
{
    const char *before = "resolved to ";
    size_t len = 0;

    if (size == 0)
        return 0;
    out[0] = 0;
    for (unsigned c = ADDRESS_KEPT + 1; c < ADDRESS_CLASSES; c++) {
        if ((classes & 1U << c) == 0)
            continue;
        int made = snprintf(out + len, size - len, "%s%s", before, class_texts[c]);
        if (made < 0 || (size_t)made >= size - len)
            return strlen(out);
        len += (size_t)made;
        before = " / ";
    }
    return len;
}
