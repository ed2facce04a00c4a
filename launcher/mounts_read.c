#include "launcher/mounts_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "launcher/glob.h"

/* An entry while its places are collected. */
struct denial {
    bool credential;
    bool any;          /* it is a name, or matches something */
    bool private_tree; /* some of it is where nothing can be hidden */
};

/* What is known of a place. */
enum place_trait { PLACE_DIRECTORY = 1, PLACE_SEALED = 2, PLACE_UNLISTED = 4, PLACE_STANDIN = 8 };

static unsigned traits_of(mode_t mode, bool standin)
{
    return (S_ISDIR(mode) ? PLACE_DIRECTORY : 0U) | (standin ? PLACE_STANDIN : 0U);
}

static void add_place(struct planner *p, const char *path, unsigned traits, struct denial *d)
{
    d->private_tree |= plan_is_private_tree(path);
    if (strcmp(path, "/") == 0 || plan_is_private_tree(path))
        return;
    long at = path_index_get(&p->place_index, path);
    if (at == PATH_INDEX_NONE) {
        if (p->place_count == p->place_room) {
            p->place_room = p->place_room == 0 ? 64 : p->place_room * 2;
            p->places = mem_resize(p->places, p->place_room, sizeof *p->places);
        }
        at = (long)p->place_count++;
        p->places[at] = (struct read_place){.place = mem_dup(path),
                                            .directory = (traits & PLACE_DIRECTORY) != 0};
        path_index_set(&p->place_index, path, at);
    }
    struct read_place *place = &p->places[at];
    place->credential |= d->credential;
    place->unlisted |= (traits & PLACE_UNLISTED) != 0;
    place->standin |= (traits & PLACE_STANDIN) != 0;
    if (traits & PLACE_DIRECTORY)
        path_index_set(&p->hidden_index, path, at);
    if (traits & PLACE_SEALED)
        path_index_set(&p->sealed_index, path, at);
    if (d->credential)
        path_index_set(&p->credential_index, path, at);
}

/* A name that leads to "/": the link is hidden with the directory that holds it. */
static void add_holder(struct planner *p, const char *name, struct denial *d)
{
    char *parent = path_parent(name);
    char *real = path_canonical(parent);
    add_place(p, real, PLACE_DIRECTORY | PLACE_SEALED, d);
    free(parent);
    free(real);
}

static void add_name(struct planner *p, const char *name, struct denial *d)
{
    struct walk w;
    walk_path(p, name, WALK_AS_READ, &w);
    if (w.end == WALK_EXISTS && strcmp(w.place, "/") == 0)
        add_holder(p, name, d);
    else if (w.end == WALK_EXISTS)
        add_place(p, w.place, traits_of(w.mode, w.standin), d);
    else if (w.end == WALK_UNSEARCHABLE)
        add_place(p, w.place, PLACE_DIRECTORY | PLACE_SEALED, d);
    else if (w.end == WALK_MISSING)
        d->private_tree |= plan_is_private_tree(w.place);
    walk_keep_links(p, &w);
    walk_free(&w);
}

/* The names of allowRead, and what they lead to. */
static void index_read_allowed(const struct planner *p, struct path_index *ix)
{
    for (size_t i = 0; i < p->read_allowed.count; i++) {
        char *real = path_canonical(p->read_allowed.list[i]);
        path_index_set(ix, p->read_allowed.list[i], 0);
        path_index_set(ix, real, 0);
        free(real);
    }
}

static bool is_made_anew(const char *child)
{
    static const char *const names[] = {".", "..", "proc", "dev", "sys"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(child, names[i]) == 0)
            return true;
    }
    return false;
}

/* An entry "/" is each child of it that the box does not make anew and no allowRead covers. */
static bool add_root(struct planner *p, struct denial *d)
{
    DIR *dir = opendir("/");
    struct dirent *e;
    struct path_index allowed = {0};
    struct paths children = {0};

    if (dir == NULL) {
        buf_printf(p->error, "denyRead \"/\": the root directory cannot be listed (%s)",
                   strerror(errno));
        return false;
    }
    if (!d->credential)
        index_read_allowed(p, &allowed);
    while ((e = readdir(dir)) != NULL) {
        if (!is_made_anew(e->d_name))
            paths_add(&children, path_join("/", e->d_name));
    }
    paths_sort(&children);
    for (size_t i = 0; i < children.count; i++) {
        char *real = path_canonical(children.list[i]);
        if (!path_index_covers(&allowed, children.list[i]) && !path_index_covers(&allowed, real))
            add_name(p, children.list[i], d);
        free(real);
    }
    paths_free(&children);
    path_index_free(&allowed);
    closedir(dir);
    return true;
}

static void keep_links(struct planner *p, const char *name)
{
    struct walk w;
    walk_path(p, name, WALK_AS_READ, &w);
    walk_keep_links(p, &w);
    walk_free(&w);
}

static void add_pattern(struct planner *p, const struct pattern_reading *pattern, struct denial *d)
{
    struct paths denied = {0}, sealed = {0}, links = {0};
    mode_t mode;
    bool standin;

    glob_expand_deny(pattern, &denied, &sealed, &links);
    d->any = d->any || denied.count > 0 || sealed.count > 0;
    for (size_t i = 0; i < sealed.count; i++)
        add_place(p, sealed.list[i], PLACE_DIRECTORY | PLACE_SEALED | PLACE_UNLISTED, d);
    for (size_t i = 0; i < denied.count; i++) {
        int number = plan_lstat_hidden(p, denied.list[i], &mode, &standin);
        if (number == 0)
            add_place(p, denied.list[i], traits_of(mode, standin), d);
        else if (!path_is_absence(number))
            add_name(p, denied.list[i], d);
    }
    for (size_t i = 0; i < links.count; i++)
        keep_links(p, links.list[i]);
    paths_free(&denied);
    paths_free(&sealed);
    paths_free(&links);
}

static bool add_entry(struct planner *p, const struct read_entry *e)
{
    struct denial d = {.credential = e->credential,
                       .any = e->readings.names.count > 0 || e->readings.pattern_count == 0};

    for (size_t i = 0; i < e->readings.names.count; i++) {
        const char *name = e->readings.names.list[i];
        if (strcmp(name, "/") != 0)
            add_name(p, name, &d);
        else if (!add_root(p, &d))
            return false;
    }
    for (size_t i = 0; i < e->readings.pattern_count; i++)
        add_pattern(p, &e->readings.patterns[i], &d);
    if (!d.any)
        plan_warn(p, e->key, e->text, "matches nothing now, so it hides nothing");
    if (d.private_tree)
        plan_warn(p, e->key, e->text, "hides nothing in /proc and /dev, where no rule applies");
    return true;
}

static void add_allowance(struct planner *p, const char *location, const char *source,
                          bool writable, bool own)
{
    if (p->allowance_count == p->allowance_room) {
        p->allowance_room = p->allowance_room == 0 ? 64 : p->allowance_room * 2;
        p->allowances = mem_resize(p->allowances, p->allowance_room, sizeof *p->allowances);
    }
    p->allowances[p->allowance_count] = (struct allowance){.location = mem_dup(location),
                                                           .source = mem_dup(source),
                                                           .writable = writable,
                                                           .readable = !writable,
                                                           .own = own,
                                                           .order = p->allowance_count};
    p->allowance_count++;
}

/* Does the name go through a link that the command could aim at something hidden? */
static bool can_be_aimed(struct planner *p, const char *name)
{
    struct walk w;
    walk_path(p, name, WALK_AS_READ, &w);
    bool can = walk_replaceable_link(p, &w) != NULL;
    walk_free(&w);
    return can;
}

/* What the name leads to is not open for writing, and with that for reading, anyway. */
static bool is_missed(const struct planner *p, const char *name)
{
    char *real = path_real(name);
    bool missed = real != NULL && !path_index_covers(&p->allowed_index, real);
    free(real);
    return missed;
}

static void collect_read_allowed(struct planner *p)
{
    static const char why[] = "is not opened for reading where a symbolic link that the command "
                              "may replace is on the way; name what it leads to";
    for (size_t i = 0; i < p->allow_entry_count; i++) {
        const struct readings *r = &p->allow_entries[i];
        struct paths names = {0};
        bool missed = false;
        for (size_t n = 0; n < r->names.count; n++)
            paths_add(&names, mem_dup(r->names.list[n]));
        for (size_t n = 0; n < r->pattern_count; n++)
            glob_expand_allow(&r->patterns[n], &names);
        for (size_t n = 0; n < names.count; n++) {
            if (can_be_aimed(p, names.list[n])) {
                missed = missed || is_missed(p, names.list[n]);
            } else {
                paths_add(&p->read_allowed, names.list[n]);
                names.list[n] = NULL;
            }
        }
        paths_free(&names);
        if (missed && p->read_entry_count > 0)
            plan_warn(p, "filesystem.allowRead", p->o->settings->allow_read.entries[i].text, why);
    }
}

static void allow_read(struct planner *p, const char *name, bool own)
{
    char *source = path_real(name);
    mode_t mode;
    if (source != NULL && plan_lstat(p, source, &mode) == 0) {
        char *location = path_name_location(name);
        add_allowance(p, location, source, false, own);
        free(location);
    }
    free(source);
}

/* By bytes, the slash before all others: what is beneath a path follows it at once. */
static int compare_paths(const char *a, const char *b)
{
    size_t i = 0;
    while (a[i] != '\0' && a[i] == b[i])
        i++;
    int x = a[i] == '/' ? 1 : (unsigned char)a[i] * 2;
    int y = b[i] == '/' ? 1 : (unsigned char)b[i] * 2;
    return x - y;
}

static int compare_allowances(const void *left, const void *right)
{
    const struct allowance *a = left, *b = right;
    int by_path = compare_paths(a->location, b->location);
    if (by_path != 0)
        return by_path;
    if (a->writable != b->writable)
        return a->writable ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* One of each location: a writable one, else the first. An own one stays beside a writable one,
 * which cannot stand in for it under a credential deny. */
static void unite_allowances(struct planner *p)
{
    size_t kept = 0;
    if (p->allowance_count == 0)
        return;
    qsort(p->allowances, p->allowance_count, sizeof *p->allowances, compare_allowances);
    for (size_t i = 0; i < p->allowance_count; i++) {
        struct allowance *a = &p->allowances[i];
        struct allowance *last = kept > 0 ? &p->allowances[kept - 1] : NULL;
        if (last != NULL && strcmp(last->location, a->location) == 0 &&
            !(last->writable && a->own)) {
            last->own |= a->own;
            last->readable |= a->readable;
            free(a->location);
            free(a->source);
        } else {
            p->allowances[kept++] = *a;
        }
    }
    p->allowance_count = kept;
}

bool reads_collect(struct planner *p)
{
    static const char ssh[] = "/etc/ssh/ssh_config.d";
    mode_t mode;

    collect_read_allowed(p);
    for (size_t i = 0; i < p->read_entry_count; i++) {
        if (plan_stopped(p) || !add_entry(p, &p->read_entries[i]))
            return false;
    }
    /* ssh refuses files whose owner has no name in the box. */
    if (plan_lstat(p, ssh, &mode) == 0 && path_index_get(&p->place_index, ssh) == PATH_INDEX_NONE) {
        size_t before = p->place_count;
        struct denial d = {.any = true};
        add_name(p, ssh, &d);
        for (size_t i = before; i < p->place_count; i++)
            p->places[i].own = true;
    }

    for (size_t i = 0; i < p->allowed.count; i++)
        add_allowance(p, p->allowed.list[i], p->allowed.list[i], true, false);
    for (size_t i = 0; i < p->read_allowed.count; i++)
        allow_read(p, p->read_allowed.list[i], false);
    for (size_t i = 0; p->o->readable != NULL && p->o->readable[i] != NULL; i++) {
        if (!can_be_aimed(p, p->o->readable[i]))
            allow_read(p, p->o->readable[i], true);
    }
    unite_allowances(p);
    return true;
}

size_t allowances_from(const struct planner *p, const char *place)
{
    size_t low = 0, high = p->allowance_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_paths(p->allowances[middle].location, place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool in_index(const struct path_index *ix, const struct allowance *a)
{
    return path_index_covers(ix, a->location) || path_index_covers(ix, a->source);
}

/* May it be bound back into the directory hidden at `place`? Its location is in there. */
static bool is_bound_back(const struct planner *p, const struct allowance *a, const char *place)
{
    if (!path_within(a->source, place) || in_index(&p->sealed_index, a) ||
        (!a->own && in_index(&p->credential_index, a)))
        return false;
    if (strcmp(a->location, a->source) == 0)
        return true;
    /* A second way to what it leads to must not go round another deny. */
    bool same = path_index_get(&p->place_index, a->source) != PATH_INDEX_NONE &&
                strcmp(a->source, place) != 0;
    return !same && !path_index_covers_strictly(&p->place_index, a->source, place) &&
           !path_index_beneath(&p->place_index, a->source);
}

/* Shallow first; of one depth in the order of the lists. */
struct by_depth {
    size_t depth, order, at;
};

static int compare_by_depth(const void *left, const void *right)
{
    const struct by_depth *a = left, *b = right;
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static void add_read_mount(struct planner *p, enum mount_kind kind, enum mount_reason reason,
                           const char *source, const char *place)
{
    mount_list_add(&p->reads, kind, reason, source, place);
    view_add(&p->view, &p->reads.list[p->reads.count - 1]);
}

static void bind_back(struct planner *p, const char *place)
{
    size_t first = allowances_from(p, place), last = first, count = 0;
    while (last < p->allowance_count && path_within(p->allowances[last].location, place))
        last++;
    if (first == last)
        return;
    struct by_depth *back = mem_array(last - first, sizeof *back);
    struct path_index writable = {0}, bound = {0};
    for (size_t i = first; i < last; i++) {
        const struct allowance *a = &p->allowances[i];
        if (is_bound_back(p, a, place))
            back[count++] =
                (struct by_depth){.depth = path_depth(a->location), .order = a->order, .at = i};
    }
    qsort(back, count, sizeof *back, compare_by_depth);
    for (size_t i = 0; i < count; i++) {
        const struct allowance *a = &p->allowances[back[i].at];
        /* Where the directory of a link is bound back the link is there, and mounts follow it. */
        if (strcmp(a->location, a->source) != 0 &&
            path_index_covers_strictly(&bound, a->location, NULL))
            continue;
        path_index_set(&bound, a->location, 0);
        if (a->writable) {
            add_read_mount(p, MOUNT_WRITABLE, REASON_ALLOW_WRITE, a->source, a->location);
            path_index_set(&writable, a->location, 0);
        } else if (!path_index_covers(&writable, a->location)) {
            add_read_mount(p, MOUNT_READ_ONLY, a->own ? REASON_OWN : REASON_ALLOW_READ, a->source,
                           a->location);
        }
    }
    path_index_free(&writable);
    path_index_free(&bound);
    free(back);
}

/* A file's deny gives way to an allowRead of that same file. */
static bool is_lifted(const struct planner *p, const struct read_place *place)
{
    for (size_t i = allowances_from(p, place->place); i < p->allowance_count; i++) {
        const struct allowance *a = &p->allowances[i];
        if (strcmp(a->location, place->place) != 0)
            return false;
        if (a->readable && (a->own || !place->credential))
            return true;
    }
    return false;
}

static void mount_place(struct planner *p, const struct read_place *place)
{
    enum mount_reason reason = place->credential ? REASON_CREDENTIAL
                               : place->own      ? REASON_OWN
                                                 : REASON_DENY_READ;
    if (view_is(&p->view, place->place, MOUNT_HIDE_DIRECTORY))
        return;
    if (place->directory) {
        if (place->standin)
            plan_add_standin(p, place->place, true, false);
        add_read_mount(p, MOUNT_HIDE_DIRECTORY, reason, NULL, place->place);
        bind_back(p, place->place);
    } else if (!is_lifted(p, place)) {
        add_read_mount(p, MOUNT_HIDE_FILE, reason, NULL, place->place);
    }
}

/* The place whose mount hides this one, too, as nothing is allowed on the way from there;
 * PATH_INDEX_NONE: it has a mount of its own. */
static long hider_of(const struct planner *p, const struct path_index *locations, const char *place)
{
    char *at = mem_dup(place);
    long above = PATH_INDEX_NONE;
    bool allowed = path_index_get(locations, at) != PATH_INDEX_NONE;
    while (!allowed && above == PATH_INDEX_NONE && strcmp(at, "/") != 0) {
        char *parent = path_parent(at);
        free(at);
        at = parent;
        above = path_index_get(&p->hidden_index, at);
        allowed = path_index_get(locations, at) != PATH_INDEX_NONE;
    }
    free(at);
    return allowed ? PATH_INDEX_NONE : above;
}

/* A mount that hides what could not be looked at hides all beneath it for good, also where it is
 * the mount of a place above. `order` has the deepest last. Chapter 50 section 5.5. */
static void spread_seals(struct planner *p, const struct by_depth *order)
{
    struct path_index locations = {0};
    for (size_t i = 0; i < p->allowance_count; i++)
        path_index_set(&locations, p->allowances[i].location, 0);
    for (size_t i = p->place_count; i > 0; i--) {
        const struct read_place *place = &p->places[order[i - 1].at];
        long hider = place->unlisted ? hider_of(p, &locations, place->place) : PATH_INDEX_NONE;
        if (hider != PATH_INDEX_NONE) {
            p->places[hider].unlisted = true;
            path_index_set(&p->sealed_index, p->places[hider].place, hider);
        }
    }
    path_index_free(&locations);
}

void reads_mount(struct planner *p)
{
    for (size_t i = 0; i < p->allowed.count; i++) {
        const char *path = p->allowed.list[i];
        mount_list_add(&p->allows, MOUNT_WRITABLE, REASON_ALLOW_WRITE, path, path);
        view_add(&p->view, &p->allows.list[i]);
    }
    struct by_depth *order = mem_array(p->place_count + 1, sizeof *order);
    for (size_t i = 0; i < p->place_count; i++)
        order[i] = (struct by_depth){.depth = path_depth(p->places[i].place), .order = i, .at = i};
    qsort(order, p->place_count, sizeof *order, compare_by_depth);
    spread_seals(p, order);
    for (size_t i = 0; i < p->place_count; i++)
        mount_place(p, &p->places[order[i].at]);
    free(order);
}

void reads_repeat(const struct planner *p, size_t at, struct mount_list *out)
{
    const struct mount *m = &p->reads.list[at];
    mount_list_add(out, m->kind, m->reason, NULL, m->place);
    for (size_t i = at + 1; i < p->reads.count; i++) {
        m = &p->reads.list[i];
        if (m->source == NULL)
            break;
        mount_list_add(out, MOUNT_READ_ONLY, m->reason, m->source, m->place);
    }
}
