/*
 * IP addresses, ranges and sets of them. An IPv4-mapped IPv6 address
 * (::ffff:0:0/96) and its IPv4 form are one address and always held as IPv4.
 * Pure. Chapter 10 sections 3.2, 6.2, 6.3; RFC 4291, RFC 5952, RFC 6052.
 */
#ifndef POLICY_ADDRESS_H
#define POLICY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    uint8_t family;    /* 4 or 6 */
    uint8_t bytes[16]; /* network order; IPv4 in the first four, the rest zero */
    uint32_t scope;    /* IPv6 zone index, 0 none; ignored when comparing, kept when dialling */
};

enum { ADDRESS_TEXT_MAX = 64 }; /* enough for any address and its zone, with the NUL */

/* Strict text: dotted quad without leading zeros, or RFC 4291 IPv6. A zone (%name) is accepted
 * only with allow_zone; it is then resolved to an index when the interface exists, else 0. */
bool address_parse(const char *s, size_t n, bool allow_zone, struct address *out);

/* RFC 5952, never with a dotted tail, without brackets, without zone. Returns the length. */
size_t address_format(const struct address *a, char out[ADDRESS_TEXT_MAX]);

/* Order by family, then value; the zone does not count. */
int address_compare(const struct address *a, const struct address *b);
bool address_equal(const struct address *a, const struct address *b);

/* Both directions fold mapped addresses to IPv4. Returns the socklen, or false for AF_UNIX etc. */
socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out);
bool address_from_sockaddr(const struct sockaddr *sa, struct address *out, uint16_t *port);

/* The IPv4 address an IPv6 address carries (section 6.3); false when it carries none. */
bool address_carried(const struct address *a, struct address *out);

struct address_range {
    struct address first, last; /* inclusive, same family */
};
/* `<address>` or `<address>/<prefix>` as section 6.2 says. */
bool address_range_parse(const char *s, size_t n, struct address_range *out);

/* A set built once and then only asked: sorted, merged, searched in log time. */
struct address_set;
struct address_set *address_set_new(void);
void address_set_free(struct address_set *set);
void address_set_add(struct address_set *set, const struct address_range *range);
void address_set_seal(struct address_set *set); /* after the last add, before the first question */
bool address_set_has(const struct address_set *set, const struct address *a);

#endif
