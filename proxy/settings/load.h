/*
 * A settings file as JSON: read whole, strict RFC 8259, bounded, checked
 * against the schema. Chapter 10 section 1.
 */
#ifndef SETTINGS_LOAD_H
#define SETTINGS_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "proxy/settings/snapshot.h"

enum load_result { LOAD_OK, LOAD_ABSENT, LOAD_FAILED };

/* Parses strict JSON (no duplicate keys, UTF-8, nothing after the value; 3.0 and 3e0 are the
 * integer 3). NULL with the parser's text in *error, one line. */
json_t *settings_parse(const char *text, size_t n, struct buf *error);

/* Nothing, or white space alone (Unicode's). */
bool settings_blank(const char *text, size_t n);

/* LOAD_ABSENT: ENOENT. LOAD_FAILED: *error holds the first line of section 1's table, without a
 * newline (for LOAD_ABSENT too). */
enum load_result settings_read(const char *path, json_t **document, struct buf *error);

/*
 * A valid document, to be given back with json_decref(). path NULL: the default file, built-in
 * defaults when it is absent. On failure returns NULL and *error holds the lines of section 1's
 * table, the refusal among them, with their newlines.
 */
json_t *settings_load(const char *path, enum settings_use use, struct buf *error);

#endif
