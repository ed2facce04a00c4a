/*
 * Text of unknown origin made safe to show: cleaning (chapter 10 section 8.3),
 * cutting by UTF-16 units, UTF-8 checks, JSON strings, base64. Pure.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Lower-cases one ASCII letter; every other byte unchanged, whatever the locale. */
static inline unsigned char text_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}
/* ASCII case-insensitive equality. */
bool text_equal_fold(const char *a, size_t na, const char *b, size_t nb);

/* Decodes one scalar value of strict UTF-8 (RFC 3629) at p[0..n); returns its length, 0 if bad. */
size_t text_utf8_decode(const uint8_t *p, size_t n, uint32_t *code);
bool text_utf8_valid(const char *s, size_t n);
/* Appends s with each ill-formed part (maximal subpart) replaced by U+FFFD. */
void text_utf8_repair(struct buf *out, const char *s, size_t n);

/* A control, bidi, zero-width or tag character: a terminal or a reader may obey or hide it. */
bool text_is_unsafe(uint32_t code);

/* Appends s cleaned as a stored line: rules 1 to 3 of section 8.3. Invalid UTF-8 becomes U+FFFD.
 * Nothing is appended when out has no room for all of it; 3 * n bytes are always enough. */
void text_clean(struct buf *out, const char *s, size_t n);

/* Length in bytes of the longest start of s with at most `units` UTF-16 units, never inside a
 * surrogate pair. */
size_t text_cut(const char *s, size_t n, size_t units);

/* An ask hook's reason: cleaned, cut to 500, end trimmed. */
void text_clean_reason(struct buf *out, const char *s, size_t n);
/* An unregistered attribution key: cleaned, cut to 100, untrimmed. */
void text_clean_key(struct buf *out, const char *s, size_t n);
/* A status phrase: as a reason, then every character outside 0x20-0x7E becomes one '?'. */
void text_phrase(struct buf *out, const char *s, size_t n);

/* Appends a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void text_json(struct buf *out, const char *s, size_t n);

/* Standard base64 with padding. */
void text_base64(struct buf *out, const void *p, size_t n);
/* Lenient as Node's decoder for the standard alphabet: missing padding is accepted. False when a
 * byte is outside the alphabet, the length cannot be or out is full; then nothing is appended. */
bool text_base64_decode(struct buf *out, const char *s, size_t n);

#endif
