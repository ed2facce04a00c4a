#include "proxy/http/connection_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/field.h"

static uint8_t fold(uint8_t c, bool folded)
{
    return folded && (c == '_' || c == '.') ? '-' : text_lower(c);
}

static int compare(const struct connection_name *a, const struct connection_name *b, bool folded)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    for (size_t i = 0; i < a->len; i++) {
        int difference = fold(a->text[i], folded) - fold(b->text[i], folded);
        if (difference != 0)
            return difference;
    }
    return 0;
}

static int compare_plain(const void *a, const void *b)
{
    return compare(a, b, false);
}

static int compare_folded(const void *a, const void *b)
{
    return compare(a, b, true);
}

static void add(struct connection_names *set, const uint8_t *text, size_t len)
{
    if (set->count == set->capacity) {
        struct connection_name *more = mem_array(set->capacity * 2, sizeof *more);
        memcpy(more, set->names, set->count * sizeof *more);
        if (set->names != set->few)
            free(set->names);
        set->names = more;
        set->capacity *= 2;
    }
    set->names[set->count++] = (struct connection_name){text, len};
}

void connection_names_init(struct connection_names *set, const struct head *h, const uint8_t *p,
                           bool folded)
{
    set->names = set->few;
    set->capacity = CONNECTION_NAMES_FEW;
    set->count = 0;
    set->folded = folded;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (f->id != FIELD_CONNECTION)
            continue;
        const uint8_t *at = p + f->value.at, *end = at + f->value.len, *name;
        size_t len;
        uint8_t once;
        while (list_next(&at, end, &name, &len)) {
            if (!field_id_is_hop_by_hop(field_identify(name, len, &once)))
                add(set, name, len);
        }
    }
    if (set->count > 1)
        qsort(set->names, set->count, sizeof *set->names, folded ? compare_folded : compare_plain);
}

void connection_names_free(struct connection_names *set)
{
    if (set->names != set->few)
        free(set->names);
    set->names = NULL;
    set->count = 0;
}

bool connection_names_have(const struct connection_names *set, const uint8_t *name, size_t n)
{
    const struct connection_name key = {name, n};
    return set->count != 0 && bsearch(&key, set->names, set->count, sizeof *set->names,
                                      set->folded ? compare_folded : compare_plain) != NULL;
}
