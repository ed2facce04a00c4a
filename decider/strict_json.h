/*
 * One JSON object, read as deciders and their proxies have to: valid UTF-8, no
 * lone surrogates, no duplicate keys at any depth, no null anywhere, nothing
 * behind it. Pure. Chapter 35 section 1, RFC 8259.
 */
#ifndef DECIDER_STRICT_JSON_H
#define DECIDER_STRICT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"

/* A new reference, or NULL with a reason in *why (static text without any of the input). */
json_t *strict_json_read(const uint8_t *p, size_t n, const char **why);

/* The integer that a number is (7.0 is 7), within the bounds. Anything else: false. */
bool strict_json_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);

/* Appends a string with its quotes, escaped as JSON; s must be valid UTF-8. False when out's
 * maximum would be passed. */
bool strict_json_put_string(struct buf *out, const char *s, size_t n);

/* Valid UTF-8 (RFC 3629) without control characters: C0 but tab, DEL, C1 (U+0080 to U+009F). */
bool strict_text_valid(const char *s, size_t n);
/* The same; adds to *size the bytes that strict_json_put() writes for such a text. */
bool strict_text_measure(const char *s, size_t n, size_t *size);
/* How many bytes s begins with that are ASCII, no control characters, and stand for themselves in a
 * JSON string. */
size_t strict_text_plain(const char *s, size_t n);
/* Writes a valid text with its quotes, escaped as JSON; returns where it ended. */
char *strict_json_put(char *to, const char *s, size_t n);

#endif
