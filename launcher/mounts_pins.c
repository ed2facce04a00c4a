#include "launcher/mounts_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A place no longer has its name when a directory above it is renamed. So each of those is bound
 * on itself, which the kernel refuses to rename, under mounts that lookups meet first. Chapter 50
 * section 7.4. */
struct pinning {
    struct planner *p;
    bool root; /* "/" is writable: its own mount would be above the pins */
    struct path_index seen;
    struct paths pins, covers;
};

static bool is_kernels(const char *path)
{
    return path_within(path, "/proc") || path_within(path, "/dev") || path_within(path, "/sys");
}

/* True when the directory's own ancestors may need a pin too. */
static bool pin_one(struct pinning *g, const char *directory)
{
    if (strcmp(directory, "/") == 0 || path_index_get(&g->seen, directory) != PATH_INDEX_NONE ||
        !path_index_covers(&g->p->allowed_index, directory))
        return false;
    path_index_set(&g->seen, directory, 0);
    if (g->root && path_depth(directory) == 1)
        paths_add(&g->covers, mem_dup(directory));
    else if (g->root || path_index_get(&g->p->allowed_index, directory) == PATH_INDEX_NONE)
        paths_add(&g->pins, mem_dup(directory));
    return true;
}

static void pin_above(struct pinning *g, const char *place)
{
    if (is_kernels(place))
        return;
    char *directory = path_parent(place);
    while (pin_one(g, directory)) {
        char *parent = path_parent(directory);
        free(directory);
        directory = parent;
    }
    free(directory);
}

struct pin {
    const char *path;
    size_t depth, order;
};

static int compare_pins(const void *left, const void *right)
{
    const struct pin *a = left, *b = right;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void add_pins(struct pinning *g)
{
    struct pin *order = mem_array(g->pins.count + 1, sizeof *order);
    for (size_t i = 0; i < g->pins.count; i++) {
        const char *path = g->pins.list[i];
        order[i] = (struct pin){.path = path, .depth = path_depth(path), .order = i};
    }
    qsort(order, g->pins.count, sizeof *order, compare_pins);
    for (size_t i = 0; i < g->pins.count; i++)
        mount_list_add(&g->p->pins, MOUNT_READ_ONLY, REASON_PIN, order[i].path, order[i].path);
    for (size_t i = 0; i < g->covers.count; i++)
        mount_list_add(&g->p->covers, MOUNT_WRITABLE, REASON_PIN, g->covers.list[i],
                       g->covers.list[i]);
    free(order);
}

void pins_collect(struct planner *p)
{
    struct pinning g = {.p = p, .root = path_index_get(&p->allowed_index, "/") != PATH_INDEX_NONE};

    for (size_t i = 0; i < p->target_count; i++)
        pin_above(&g, p->targets[i].place);
    for (size_t i = 0; i < p->reads.count; i++) {
        if (p->reads.list[i].source == NULL)
            pin_above(&g, p->reads.list[i].place);
    }
    for (size_t i = 0; i < p->links.count; i++) {
        const char *link = p->links.list[i];
        if (!writes_is_covered(p, link) && !view_is(&p->view, link, MOUNT_HIDE_DIRECTORY))
            pin_above(&g, link);
    }
    if (p->own_directory != NULL)
        pin_above(&g, p->own_directory);
    add_pins(&g);
    path_index_free(&g.seen);
    paths_free(&g.pins);
    paths_free(&g.covers);
}
