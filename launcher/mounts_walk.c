#include "launcher/mounts_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

/* Names passed that are not there, before the way counts as a cycle. */
enum { MISSING_MAX = 40 };

struct way {
    struct planner *p;
    enum walk_as as;
    struct walk *out;
    char *at;      /* where it stands: an existing path, "" for the root */
    mode_t mode;   /* of that */
    bool standin;  /* it stands in for a name some run protects */
    char *missing; /* components below `at` that are not there, "/a/b"; NULL: none */
    char *rest;    /* still to go */
    unsigned links, ups;
};

static void replace(char **s, char *by)
{
    free(*s);
    *s = by;
}

static char *concat(const char *a, const char *b, const char *c)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char *s = mem_alloc(size);
    snprintf(s, size, "%s%s%s", a, b, c);
    return s;
}

static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}

/* Takes the next component off `rest`; NULL at the end. The caller frees. */
static char *next_component(struct way *way)
{
    const char *s = way->rest + strspn(way->rest, "/");
    size_t n = strcspn(s, "/");
    if (n == 0)
        return NULL;
    char *name = mem_dup_n(s, n);
    replace(&way->rest, mem_dup(s + n));
    return name;
}

/* The end of a way in a missing path: what exists, plus what is not there. */
static void end_missing(struct way *way, const char *more, bool through_file)
{
    struct walk *w = way->out;
    w->end = WALK_MISSING;
    w->place = concat(way->at, way->missing != NULL ? way->missing : "", more);
    w->existing = way->at[0] == '\0' ? 1 : strlen(way->at);
    w->through_file = through_file;
}

static void end_at(struct way *way, enum walk_end end)
{
    way->out->end = end;
    way->out->mode = way->mode;
    way->out->standin = way->standin;
    way->out->place = mem_dup(way->at[0] == '\0' ? "/" : way->at);
}

/* Follows the link at `path`, a name in `at`. False when it leads nowhere. */
static bool follow(struct way *way, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0 || ++way->links > PATH_LINKS_MAX ||
        (way->as == WALK_AS_WRITE && !text_utf8_valid(target, (size_t)n)))
        return false;
    target[n] = '\0';
    replace(&way->rest, concat(target, "/", way->rest));
    if (target[0] == '/') {
        way->at[0] = '\0';
        way->mode = S_IFDIR;
    }
    return true;
}

/* Below a name that is not there. True when the way is over. */
static bool step_missing(struct way *way, const char *name)
{
    if (strcmp(name, "..") != 0) {
        replace(&way->missing, concat(way->missing, "/", name));
        return false;
    }
    if (++way->ups > MISSING_MAX) {
        way->out->end = WALK_NOWHERE;
        return true;
    }
    char *passed = concat(way->at, way->missing, "");
    cut_last(way->missing);
    if (way->missing[0] == '\0') {
        MEM_FREE(way->missing);
        paths_add(&way->out->passed, passed);
    } else {
        free(passed);
    }
    return false;
}

/* Looks at what is there; a directory once for all the ways that pass it. */
static int look(const struct way *way, const char *path, mode_t *mode, bool *standin)
{
    struct planner *p = way->p;
    *mode = S_IFDIR;
    *standin = false;
    if (path_index_get(&p->directories, path) != PATH_INDEX_NONE)
        return 0;
    int number = way->as == WALK_AS_WRITE ? plan_lstat(p, path, mode)
                                          : plan_lstat_hidden(p, path, mode, standin);
    if (number == 0 && S_ISDIR(*mode) && !*standin)
        path_index_set(&p->directories, path, 0);
    return number;
}

/* A name in the existing directory `at`. True when the way is over. */
static bool step_existing(struct way *way, const char *name)
{
    if (!S_ISDIR(way->mode)) {
        char *more = concat("/", name, way->rest);
        end_missing(way, more, true);
        free(more);
        return true;
    }
    if (strcmp(name, "..") == 0) {
        cut_last(way->at);
        way->standin = false;
        return false;
    }
    char *path = concat(way->at, "/", name);
    mode_t mode;
    bool standin;
    int number = look(way, path, &mode, &standin);
    if (number == 0 && S_ISLNK(mode)) {
        paths_add(&way->out->links, path);
        if (follow(way, path))
            return false;
        way->out->end = WALK_NOWHERE;
        return true;
    }
    if (number == 0) {
        way->mode = mode;
        way->standin = standin;
        replace(&way->at, path);
        return false;
    }
    free(path);
    if (!path_is_absence(number)) {
        end_at(way, WALK_UNSEARCHABLE);
        return true;
    }
    way->missing = concat("/", name, "");
    return false;
}

static void walk_text(struct planner *p, const char *path, enum walk_as as, struct walk *w)
{
    struct way way = {
        .p = p, .as = as, .out = w, .at = mem_dup(""), .mode = S_IFDIR, .rest = mem_dup(path)};
    bool over = false;
    char *name;

    *w = (struct walk){0};
    while (!over && (name = next_component(&way)) != NULL) {
        if (strcmp(name, ".") != 0)
            over = way.missing != NULL ? step_missing(&way, name) : step_existing(&way, name);
        free(name);
    }
    if (!over && way.missing != NULL)
        end_missing(&way, "", false);
    else if (!over)
        end_at(&way, WALK_EXISTS);
    free(way.at);
    free(way.missing);
    free(way.rest);
}

void walk_path(struct planner *p, const char *path, enum walk_as as, struct walk *w)
{
    if (as == WALK_AS_OPENED) {
        walk_text(p, path, as, w);
        return;
    }
    char *folded = path_fold(path);
    walk_text(p, folded, as, w);
    /* Only a name that exists has its dots folded in the text. */
    if (w->end != WALK_EXISTS && strcmp(folded, path) != 0) {
        walk_free(w);
        walk_text(p, path, as, w);
    }
    free(folded);
}

static bool is_replaceable(const struct planner *p, const char *link)
{
    return path_index_covers(&p->allowed_index, link) && !plan_is_private_tree(link);
}

const char *walk_replaceable_link(const struct planner *p, const struct walk *w)
{
    for (size_t i = 0; i < w->links.count; i++) {
        if (is_replaceable(p, w->links.list[i]))
            return w->links.list[i];
    }
    return NULL;
}

void walk_keep_links(struct planner *p, const struct walk *w)
{
    for (size_t i = 0; i < w->links.count; i++) {
        const char *link = w->links.list[i];
        if (is_replaceable(p, link) && path_index_get(&p->link_index, link) == PATH_INDEX_NONE) {
            path_index_set(&p->link_index, link, 0);
            paths_add(&p->links, mem_dup(link));
        }
    }
}

void walk_free(struct walk *w)
{
    MEM_FREE(w->place);
    paths_free(&w->passed);
    paths_free(&w->links);
}
