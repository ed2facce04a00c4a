/*
 * The walk of the disk for a pattern. It goes by real paths alone and opens
 * nothing but directories. What it carries down is the set of states of
 * glob_machine.h, so that a directory reached through a link goes on with the
 * pattern from where the link stood.
 */
#include "launcher/glob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/glob_machine.h"

enum { NO_LINK = -1 };

/* A link that was descended, or the name of the base. */
struct descent {
    char *link;
    long via;    /* the one that led to it; NO_LINK: none */
    bool needed; /* something was found beneath */
};

/* A directory to list. */
struct visit {
    char *real;
    char *name;       /* the same, by the name an allow is given; NULL in a walk for a deny */
    uint64_t *states; /* what the pattern can become beneath it */
    bool whole;       /* denied as a whole if anything is in it */
    long via;         /* the link that led here, of walk.descents */
};

/* The states a directory was listed for. Each is taken once, so that the walk ends. */
struct listed {
    char *real;
    uint64_t *states;
};

struct walk {
    const struct glob *glob;
    bool deny;
    char *base;           /* its real path */
    struct visit *visits; /* a stack */
    size_t count, room;
    void *listed; /* a tree of struct listed; a deny's alone */
    uint64_t *matched, *beneath, *scratch;
    struct paths found, sealed;
    struct descent *descents; /* a deny's alone */
    size_t descent_count, descent_room;
    struct paths links; /* matched ones */
};

enum node { NODE_DIRECTORY, NODE_LINK, NODE_OTHER, NODE_UNKNOWN, NODE_GONE };

static size_t set_size(const struct walk *w)
{
    return w->glob->words * sizeof(uint64_t);
}

static void push(struct walk *w, char *real, char *name, const uint64_t *states, bool whole,
                 long via)
{
    if (w->count == w->room) {
        w->room = w->room != 0 ? w->room * 2 : 64;
        w->visits = mem_resize(w->visits, w->room, sizeof *w->visits);
    }
    uint64_t *copy = mem_array(w->glob->words, sizeof *copy);
    memcpy(copy, states, set_size(w));
    w->visits[w->count++] =
        (struct visit){.real = real, .name = name, .states = copy, .whole = whole, .via = via};
}

static void visit_free(struct visit *v)
{
    free(v->real);
    free(v->name);
    free(v->states);
}

static int compare_listed(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->real, ((const struct listed *)b)->real);
}

static void listed_free(void *p)
{
    struct listed *l = p;

    free(l->real);
    free(l->states);
    free(l);
}

/* Takes the states the directory was listed for away from the visit. False when none is left. */
static bool take_new_states(struct walk *w, struct visit *v)
{
    struct listed key = {.real = v->real};
    struct listed **slot = tfind(&key, &w->listed, compare_listed);
    uint64_t any = 0;

    if (slot == NULL) {
        struct listed *l = mem_alloc(sizeof *l);
        l->real = mem_dup(v->real);
        l->states = mem_array(w->glob->words, sizeof *l->states);
        slot = tsearch(l, &w->listed, compare_listed);
        if (slot == NULL)
            abort(); /* out of memory, as in base/mem.h */
    }
    for (size_t i = 0; i < w->glob->words; i++) {
        uint64_t states = v->states[i];
        v->states[i] &= ~(*slot)->states[i];
        (*slot)->states[i] |= states;
        any |= v->states[i];
    }
    return any != 0;
}

/* Takes over the link. */
static long add_descent(struct walk *w, char *link, long via)
{
    if (w->descent_count == w->descent_room) {
        w->descent_room = w->descent_room != 0 ? w->descent_room * 2 : 16;
        w->descents = mem_resize(w->descents, w->descent_room, sizeof *w->descents);
    }
    w->descents[w->descent_count] = (struct descent){.link = link, .via = via};
    return (long)w->descent_count++;
}

/* Something was found by way of that link. */
static void need(struct walk *w, long via)
{
    while (via != NO_LINK && !w->descents[via].needed) {
        w->descents[via].needed = true;
        via = w->descents[via].via;
    }
}

/* Denies a place, and all beneath it for good: itself if it can be looked at, else the nearest
 * directory above it that can; never the root. */
static void seal(struct walk *w, const char *place, long via)
{
    struct stat st = {0};
    char *at = mem_dup(place);

    need(w, via);
    while (strcmp(at, "/") != 0 && path_lstat(at, &st) != 0) {
        char *parent = path_parent(at);
        free(at);
        at = parent;
    }
    if (strcmp(at, "/") == 0)
        free(at);
    else
        paths_add(S_ISDIR(st.st_mode) ? &w->sealed : &w->found, at);
}

static void deny(struct walk *w, const struct visit *v, const char *real)
{
    paths_add(&w->found, mem_dup(real));
    need(w, v->via);
}

static int open_once(const char *real)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, AT_FDCWD, real, &how, sizeof how);

    /* Older kernels do not have the call, and a container may refuse it. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return (int)fd;
}

static DIR *open_directory(const char *real)
{
    int fd = open_once(real);

    if (fd < 0 && errno != ENOENT)
        fd = open_once(real);
    if (fd < 0)
        return NULL;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int number = errno;
        close(fd);
        errno = number;
    }
    return dir;
}

static enum node node_of(DIR *dir, const struct dirent *entry)
{
    struct stat st;

    switch (entry->d_type) {
    case DT_DIR:
        return NODE_DIRECTORY;
    case DT_LNK:
        return NODE_LINK;
    case DT_UNKNOWN:
        break;
    default:
        return NODE_OTHER;
    }
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? NODE_GONE : NODE_UNKNOWN;
    return S_ISDIR(st.st_mode) ? NODE_DIRECTORY : S_ISLNK(st.st_mode) ? NODE_LINK : NODE_OTHER;
}

/* The directory `v` and, of its entries, a link decide what is denied. */
static void need_link(struct walk *w, const struct visit *v, const char *link)
{
    paths_add(&w->links, mem_dup(link));
    need(w, v->via);
}

/* A link in the directory `v`, reached with w->matched before and w->beneath after a slash. */
static void take_link(struct walk *w, const struct visit *v, const char *link)
{
    bool matched = glob_ends(w->glob, w->matched) || glob_ends_directory(w->glob, w->matched);
    bool goes_on = glob_goes_on(w->glob, w->beneath);
    struct stat st = {0};

    if (!matched && !goes_on)
        return;
    char *target = path_real(link);
    int number = target != NULL ? path_lstat(target, &st) : errno;
    if (target == NULL || number != 0) {
        if (matched)
            need_link(w, v, link);
        if (matched && !path_is_absence(number))
            seal(w, v->real, v->via);
        free(target);
        return;
    }
    bool directory = S_ISDIR(st.st_mode);
    if (glob_ends(w->glob, w->matched) || (matched && directory)) {
        /* Nothing can be mounted on the root: the link is hidden with what holds it. */
        const char *place = strcmp(target, "/") == 0 ? v->real : target;
        if (strcmp(place, "/") != 0)
            paths_add(&w->found, mem_dup(place));
        need_link(w, v, link);
    }
    /* Beneath a link up the tree lies what the pattern was never aimed at. */
    bool up = path_within(v->real, target) || path_within(w->base, target);
    if (directory && goes_on && !up)
        push(w, target, NULL, w->beneath, false, add_descent(w, mem_dup(link), v->via));
    else
        free(target);
}

static void take_directory(struct walk *w, const struct visit *v, char *real, const char *entry)
{
    if (!glob_goes_on(w->glob, w->beneath)) {
        free(real);
        return;
    }
    char *name = v->name != NULL ? path_join(v->name, entry) : NULL;
    push(w, real, name, w->beneath, w->deny && glob_ends_directory(w->glob, w->matched), v->via);
}

static void take_entry(struct walk *w, const struct visit *v, const char *entry, enum node node)
{
    memcpy(w->matched, v->states, set_size(w));
    if (!glob_step(w->glob, w->matched, w->scratch, entry, strlen(entry)))
        return;
    bool match = glob_ends(w->glob, w->matched);
    if (!match && (node == NODE_OTHER || node == NODE_GONE))
        return;
    memcpy(w->beneath, w->matched, set_size(w));
    glob_step(w->glob, w->beneath, w->scratch, "/", 1);
    bool goes_on = glob_goes_on(w->glob, w->beneath);
    if (!match && !goes_on)
        return;

    char *real = path_join(v->real, entry);
    if (strlen(real) >= PATH_MAX) {
        /* No mount can name it, but a command that goes there step by step can. */
        if (w->deny)
            seal(w, v->real, v->via);
        free(real);
        return;
    }
    if (!w->deny && match)
        paths_add(&w->found, path_join(v->name, entry));
    if (w->deny && node == NODE_LINK)
        take_link(w, v, real);
    else if (w->deny && node == NODE_UNKNOWN)
        seal(w, real, v->via);
    else if (w->deny && match)
        deny(w, v, real);
    if (node == NODE_DIRECTORY)
        take_directory(w, v, real, entry);
    else
        free(real);
}

static void list_directory(struct walk *w, const struct visit *v)
{
    struct dirent *entry;
    bool empty = true;
    DIR *dir = open_directory(v->real);

    if (dir == NULL) {
        if (w->deny && errno != ENOENT)
            seal(w, v->real, v->via);
        return;
    }
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        empty = false;
        take_entry(w, v, entry->d_name, node_of(dir, entry));
    }
    if (errno != 0 && errno != ENOENT && w->deny)
        seal(w, v->real, v->via);
    closedir(dir);
    if (v->whole && !empty && strcmp(v->real, "/") != 0)
        deny(w, v, v->real);
}

/* For a base that is there but cannot be looked at. */
static void seal_above(struct walk *w, const char *base)
{
    char *at = mem_dup(base), *real = NULL;

    while (real == NULL && strcmp(at, "/") != 0) {
        char *parent = path_parent(at);
        free(at);
        at = parent;
        real = path_real(at);
    }
    if (real != NULL)
        seal(w, real, NO_LINK);
    free(real);
    free(at);
}

/* The literal directory the walk starts from, with the states it is reached in. */
static void push_base(struct walk *w, const char *base)
{
    long via = NO_LINK;

    w->base = path_real(base);
    int number = errno;
    if (w->deny && w->base == NULL)
        paths_add(&w->links, mem_dup(base)); /* the links as far as they lead */
    else if (w->deny && strcmp(w->base, base) != 0)
        via = add_descent(w, mem_dup(base), NO_LINK);
    if (w->base == NULL) {
        if (w->deny && !path_is_absence(number))
            seal_above(w, base);
        return;
    }
    glob_start(w->glob, w->beneath);
    glob_step(w->glob, w->beneath, w->scratch, base, strlen(base));
    glob_step(w->glob, w->beneath, w->scratch, "/", 1);
    push(w, mem_dup(w->base), w->deny ? NULL : mem_dup(base), w->beneath, false, via);
}

static void walk_pattern(struct walk *w, const struct pattern_reading *pattern)
{
    struct glob *glob = glob_new(pattern->text, pattern->anchor);

    w->glob = glob;
    w->matched = mem_array(glob->words, sizeof *w->matched);
    w->beneath = mem_array(glob->words, sizeof *w->beneath);
    w->scratch = mem_array(glob->words, sizeof *w->scratch);
    if (glob->base != 0) {
        char *base = mem_dup_n(pattern->text, glob->base);
        push_base(w, base);
        free(base);
    }
    while (w->count != 0) {
        struct visit v = w->visits[--w->count];
        if (!w->deny || take_new_states(w, &v))
            list_directory(w, &v);
        visit_free(&v);
    }
    free(w->visits);
    free(w->matched);
    free(w->beneath);
    free(w->scratch);
    free(w->base);
    tdestroy(w->listed, listed_free);
    glob_free(glob);
    paths_sort(&w->found);
    paths_sort(&w->sealed);
}

/* Moves a sorted list to the end of another, without what is in `except`, sorted too. */
static void move(struct paths *from, struct paths *to, const struct paths *except)
{
    size_t k = 0;

    for (size_t i = 0; i < from->count; i++) {
        int order = 1;
        while (k < except->count && (order = strcmp(except->list[k], from->list[i])) < 0)
            k++;
        if (k < except->count && order == 0)
            free(from->list[i]);
        else
            paths_add(to, from->list[i]);
    }
    from->count = 0;
    paths_free(from);
}

void glob_expand_deny(const struct pattern_reading *pattern, struct paths *denied,
                      struct paths *sealed, struct paths *links)
{
    static const struct paths none;
    struct walk w = {.deny = true};

    walk_pattern(&w, pattern);
    move(&w.found, denied, &w.sealed);
    move(&w.sealed, sealed, &none);
    for (size_t i = 0; i < w.descent_count; i++) {
        if (w.descents[i].needed)
            paths_add(&w.links, w.descents[i].link);
        else
            free(w.descents[i].link);
    }
    free(w.descents);
    paths_sort(&w.links);
    move(&w.links, links, &none);
}

void glob_expand_allow(const struct pattern_reading *pattern, struct paths *allowed)
{
    static const struct paths none;
    struct walk w = {.deny = false};

    walk_pattern(&w, pattern);
    move(&w.found, allowed, &none);
}
