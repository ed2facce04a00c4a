/*
 * A settings file as JSON: read whole, strict RFC 8259, bounded. Chapter 10
 * section 1.
 */
#ifndef SETTINGS_LOAD_H
#define SETTINGS_LOAD_H

#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"

enum load_result { LOAD_OK, LOAD_ABSENT, LOAD_FAILED };

/* Parses strict JSON (no duplicate keys, UTF-8, nothing after the value; 3.0 and 3e0 are the
 * integer 3). NULL with the parser's text in *error, one line. */
json_t *settings_parse(const char *text, size_t n, struct buf *error);

/* LOAD_ABSENT: ENOENT. LOAD_FAILED: *error holds the first line of section 1's table, without a
 * newline (for LOAD_ABSENT too). */
enum load_result settings_read(const char *path, json_t **document, struct buf *error);

#endif
