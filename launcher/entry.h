/*
 * What an entry of a list means: a name, a pattern, or both. Chapter 50
 * sections 5.1 to 5.3, and the refusals of section 2. Reads the disk, changes
 * nothing.
 */
#ifndef LAUNCHER_ENTRY_H
#define LAUNCHER_ENTRY_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/path.h"
#include "launcher/sandbox_settings.h"

enum entry_use { ENTRY_DENY, ENTRY_ALLOW };

struct place {
    const char *directory; /* the working directory, absolute */
    const char *home;      /* "" when there is none */
};

/* A pattern as written below an anchor: `text` is absolute; the first `anchor` bytes are literal,
 * whatever characters they hold. */
struct pattern_reading {
    char *text;
    size_t anchor;
};
struct readings {
    struct paths names; /* resolved as by path_resolve() */
    struct pattern_reading *patterns;
    size_t pattern_count;
};

/* All readings of an entry (section 5.2). */
void entry_read(const struct path_entry *entry, enum entry_use use, const struct place *place,
                struct readings *out);
void readings_free(struct readings *r);

/*
 * Names of a write list (section 5.3): patterns are left out, but for a trailing slash-star-star.
 * *skipped (may be NULL) says whether a pattern was that is the name of nothing.
 */
void entry_write_names(const struct path_entry *entry, enum entry_use use,
                       const struct place *place, struct paths *out, bool *skipped);

/*
 * A deny of section 2 that can match nothing ("a glob that ends in a separator"), or a denyRead
 * pattern with a wildcard in its first component, which no mount can enforce. True, with one line
 * in *error, when the entry is such. `key` ("filesystem.denyRead") names the list in the text.
 */
bool entry_refused(const struct path_entry *entry, const char *key, bool read,
                   const struct place *place, struct buf *error);

#endif
