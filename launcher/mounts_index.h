/*
 * Sets of paths that answer "is one of these at or above, or beneath, this
 * path" in the time it takes to read the path, however many there are; and which
 * mount of a growing list a lookup meets. Private to the mount plan.
 */
#ifndef LAUNCHER_MOUNTS_INDEX_H
#define LAUNCHER_MOUNTS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/mounts.h"

struct path_index_slot;
struct path_index {
    struct path_index_slot *slots;
    size_t used, room; /* room: a power of two, or 0 */
    uint64_t seed;
    struct paths keys; /* what the slots point into */
};

enum { PATH_INDEX_NONE = -1 };

/* Absolute paths, in text; all zero is an empty index. */
void path_index_free(struct path_index *ix);
/* Adds `path`, or changes its value (0 or more). */
void path_index_set(struct path_index *ix, const char *path, long value);
/* The value of exactly this path, or PATH_INDEX_NONE. */
long path_index_get(const struct path_index *ix, const char *path);
/* The greatest value of those at or above `path`, or PATH_INDEX_NONE. */
long path_index_greatest_above(const struct path_index *ix, const char *path);
/* True when one is at or above `path`; strictly: above only. `except` (may be NULL) is not
 * counted. */
bool path_index_covers(const struct path_index *ix, const char *path);
bool path_index_covers_strictly(const struct path_index *ix, const char *path, const char *except);
/* True when one is strictly beneath `path`. */
bool path_index_beneath(const struct path_index *ix, const char *path);

/* What a lookup meets when mounts are made one after the other: of those at or above a path, the
 * last. */
struct view {
    struct path_index places;
    struct view_mount {
        enum mount_kind kind;
        const char *place; /* the mount's own string */
    } * list;
    size_t count, room;
};

void view_free(struct view *v);
void view_add(struct view *v, const struct mount *m);
/* NULL: none of them. */
const struct view_mount *view_at(const struct view *v, const char *path);
/* True when what the lookup of `path` meets is of this kind. */
bool view_is(const struct view *v, const char *path, enum mount_kind kind);

#endif
