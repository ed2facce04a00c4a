/*
 * The names a message's Connection fields list, which end at this hop. Known
 * hop-by-hop names are left to their ids. Private to proxy/http. RFC 9110
 * section 7.6.1.
 */
#ifndef HTTP_CONNECTION_NAMES_H
#define HTTP_CONNECTION_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/http/head.h"

enum { CONNECTION_NAMES_FEW = 8 };

struct connection_name {
    const uint8_t *text; /* in the head's bytes */
    size_t len;
};

/* Sorted, so that a head full of names and a head full of fields cost n log n together. */
struct connection_names {
    struct connection_name few[CONNECTION_NAMES_FEW];
    struct connection_name *names; /* few, or allocated */
    size_t count, capacity;
    bool folded; /* '_' and '.' count as '-' */
};

/* Refers to p and to itself: neither may move before connection_names_free(). */
void connection_names_init(struct connection_names *set, const struct head *h, const uint8_t *p,
                           bool folded);
void connection_names_free(struct connection_names *set);
bool connection_names_have(const struct connection_names *set, const uint8_t *name, size_t n);

#endif
