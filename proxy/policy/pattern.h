/*
 * Entries of the domain lists: splitting off the port, validity per kind of
 * list, compiled lists and matching. Pure. Chapter 10 section 4.
 */
#ifndef POLICY_PATTERN_H
#define POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/policy/host.h"

enum pattern_kind {
    PATTERN_ALLOWED, /* allowedDomains: optional port, IPv6 bracketed */
    PATTERN_DENIED,  /* deniedDomains: the same, and "*" */
    PATTERN_PLAIN    /* mitmProxy.domains, excludeDomains, injectHosts: no port, no brackets */
};

/* Section 4.2. s may hold any bytes. */
bool pattern_valid(enum pattern_kind kind, const char *s, size_t n);

/* Section 4.1: host part appended to *host (canonical for IPv6, as written else); returns the
 * port, or 0 when the entry has none. */
unsigned pattern_split(const char *s, size_t n, struct buf *host);

/* True when no canonical host can ever match a valid entry (the start-up warning of 4.2). */
bool pattern_matches_nothing(enum pattern_kind kind, const char *s, size_t n);

/* An immutable compiled list; the question costs the same for 10 entries and 10,000. */
struct pattern_list;
struct pattern_list *pattern_list_new(enum pattern_kind kind);
void pattern_list_free(struct pattern_list *list);
void pattern_list_add(struct pattern_list *list, const char *entry); /* list order, text copied */
void pattern_list_seal(struct pattern_list *list);
size_t pattern_list_count(const struct pattern_list *list);
const char *pattern_list_entry(const struct pattern_list *list, size_t index);

/* Index of the first entry (list order) that matches, or -1. */
long pattern_list_match(const struct pattern_list *list, const struct host *host, uint16_t port);

/* Section 4.5: whether `inject` (a PLAIN pattern) is covered; ports of the list are ignored. */
bool pattern_list_covers(const struct pattern_list *list, const char *inject, size_t n);

/* True when the list's IP literals for this port (or for every port) hold the address. */
bool pattern_list_has_address(const struct pattern_list *list, const struct address *a,
                              uint16_t port);

#endif
