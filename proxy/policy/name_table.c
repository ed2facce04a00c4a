#include "proxy/policy/name_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum {
    PROBE_LIMIT = 16,       /* slots a question may look at */
    SEEDS_A_SIZE = 4,       /* hash seeds tried before the slots are doubled */
    LARGEST_SPREAD = 1 << 8 /* slots a row at most */
};

struct row {
    size_t text; /* offset in texts */
    size_t len;
    size_t index;
    uint32_t port;
    enum name_kind kind;
};

struct name_table {
    struct row *rows;
    size_t count, room;
    struct buf texts;
    bool has[NAME_ANY + 1]; /* kinds that occur: the others need no search */

    /* Filled by the seal: row numbers plus one, 0 in an empty slot; linear probing. */
    size_t *slots;
    size_t mask;
    size_t longest; /* no row is further from its first slot than longest - 1 */
    uint64_t seed;
    bool sealed;
};

struct name_table *name_table_new(void)
{
    struct name_table *t = mem_alloc(sizeof *t);
    buf_init(&t->texts, SIZE_MAX / 4);
    return t;
}

void name_table_free(struct name_table *t)
{
    if (t == NULL)
        return;
    free(t->rows);
    free(t->slots);
    buf_free(&t->texts);
    free(t);
}

void name_table_add(struct name_table *t, enum name_kind kind, const char *text, size_t len,
                    uint32_t port, size_t index)
{
    assert(!t->sealed);
    if (t->count == t->room) {
        t->room = t->room != 0 ? 2 * t->room : 16;
        t->rows = mem_resize(t->rows, t->room, sizeof *t->rows);
    }
    t->rows[t->count++] = (struct row){
        .text = buf_len(&t->texts), .len = len, .index = index, .port = port, .kind = kind};
    buf_append(&t->texts, text, len);
    t->has[kind] = true;
}

/* Hashes run from the last byte to the first, so that one pass over a name yields the hash of
 * every suffix. */
static uint64_t hash_byte(uint64_t hash, char c)
{
    return (hash ^ (unsigned char)c) * UINT64_C(0x100000001B3);
}

static uint64_t hash_text(uint64_t seed, const char *text, size_t len)
{
    while (len-- > 0)
        seed = hash_byte(seed, text[len]);
    return seed;
}

static size_t first_slot(const struct name_table *t, enum name_kind kind, uint64_t hash,
                         uint32_t port)
{
    hash ^= ((uint64_t)port << 2 | kind) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xFF51AFD7ED558CCD);
    hash ^= hash >> 33;
    return (size_t)hash & t->mask;
}

static bool row_is(const struct name_table *t, const struct row *row, enum name_kind kind,
                   const char *text, size_t len, uint32_t port)
{
    return row->kind == kind && row->port == port && row->len == len &&
           (len == 0 || memcmp(buf_chars(&t->texts) + row->text, text, len) == 0);
}

/* Fills the slots under the present seed; of equal rows the first stays. */
static void place_rows(struct name_table *t)
{
    t->longest = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct row *row = &t->rows[i];
        const char *text = buf_chars(&t->texts) + row->text;
        size_t slot = first_slot(t, row->kind, hash_text(t->seed, text, row->len), row->port);
        size_t probes = 1;
        while (t->slots[slot] != 0 &&
               !row_is(t, &t->rows[t->slots[slot] - 1], row->kind, text, row->len, row->port)) {
            slot = (slot + 1) & t->mask;
            probes++;
        }
        if (t->slots[slot] == 0)
            t->slots[slot] = i + 1;
        t->longest = probes > t->longest ? probes : t->longest;
    }
}

void name_table_seal(struct name_table *t)
{
    size_t size = 4;

    assert(!t->sealed);
    buf_cstr(&t->texts); /* gives the texts memory even when all are empty */
    while (size < 4 * t->count)
        size *= 2;
    for (size_t spread = 4; spread <= LARGEST_SPREAD; spread *= 2, size *= 2) {
        free(t->slots);
        t->slots = mem_array(size, sizeof *t->slots);
        t->mask = size - 1;
        for (int i = 0; i < SEEDS_A_SIZE; i++) {
            t->seed = (t->seed + 1) * UINT64_C(0xD1342543DE82EF95);
            memset(t->slots, 0, size * sizeof *t->slots);
            place_rows(t);
            if (t->longest <= PROBE_LIMIT)
                goto out;
        }
    }
out:
    t->sealed = true;
}

static size_t probe(const struct name_table *t, enum name_kind kind, const char *text, size_t len,
                    uint64_t hash, uint32_t port)
{
    size_t slot = first_slot(t, kind, hash, port);
    for (size_t i = 0; i < t->longest && t->slots[slot] != 0; i++) {
        const struct row *row = &t->rows[t->slots[slot] - 1];
        if (row_is(t, row, kind, text, len, port))
            return row->index;
        slot = (slot + 1) & t->mask;
    }
    return NAME_NONE;
}

static size_t probe_ports(const struct name_table *t, enum name_kind kind, const char *text,
                          size_t len, uint64_t hash, uint32_t port)
{
    size_t every = probe(t, kind, text, len, hash, NAME_EVERY_PORT);
    size_t one = port != NAME_EVERY_PORT ? probe(t, kind, text, len, hash, port) : NAME_NONE;
    return every < one ? every : one;
}

size_t name_table_find(const struct name_table *t, enum name_kind kind, const char *text,
                       size_t len, uint32_t port)
{
    assert(t->sealed);
    if (!t->has[kind])
        return NAME_NONE;
    return probe_ports(t, kind, text, len, hash_text(t->seed, text, len), port);
}

size_t name_table_find_under(const struct name_table *t, const char *text, size_t len,
                             uint32_t port)
{
    size_t best = NAME_NONE;
    uint64_t hash = t->seed;

    assert(t->sealed);
    if (!t->has[NAME_UNDER])
        return NAME_NONE;
    for (size_t i = len; i-- > 0;) {
        if (text[i] == '.') {
            size_t found = probe_ports(t, NAME_UNDER, text + i + 1, len - i - 1, hash, port);
            best = found < best ? found : best;
        }
        hash = hash_byte(hash, text[i]);
    }
    return best;
}
