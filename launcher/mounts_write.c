#include "launcher/mounts_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"

/* The target at a place, made when it is new. */
static struct write_target *claim(struct planner *p, struct path_index *ix, const char *place,
                                  enum mount_reason reason)
{
    long at = path_index_get(ix, place);
    if (at == PATH_INDEX_NONE) {
        if (p->target_count == p->target_room) {
            p->target_room = p->target_room == 0 ? 64 : p->target_room * 2;
            p->targets = mem_resize(p->targets, p->target_room, sizeof *p->targets);
        }
        at = (long)p->target_count++;
        p->targets[at] =
            (struct write_target){.place = mem_dup(place), .reason = reason, .obstacle = true};
        path_index_set(ix, place, at);
    }
    return &p->targets[at];
}

/* `path` is missing but for its first `existing` bytes; "/" alone counts as none. */
static void add_missing(struct planner *p, struct path_index *ix, const char *path, size_t existing,
                        enum mount_reason reason)
{
    size_t start = existing == 1 ? 1 : existing + 1;
    size_t end = start + strcspn(path + start, "/");
    char *first = mem_dup_n(path, end);
    struct write_target *t = claim(p, ix, first, reason);
    t->missing = true;
    t->obstacle = false;
    t->directory |= path[end] == '/';
    free(first);
}

static void add_walk(struct planner *p, struct path_index *ix, const struct walk *w,
                     enum mount_reason reason)
{
    if (w->end == WALK_MISSING && !w->through_file) {
        add_missing(p, ix, w->place, w->existing, reason);
    } else if (w->end != WALK_NOWHERE) {
        char *place = w->end == WALK_MISSING ? mem_dup_n(w->place, w->existing) : mem_dup(w->place);
        struct write_target *t = claim(p, ix, place, reason);
        t->directory = !w->through_file && S_ISDIR(w->mode);
        t->linked |= w->links.count > 0;
        t->obstacle = t->obstacle && w->through_file;
        free(place);
    }
    for (size_t i = 0; i < w->passed.count; i++) {
        char *parent = path_parent(w->passed.list[i]);
        add_missing(p, ix, w->passed.list[i], strlen(parent), reason);
        free(parent);
    }
}

static bool is_working_directorys(const struct planner *p, const char *name)
{
    size_t n = strlen(p->o->directory);
    if (!path_beneath(name, p->o->directory))
        return false;
    const char *rest = name + (n == 1 ? 1 : n + 1);
    return strchr(rest, '/') == NULL || strncmp(rest, ".git/", 5) == 0 ||
           strncmp(rest, ".claude/", 8) == 0;
}

/* What a violation is judged by: names as written and where they land, without those of the walk
 * below the working directory. */
static void add_denied_name(struct planner *p, const struct write_name *name, const struct walk *w)
{
    if (name->text == NULL && !is_working_directorys(p, name->name))
        return;
    paths_add(&p->out->write_denied, mem_dup(name->name));
    if (w->place != NULL && strcmp(w->place, name->name) != 0)
        paths_add(&p->out->write_denied, mem_dup(w->place));
}

static bool add_name(struct planner *p, struct path_index *ix, const struct write_name *name)
{
    struct walk w;
    walk_path(p, name->name, WALK_AS_WRITE, &w);
    const char *link = walk_replaceable_link(p, &w);
    bool enforceable = w.end != WALK_NOWHERE || link == NULL;
    if (!enforceable)
        buf_printf(p->error,
                   "%s \"%s\" cannot be enforced: the symbolic link %s leads in a circle or to a "
                   "name that is not UTF-8",
                   name->text != NULL ? "filesystem.denyWrite" : "the protected name",
                   name->text != NULL ? name->text : name->name, link);
    add_denied_name(p, name, &w);
    add_walk(p, ix, &w, name->text != NULL ? REASON_DENY_WRITE : REASON_MANDATORY);
    if (enforceable)
        walk_keep_links(p, &w);
    walk_free(&w);
    return enforceable;
}

/* A file of ours that the next run would go by: what it says, and where its name leads. */
static void add_own_file(struct planner *p, struct path_index *ix, const char *file)
{
    struct stat st;
    struct walk w;
    char *path = file[0] == '/' ? mem_dup(file) : path_join(p->o->directory, file);
    if (path_stat(path, &st) == 0) {
        walk_path(p, path, WALK_AS_OPENED, &w);
        if (w.end == WALK_EXISTS) {
            char *name = path_fold(path);
            paths_add(&p->out->write_denied, mem_dup(w.place));
            if (strcmp(name, w.place) != 0)
                paths_add(&p->out->write_denied, mem_dup(name));
            free(name);
            add_walk(p, ix, &w, REASON_OWN);
            walk_keep_links(p, &w);
        }
        walk_free(&w);
    }
    free(path);
}

/* Which write-denied directories stay read-only whatever the read rules do. */
static void index_sure(struct planner *p)
{
    struct path_index restored = {0}; /* allowed write paths in a read-denied directory */
    for (size_t i = 0; i < p->allowed.count; i++) {
        if (path_index_covers(&p->hidden_index, p->allowed.list[i]))
            path_index_set(&restored, p->allowed.list[i], 0);
    }
    for (size_t i = 0; i < p->target_count; i++) {
        const struct write_target *t = &p->targets[i];
        if (t->missing || !t->directory)
            continue;
        path_index_set(&p->denied_directories, t->place, 0);
        if (strcmp(t->place, "/") == 0)
            p->root_denied = true;
        else if (!path_index_covers(&p->hidden_index, t->place) &&
                 !path_index_beneath(&restored, t->place))
            path_index_set(&p->sure, t->place, 0);
    }
    path_index_free(&restored);
}

bool writes_is_covered(const struct planner *p, const char *path)
{
    if (p->root_denied && strcmp(path, "/") != 0 && !path_index_covers(&p->hidden_index, path))
        return true;
    return path_index_covers_strictly(&p->sure, path, NULL);
}

static bool needs_mount(const struct planner *p, const struct write_target *t)
{
    bool allowed = path_index_covers(&p->allowed_index, t->place);
    if (plan_is_private_tree(t->place))
        return false;
    /* A mount point cannot be replaced, and what is in an obstacle's way may be written. With "/"
     * writable the cover of the top directory buries it. */
    if (t->obstacle && path_index_get(&p->allowed_index, t->place) != PATH_INDEX_NONE &&
        path_index_get(&p->allowed_index, "/") == PATH_INDEX_NONE)
        return false;
    if (!allowed && (t->missing || !path_index_beneath(&p->allowed_index, t->place)))
        return false;
    /* Beneath a denied directory all ends up read-only or hidden, whatever is bound back there: a
     * stand-in has nothing to add. A mount of what exists is kept where that is not as plain. */
    if (t->missing || t->obstacle)
        return !path_index_covers_strictly(&p->denied_directories, t->place, NULL);
    return t->linked || !writes_is_covered(p, t->place);
}

/* What is known of a directory in which a name is missing. */
enum parent_trait {
    PARENT_REFUSES = 1, /* nobody can make one: no stand-in of ours, nothing of the command's */
    PARENT_UNKNOWN = 2  /* only trying tells */
};

static long look_at_parent(const char *parent)
{
    struct stat st;
    struct statfs fs;
    long traits = 0;

    /* The owner can give itself the right that lacks. */
    if (faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) != 0 &&
        (errno == EROFS || errno == EPERM ||
         (errno == EACCES && path_stat(parent, &st) == 0 && st.st_uid != geteuid())))
        traits |= PARENT_REFUSES;
    if (statfs(parent, &fs) == 0 && fs.f_type == V9FS_MAGIC)
        traits |= PARENT_UNKNOWN;
    return traits;
}

static void look_around(struct planner *p, struct write_target *t)
{
    char *parent = path_parent(t->place);
    const char *slash = strrchr(t->place, '/');
    long traits = path_index_get(&p->parents, parent);
    if (traits == PATH_INDEX_NONE) {
        traits = look_at_parent(parent);
        path_index_set(&p->parents, parent, traits);
    }
    t->unmakeable = (traits & PARENT_REFUSES) != 0 || strlen(slash + 1) > NAME_MAX;
    t->optional = (traits & PARENT_UNKNOWN) != 0;
    free(parent);
}

static void filter_targets(struct planner *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->target_count; i++) {
        struct write_target *t = &p->targets[i];
        if (needs_mount(p, t)) {
            if (t->missing)
                look_around(p, t);
            p->targets[kept++] = *t;
        } else {
            MEM_FREE(t->place);
        }
    }
    p->target_count = kept;
}

bool writes_resolve(struct planner *p)
{
    struct path_index targets = {0};
    bool ok = true;

    for (size_t i = 0; ok && i < p->write_name_count; i++) {
        const struct write_name *name = &p->write_names[i];
        if (plan_is_private_tree(name->name))
            continue;
        ok = !(i % 256 == 0 && plan_stopped(p)) && add_name(p, &targets, name);
    }
    for (size_t i = 0; ok && p->o->protected_files != NULL && p->o->protected_files[i] != NULL; i++)
        add_own_file(p, &targets, p->o->protected_files[i]);
    path_index_free(&targets);
    if (!ok)
        return false;
    index_sure(p);
    filter_targets(p);
    return true;
}
