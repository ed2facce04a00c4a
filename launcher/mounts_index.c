#include "launcher/mounts_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"

enum { INDEX_ROOM_FIRST = 64 };

struct path_index_slot {
    const char *path; /* NULL: free. The first `length` bytes count. */
    size_t length;
    uint64_t hash;
    long value;    /* PATH_INDEX_NONE: here only because of what is beneath */
    bool occupied; /* something is strictly beneath */
};

/* The path's prefixes that are paths, from "/" down to itself, with their hashes. */
struct prefixes {
    const char *path;
    size_t end;
    uint64_t state;
    bool started;
};

/* FNV-1a, from a start that names on the disk cannot know. */
static uint64_t hash_byte(uint64_t state, char c)
{
    return (state ^ (unsigned char)c) * UINT64_C(0x100000001b3);
}

/* Spreads the state over the low bits, which choose the slot. */
static uint64_t hash_finish(uint64_t state)
{
    state ^= state >> 33;
    state *= UINT64_C(0xff51afd7ed558ccd);
    state ^= state >> 33;
    return state;
}

static struct prefixes prefixes_of(const struct path_index *ix, const char *path)
{
    return (struct prefixes){.path = path, .state = ix->seed};
}

static bool prefixes_next(struct prefixes *p)
{
    if (!p->started) {
        p->started = true;
        p->state = hash_byte(p->state, '/');
        p->end = 1;
        return p->path[0] == '/';
    }
    /* Below the root the slash before a component belongs to the component. */
    size_t at = p->end == 1 ? 1 : p->end + 1;
    if (p->path[p->end] == '\0' || p->path[at] == '\0')
        return false;
    if (at != 1)
        p->state = hash_byte(p->state, '/');
    for (; p->path[at] != '\0' && p->path[at] != '/'; at++)
        p->state = hash_byte(p->state, p->path[at]);
    p->end = at;
    return true;
}

static struct path_index_slot *slot_of(const struct path_index *ix, const char *path, size_t length,
                                       uint64_t hash)
{
    size_t mask = ix->room - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct path_index_slot *slot = &ix->slots[i];
        if (slot->path == NULL ||
            (slot->hash == hash && slot->length == length && memcmp(slot->path, path, length) == 0))
            return slot;
    }
}

static const struct path_index_slot *find(const struct path_index *ix, const struct prefixes *p)
{
    if (ix->room == 0)
        return NULL;
    const struct path_index_slot *slot = slot_of(ix, p->path, p->end, hash_finish(p->state));
    return slot->path != NULL ? slot : NULL;
}

static void grow(struct path_index *ix)
{
    struct path_index old = *ix;
    if (old.room == 0 && getrandom(&ix->seed, sizeof ix->seed, GRND_NONBLOCK) < 0)
        ix->seed = UINT64_C(0xcbf29ce484222325);
    ix->room = old.room == 0 ? INDEX_ROOM_FIRST : old.room * 2;
    ix->slots = mem_array(ix->room, sizeof *ix->slots);
    for (size_t i = 0; i < old.room; i++) {
        const struct path_index_slot *s = &old.slots[i];
        if (s->path != NULL)
            *slot_of(ix, s->path, s->length, s->hash) = *s;
    }
    free(old.slots);
}

void path_index_free(struct path_index *ix)
{
    MEM_FREE(ix->slots);
    paths_free(&ix->keys);
    *ix = (struct path_index){0};
}

/* The slot of the prefix, made when it is new. */
static struct path_index_slot *claim(struct path_index *ix, const struct prefixes *p)
{
    if (ix->used * 2 >= ix->room)
        grow(ix);
    uint64_t hash = hash_finish(p->state);
    struct path_index_slot *slot = slot_of(ix, p->path, p->end, hash);
    if (slot->path == NULL) {
        *slot = (struct path_index_slot){
            .path = p->path, .length = p->end, .hash = hash, .value = PATH_INDEX_NONE};
        ix->used++;
    }
    return slot;
}

void path_index_set(struct path_index *ix, const char *path, long value)
{
    if (ix->room == 0)
        grow(ix);
    char *key = mem_dup(path);
    paths_add(&ix->keys, key);
    struct prefixes p = prefixes_of(ix, key);
    while (prefixes_next(&p)) {
        struct path_index_slot *slot = claim(ix, &p);
        if (key[p.end] == '\0')
            slot->value = value;
        else
            slot->occupied = true;
    }
}

static const struct path_index_slot *find_path(const struct path_index *ix, const char *path)
{
    struct prefixes p = prefixes_of(ix, path);
    while (prefixes_next(&p)) {
        if (path[p.end] == '\0')
            return find(ix, &p);
    }
    return NULL;
}

long path_index_get(const struct path_index *ix, const char *path)
{
    const struct path_index_slot *slot = find_path(ix, path);
    return slot != NULL ? slot->value : PATH_INDEX_NONE;
}

long path_index_greatest_above(const struct path_index *ix, const char *path)
{
    long greatest = PATH_INDEX_NONE;
    struct prefixes p = prefixes_of(ix, path);
    while (prefixes_next(&p)) {
        const struct path_index_slot *slot = find(ix, &p);
        if (slot != NULL && slot->value > greatest)
            greatest = slot->value;
    }
    return greatest;
}

bool path_index_covers(const struct path_index *ix, const char *path)
{
    return path_index_greatest_above(ix, path) != PATH_INDEX_NONE;
}

bool path_index_covers_strictly(const struct path_index *ix, const char *path, const char *except)
{
    size_t excepted = except != NULL ? strlen(except) : 0;
    struct prefixes p = prefixes_of(ix, path);
    while (prefixes_next(&p) && path[p.end] != '\0') {
        const struct path_index_slot *slot = find(ix, &p);
        bool skip = except != NULL && p.end == excepted && memcmp(path, except, excepted) == 0;
        if (slot != NULL && slot->value != PATH_INDEX_NONE && !skip)
            return true;
    }
    return false;
}

bool path_index_beneath(const struct path_index *ix, const char *path)
{
    const struct path_index_slot *slot = find_path(ix, path);
    return slot != NULL && slot->occupied;
}

void view_free(struct view *v)
{
    path_index_free(&v->places);
    free(v->list);
    *v = (struct view){0};
}

void view_add(struct view *v, const struct mount *m)
{
    if (v->count == v->room) {
        v->room = v->room == 0 ? 64 : v->room * 2;
        v->list = mem_resize(v->list, v->room, sizeof *v->list);
    }
    path_index_set(&v->places, m->place, (long)v->count);
    v->list[v->count++] = (struct view_mount){.kind = m->kind, .place = m->place};
}

const struct view_mount *view_at(const struct view *v, const char *path)
{
    long at = path_index_greatest_above(&v->places, path);
    return at != PATH_INDEX_NONE ? &v->list[at] : NULL;
}

bool view_is(const struct view *v, const char *path, enum mount_kind kind)
{
    const struct view_mount *m = view_at(v, path);
    return m != NULL && m->kind == kind;
}
