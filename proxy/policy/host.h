/*
 * Hosts: which strings are valid, and the one canonical form that everything
 * after the decision uses. Pure. Chapter 10 section 3.
 */
#ifndef POLICY_HOST_H
#define POLICY_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/policy/address.h"

enum { HOST_MAX = 255 };

struct host {
    char text[HOST_MAX + 1]; /* canonical, NUL-terminated, IPv6 without brackets */
    size_t len;
    bool is_address;
    struct address address; /* when is_address */
};

enum host_result {
    HOST_OK,
    HOST_INVALID,      /* section 3.1 */
    HOST_NO_CANONICAL, /* a number form that is no IPv4 address */
    HOST_EMPTY_LABEL   /* canonical form filled in, refused all the same (section 3.3) */
};

bool host_valid(const char *s, size_t n);

/* s may hold any bytes. *out is cleared first and filled for HOST_OK and HOST_EMPTY_LABEL. */
enum host_result host_canonicalise(const char *s, size_t n, struct host *out);

/* True for `localhost` and names under `.localhost`; host canonical. */
bool host_is_localhost(const struct host *h);

#endif
