#include "launcher/path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

bool path_is_absence(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP || number == ENAMETOOLONG;
}

static bool is_transient(int number)
{
    return number == EIO || number == ESTALE || number == EMFILE || number == ENFILE ||
           number == EAGAIN;
}

int path_lstat(const char *path, struct stat *st)
{
    if (lstat(path, st) == 0)
        return 0;
    if (!is_transient(errno))
        return errno;
    return lstat(path, st) == 0 ? 0 : errno;
}

int path_stat(const char *path, struct stat *st)
{
    if (stat(path, st) == 0)
        return 0;
    if (!is_transient(errno))
        return errno;
    return stat(path, st) == 0 ? 0 : errno;
}

/* A lookup under way: real[0..length) is as far as it got, "" being the root. */
struct way {
    char *real;
    size_t length, room;
    char *rest; /* what is still to go, relative to real */
    const char *at;
    unsigned links;
};

static void way_grow(struct way *w, size_t more)
{
    if (w->length + more + 2 <= w->room)
        return;
    w->room = (w->length + more + 2) * 2;
    w->real = mem_resize(w->real, w->room, 1);
}

static void way_push(struct way *w, const char *name, size_t n)
{
    way_grow(w, n + 1);
    w->real[w->length++] = '/';
    memcpy(w->real + w->length, name, n);
    w->length += n;
    w->real[w->length] = '\0';
}

static void way_pop(struct way *w)
{
    while (w->length > 0 && w->real[--w->length] != '/')
        continue;
    w->real[w->length] = '\0';
}

/* "", "." or "..": only a directory that can be searched has them. */
static int way_dots(struct way *w, size_t n)
{
    struct stat st;
    size_t length = w->length;

    way_push(w, ".", 1);
    int number = path_lstat(w->real, &st);
    w->length = length;
    w->real[length] = '\0';
    if (number == 0 && n == 2)
        way_pop(w);
    return number;
}

static ssize_t read_link(const char *path, char *target, size_t size)
{
    ssize_t n = readlink(path, target, size);

    return n < 0 && is_transient(errno) ? readlink(path, target, size) : n;
}

static int way_name(struct way *w, size_t n)
{
    char target[PATH_MAX];
    size_t length = w->length;

    if (!text_utf8_valid(w->at, n))
        return EILSEQ;
    way_push(w, w->at, n);
    ssize_t k = read_link(w->real, target, sizeof target);
    if (k < 0)
        return errno == EINVAL ? 0 : errno; /* EINVAL: there, and no link */
    if (++w->links > PATH_LINKS_MAX)
        return ELOOP;
    if (k == 0)
        return ENOENT;
    if ((size_t)k >= sizeof target)
        return ENAMETOOLONG;
    w->length = target[0] == '/' ? 0 : length;
    w->real[w->length] = '\0';

    const char *after = w->at + n; /* "" or "/..." */
    size_t m = strlen(after);
    char *rest = mem_alloc((size_t)k + m + 1);
    memcpy(rest, target, (size_t)k);
    memcpy(rest + k, after, m + 1);
    free(w->rest);
    w->rest = rest;
    w->at = rest;
    return -1;
}

static int way_walk(struct way *w)
{
    /* A link's target is put before the rest and read from its start again. */
    for (;;) {
        size_t n = strcspn(w->at, "/");
        bool dots =
            n == 0 || (n == 1 && w->at[0] == '.') || (n == 2 && w->at[0] == '.' && w->at[1] == '.');
        int number = dots ? way_dots(w, n) : way_name(w, n);
        if (number > 0)
            return number;
        if (number < 0)
            continue;
        if (w->at[n] == '\0')
            return 0;
        w->at += n + 1;
    }
}

char *path_real(const char *path)
{
    struct way w = {.rest = path_fold(path)};

    w.at = w.rest;
    way_grow(&w, strlen(w.rest));
    w.real[0] = '\0';
    int number = way_walk(&w);
    free(w.rest);
    if (number != 0) {
        free(w.real);
        errno = number;
        return NULL;
    }
    if (w.length == 0)
        way_push(&w, "", 0);
    return w.real;
}

char *path_canonical(const char *path)
{
    char *real = path_real(path);

    return real != NULL ? real : mem_dup(path);
}

char *path_name_location(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash[1] == '\0')
        return mem_dup(path);
    char *parent = path_parent(path);
    char *real = path_canonical(parent);
    char *location = path_join(real, slash + 1);
    free(parent);
    free(real);
    return location;
}

char *path_resolve(const char *entry, const char *directory, const char *home)
{
    char *spelled = path_spell(entry, directory, home);

    if (spelled == NULL)
        return NULL;
    char *real = path_real(spelled);
    if (real == NULL)
        return spelled;
    char *folded = path_fold(spelled);
    bool inside = path_within(real, folded);
    free(folded);
    if (!inside) {
        free(real);
        return spelled;
    }
    free(spelled);
    return real;
}
