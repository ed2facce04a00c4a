#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "proxy/policy/address.h"

struct address_set {
    struct address_range *ranges; /* once sealed: ascending and apart from each other */
    size_t count, room;
    bool sealed;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct address_range *left = a, *right = b;
    return address_compare(&left->first, &right->first);
}

struct address_set *address_set_new(void)
{
    return mem_alloc(sizeof(struct address_set));
}

void address_set_free(struct address_set *set)
{
    if (set == NULL)
        return;
    free(set->ranges);
    free(set);
}

void address_set_add(struct address_set *set, const struct address_range *range)
{
    assert(!set->sealed);
    if (set->count == set->room) {
        set->room = set->room != 0 ? 2 * set->room : 8;
        set->ranges = mem_resize(set->ranges, set->room, sizeof *set->ranges);
    }
    set->ranges[set->count++] = *range;
}

void address_set_seal(struct address_set *set)
{
    size_t kept = 0;

    if (set->count > 1)
        qsort(set->ranges, set->count, sizeof *set->ranges, compare_ranges);
    for (size_t i = 0; i < set->count; i++) {
        struct address_range *top = kept != 0 ? &set->ranges[kept - 1] : NULL;
        /* A range never spans families, so an overlap implies one family. */
        if (top != NULL && address_compare(&set->ranges[i].first, &top->last) <= 0) {
            if (address_compare(&set->ranges[i].last, &top->last) > 0)
                top->last = set->ranges[i].last;
        } else {
            set->ranges[kept++] = set->ranges[i];
        }
    }
    set->count = kept;
    set->sealed = true;
}

bool address_set_has(const struct address_set *set, const struct address *a)
{
    size_t low = 0, high = set->count;

    assert(set->sealed);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (address_compare(a, &set->ranges[middle].first) < 0)
            high = middle;
        else if (address_compare(a, &set->ranges[middle].last) > 0)
            low = middle + 1;
        else
            return true;
    }
    return false;
}
