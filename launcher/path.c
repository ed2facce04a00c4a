#include "launcher/path.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

bool path_within(const char *path, const char *root)
{
    size_t n = strlen(root);

    if (n == 1 && root[0] == '/')
        return path[0] == '/';
    return strncmp(path, root, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_beneath(const char *path, const char *root)
{
    return path_within(path, root) && strcmp(path, root) != 0;
}

const char *path_home(void)
{
    const char *home = getenv("HOME");
    if (home != NULL)
        return home;
    const struct passwd *user = getpwuid(getuid());
    return user != NULL && user->pw_dir != NULL ? user->pw_dir : "";
}

char *path_join(const char *directory, const char *name)
{
    size_t n = strlen(directory), m = strlen(name);
    bool slash = n == 0 || directory[n - 1] != '/';
    char *path = mem_alloc(n + m + 2);

    memcpy(path, directory, n + 1);
    if (slash)
        path[n++] = '/';
    memcpy(path + n, name, m + 1);
    return path;
}

char *path_parent(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path)
        return mem_dup("/");
    return mem_dup_n(path, (size_t)(slash - path));
}

size_t path_depth(const char *path)
{
    size_t depth = 0;

    for (const char *p = path; *p != '\0'; p++)
        depth += *p == '/' && p[1] != '/' && p[1] != '\0';
    return depth;
}

/* Appends the components of `s` to the absolute path out[0..n), which has room. Empty ones and "."
 * go; ".." takes one away when `fold`, else it is kept as written. Returns the new length. */
static size_t append_components(char *out, size_t n, const char *s, bool fold)
{
    while (*s != '\0') {
        size_t k = strcspn(s, "/");
        bool up = k == 2 && s[0] == '.' && s[1] == '.';
        if (up && fold) {
            while (n > 0 && out[--n] != '/')
                continue;
        } else if (k != 0 && !(k == 1 && s[0] == '.')) {
            out[n++] = '/';
            memcpy(out + n, s, k);
            n += k;
        }
        s += k + (s[k] == '/');
    }
    return n;
}

static char *finish(char *out, size_t n)
{
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
    return out;
}

char *path_fold(const char *path)
{
    char *out = mem_alloc(strlen(path) + 2);

    return finish(out, append_components(out, 0, path, true));
}

char *path_spell(const char *entry, const char *directory, const char *home)
{
    const char *rest = entry;
    const char *front = "";
    char *out;
    size_t n = 0;

    if (entry[0] == '~' && (entry[1] == '\0' || entry[1] == '/')) {
        front = home;
        rest = entry + 1;
        if (home[0] == '\0' && strspn(rest, "/") == strlen(rest))
            return NULL;
    }
    if (entry[0] == '\0')
        return NULL;
    const char *first = front[0] != '\0' ? front : rest;
    bool relative = first[0] != '/';
    out = mem_alloc(strlen(directory) + strlen(front) + strlen(rest) + 4);
    if (relative)
        n = append_components(out, n, directory, true);
    n = append_components(out, n, front, relative);
    n = append_components(out, n, rest, relative);
    return finish(out, n);
}

void paths_add(struct paths *p, char *path)
{
    if (path == NULL)
        return;
    if (p->count == p->room) {
        p->room = p->room != 0 ? p->room * 2 : 16;
        p->list = mem_resize(p->list, p->room, sizeof *p->list);
    }
    p->list[p->count++] = path;
}

bool paths_has(const struct paths *p, const char *path)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->list[i], path) == 0)
            return true;
    }
    return false;
}

bool paths_cover(const struct paths *p, const char *path)
{
    for (size_t i = 0; i < p->count; i++) {
        if (path_within(path, p->list[i]))
            return true;
    }
    return false;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void paths_sort(struct paths *p)
{
    size_t kept = 0;

    if (p->count == 0)
        return;
    qsort(p->list, p->count, sizeof *p->list, compare_paths);
    for (size_t i = 1; i < p->count; i++) {
        if (strcmp(p->list[i], p->list[kept]) == 0)
            free(p->list[i]);
        else
            p->list[++kept] = p->list[i];
    }
    p->count = kept + 1;
}

void paths_free(struct paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->list[i]);
    MEM_FREE(p->list);
    p->count = p->room = 0;
}
