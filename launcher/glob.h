/*
 * Patterns of file names: the syntax of chapter 50 section 5.4, matching, and
 * expansion against the disk, section 5.5.
 */
#ifndef LAUNCHER_GLOB_H
#define LAUNCHER_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/entry.h"
#include "launcher/path.h"

/* True when s holds a character of `* ? [ ]`. */
bool glob_has_wildcard(const char *s, size_t n);

/* A compiled pattern over whole absolute paths. */
struct glob;
/* `anchor` first bytes are literal. Never fails: what is no set is text. */
struct glob *glob_new(const char *text, size_t anchor);
void glob_free(struct glob *g);
bool glob_match(const struct glob *g, const char *path, size_t n);
/* Could a path beneath directory `path` match? False is certain; true may be wrong. */
bool glob_may_match_beneath(const struct glob *g, const char *path, size_t n);

/*
 * What a denyRead pattern matches now, appended to two lists: sorted, without duplicates, no place
 * in both, never "/". `denied`: canonical places, each a directory (denied with all below) or
 * another node. `sealed`: canonical directories that could not be listed, or hold what could
 * not be inspected: denied as well, and nothing is bound back beneath them. Collapsing against
 * allows is the plan's. A place may hold bytes that are no UTF-8.
 * `links`: names that decide what is denied: links that were matched or led to a match, and the
 * literal directory where it is not a real path.
 */
void glob_expand_deny(const struct pattern_reading *pattern, struct paths *denied,
                      struct paths *sealed, struct paths *links);
/* What an allowRead pattern matches: names, links among them not followed. Section 5.5, last part.
 */
void glob_expand_allow(const struct pattern_reading *pattern, struct paths *allowed);

#endif
