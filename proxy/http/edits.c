#include "proxy/http/edits.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/field.h"
#include "proxy/http/headers.h"

enum { NOT_SET = -1 };

/* A name of which the client's fields go. */
struct edited_name {
    char *folded; /* len bytes */
    size_t len;
    int set; /* index into sets, or NOT_SET */
};

struct set {
    char *name; /* as it is written */
    char **values;
    size_t count, capacity;
};

struct edits {
    struct edited_name *names; /* sorted, each once */
    size_t name_count, name_capacity;
    struct set *sets; /* in the order they are written */
    size_t set_count, set_capacity;
    bool credential; /* its names take no further set */
};

/* Fields that frame the message or are this hop's own. */
static const char *const untouchable[] = {
    "host", "connection", "keep-alive", "proxy-connection", "transfer-encoding",
    "te",   "trailer",    "upgrade",    "content-length",
};

/* Where credentials travel. */
static const char *const credential_names[] = {
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Orders folded names by length, then bytes; `name` need not be folded yet. */
static int compare_folding(const char *name, size_t n, const struct edited_name *with)
{
    if (n != with->len)
        return n < with->len ? -1 : 1;
    for (size_t i = 0; i < n; i++) {
        char c;
        fold_name(&c, name + i, 1);
        if (c != with->folded[i])
            return (unsigned char)c < (unsigned char)with->folded[i] ? -1 : 1;
    }
    return 0;
}

/* True when the name is there; *at is its place, or where it belongs. */
static bool find(const struct edits *e, const char *name, size_t n, size_t *at)
{
    size_t low = 0, high = e->name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_folding(name, n, &e->names[middle]);
        if (order == 0) {
            *at = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    *at = low;
    return false;
}

static bool is_one_of(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct edited_name entry = {.folded = (char *)(uintptr_t)list[i],
                                          .len = strlen(list[i])};
        if (compare_folding(name, strlen(name), &entry) == 0)
            return true;
    }
    return false;
}

static bool may_touch(const char *name)
{
    return http_is_token(name, strlen(name)) && !is_one_of(name, untouchable, COUNT(untouchable));
}

/* An array with room for one more; doubling keeps the number of moves small. */
static void *grown(void *array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 8 : *capacity * 2;
    return mem_resize(array, *capacity, size);
}

/* The entry of a name, made when it is not there. */
static struct edited_name *entry_of(struct edits *e, const char *name)
{
    size_t n = strlen(name), at;
    if (find(e, name, n, &at))
        return &e->names[at];
    e->names = grown(e->names, e->name_count, &e->name_capacity, sizeof *e->names);
    memmove(e->names + at + 1, e->names + at, (e->name_count - at) * sizeof *e->names);
    e->name_count++;
    struct edited_name *entry = &e->names[at];
    *entry = (struct edited_name){.folded = mem_alloc(n), .len = n, .set = NOT_SET};
    fold_name(entry->folded, name, n);
    return entry;
}

static void drop_values(struct set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        explicit_bzero(set->values[i], strlen(set->values[i]));
        free(set->values[i]);
    }
    set->count = 0;
}

static void add_value(struct edits *e, const char *name, const char *value)
{
    struct edited_name *entry = entry_of(e, name);
    if (entry->set == NOT_SET) {
        e->sets = grown(e->sets, e->set_count, &e->set_capacity, sizeof *e->sets);
        entry->set = (int)e->set_count++;
        struct set *fresh = &e->sets[entry->set];
        *fresh = (struct set){.name = mem_dup(name)};
        for (char *c = fresh->name; *c != 0; c++)
            *c = (char)text_lower((unsigned char)*c);
    }
    struct set *set = &e->sets[entry->set];
    set->values = grown(set->values, set->count, &set->capacity, sizeof *set->values);
    set->values[set->count++] = mem_dup(value);
}

/* A byte that would end the line early never gets into it. */
static bool is_value(const char *value)
{
    for (const char *c = value; *c != 0; c++)
        if (!byte_is((uint8_t)*c, BYTE_TEXT))
            return false;
    return true;
}

struct edits *edits_new(void)
{
    return mem_alloc(sizeof(struct edits));
}

void edits_free(struct edits *e)
{
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->set_count; i++) {
        drop_values(&e->sets[i]);
        free(e->sets[i].values);
        free(e->sets[i].name);
    }
    for (size_t i = 0; i < e->name_count; i++)
        free(e->names[i].folded);
    free(e->sets);
    free(e->names);
    free(e);
}

void edits_remove(struct edits *e, const char *name)
{
    if (may_touch(name))
        entry_of(e, name);
}

void edits_set(struct edits *e, const char *name, const char *value)
{
    if (!may_touch(name))
        return;
    if (!is_value(value) ||
        (e->credential && is_one_of(name, credential_names, COUNT(credential_names))))
        entry_of(e, name);
    else
        add_value(e, name, value);
}

void edits_set_credential(struct edits *e, const char *value)
{
    for (size_t i = 0; i < COUNT(credential_names); i++) {
        const struct edited_name *entry = entry_of(e, credential_names[i]);
        if (entry->set != NOT_SET)
            drop_values(&e->sets[entry->set]);
    }
    if (is_value(value))
        add_value(e, "authorization", value);
    e->credential = true;
}

bool edits_sets_any(const struct edits *e)
{
    return e->set_count != 0;
}

bool edits_drop(const struct edits *e, const char *name, size_t n)
{
    size_t at;
    return find(e, name, n, &at);
}

size_t edits_size(const struct edits *e)
{
    size_t size = 0;
    for (size_t i = 0; i < e->set_count; i++) {
        const struct set *set = &e->sets[i];
        for (size_t k = 0; k < set->count; k++)
            size += strlen(set->name) + strlen(set->values[k]) + sizeof ": \r\n" - 1;
    }
    return size;
}

void edits_write(const struct edits *e, struct buf *out)
{
    for (size_t i = 0; i < e->set_count; i++) {
        const struct set *set = &e->sets[i];
        for (size_t k = 0; k < set->count; k++) {
            buf_puts(out, set->name);
            buf_puts(out, ": ");
            buf_puts(out, set->values[k]);
            buf_puts(out, "\r\n");
        }
    }
}
