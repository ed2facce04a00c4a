/* Entries of a decider's egress lists. Pure. Chapter 35 section 2. */
#ifndef DECIDER_ENTRY_H
#define DECIDER_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * An IP literal (IPv6 bare, or bracketed as it must be with a port), a lower-case DNS name, or "*."
 * and such a name of two labels or more; then an optional ":port". s may hold any bytes.
 */
bool egress_entry_valid(const char *s, size_t n);

#endif
