#include "launcher/mounts_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void deny(struct planner *p, struct path_index *denied, enum mount_reason reason,
                 const char *place)
{
    mount_list_add(&p->denies, MOUNT_READ_ONLY, reason, place, place);
    path_index_set(denied, place, 0);
}

/* Write paths bound back beneath a place that itself is hidden or read-only already. */
static void deny_beneath(struct planner *p, struct path_index *denied, const char *place,
                         enum mount_reason reason)
{
    for (size_t i = allowances_from(p, place);
         i < p->allowance_count && path_within(p->allowances[i].location, place); i++) {
        const char *location = p->allowances[i].location;
        if (p->allowances[i].writable && path_beneath(location, place) &&
            path_index_get(denied, location) == PATH_INDEX_NONE &&
            view_is(&p->view, location, MOUNT_WRITABLE))
            deny(p, denied, reason, location);
    }
}

/* Over the read section, as far as what that hides stays hidden. Chapter 50 section 8.4. */
static void deny_target(struct planner *p, struct path_index *denied, const struct write_target *t)
{
    const struct view_mount *seen = view_at(&p->view, t->place);
    bool writable = seen == NULL || seen->kind == MOUNT_WRITABLE;

    if (t->unmakeable)
        return;
    if (!writable) {
        deny_beneath(p, denied, t->place, t->reason);
        return;
    }
    if (t->missing)
        plan_add_standin(p, t->place, t->directory, t->optional);
    deny(p, denied, t->reason, t->place);
}

/* What a write-deny laid bare is hidden again: directories first, so that a file in what they
 * bind back comes after them. */
static void hide_again(struct planner *p, const struct path_index *denied)
{
    for (size_t i = 0; i < p->reads.count; i++) {
        if (p->reads.list[i].kind == MOUNT_HIDE_DIRECTORY &&
            path_index_covers_strictly(denied, p->reads.list[i].place, NULL))
            reads_repeat(p, i, &p->denies);
    }
    for (size_t i = 0; i < p->reads.count; i++) {
        const struct mount *m = &p->reads.list[i];
        if (m->kind == MOUNT_HIDE_FILE && path_index_covers(denied, m->place))
            mount_list_add(&p->denies, m->kind, m->reason, NULL, m->place);
    }
}

static void take(struct mounts *out, struct mount_list *from)
{
    if (out->count + from->count > out->room) {
        out->room = out->count + from->count;
        out->list = mem_resize(out->list, out->room, sizeof *out->list);
    }
    if (from->count > 0)
        memcpy(out->list + out->count, from->list, from->count * sizeof *from->list);
    out->count += from->count;
    MEM_FREE(from->list);
    *from = (struct mount_list){0};
}

/* A link that a rule goes through could be replaced by the command, where it can write. */
static void pin_links(struct planner *p, struct mount_list *last)
{
    for (size_t i = 0; i < p->links.count; i++) {
        const char *link = p->links.list[i];
        if (view_is(&p->view, link, MOUNT_WRITABLE))
            mount_list_add(last, MOUNT_PIN_LINK, REASON_PIN, link, link);
    }
}

static void add_hidden(struct planner *p, const struct mount_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        if (l->list[i].kind == MOUNT_HIDE_DIRECTORY &&
            view_is(&p->view, l->list[i].place, MOUNT_HIDE_DIRECTORY))
            paths_add(&p->out->read_hidden, mem_dup(l->list[i].place));
    }
}

void order_mounts(struct planner *p)
{
    struct path_index denied = {0};
    struct mount_list temporary = {0}, last = {0};
    bool root = path_index_get(&p->allowed_index, "/") != PATH_INDEX_NONE;

    for (size_t i = 0; i < p->target_count; i++)
        deny_target(p, &denied, &p->targets[i]);
    hide_again(p, &denied);
    path_index_free(&denied);
    for (size_t i = 0; i < p->denies.count; i++)
        view_add(&p->view, &p->denies.list[i]);
    add_hidden(p, &p->reads);
    if (p->o->temporary != NULL) {
        mount_list_add(&temporary, MOUNT_HIDE_DIRECTORY, REASON_OWN, NULL, p->o->temporary);
        view_add(&p->view, &temporary.list[0]);
    }
    pin_links(p, &last);
    if (p->own_directory != NULL && !view_is(&p->view, p->own_directory, MOUNT_HIDE_DIRECTORY)) {
        mount_list_add(&last, MOUNT_HIDE_DIRECTORY, REASON_OWN, NULL, p->own_directory);
        paths_add(&p->out->read_hidden, mem_dup(p->own_directory));
    }

    take(p->out, root ? &p->allows : &p->pins);
    take(p->out, root ? &p->pins : &p->allows);
    take(p->out, &p->covers);
    take(p->out, &p->reads);
    take(p->out, &p->denies);
    take(p->out, &temporary);
    take(p->out, &last);
}
