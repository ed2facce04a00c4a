/*
 * Header names as tokens (RFC 9110 section 5.6.2). Pure, private to decider/.
 */
#ifndef DECIDER_HEADER_NAMES_H
#define DECIDER_HEADER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* A byte of a token, its letters lower-cased; 0 for any other byte. */
extern const unsigned char header_name_lower[256];

/* A token, not empty, without upper case. */
bool header_name_is_lower(const char *s, size_t n);

#endif
