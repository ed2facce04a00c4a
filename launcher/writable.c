#include "launcher/writable.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/entry.h"
#include "launcher/mounts.h"
#include "launcher/path.h"

struct write_lists {
    struct paths allowed, denied;
};

static void add_entries(const struct path_list *list, enum entry_use use, const struct place *place,
                        struct paths *out)
{
    for (size_t i = 0; i < list->count; i++)
        entry_write_names(&list->entries[i], use, place, out, NULL);
}

static void collect(const struct sandbox_settings *s, struct write_lists *out)
{
    char *directory = getcwd(NULL, 0);
    const struct place place = {.directory = directory != NULL ? directory : "/",
                                .home = path_home()};

    if (s->filesystem_disabled) {
        paths_add(&out->allowed, mem_dup("/"));
    } else {
        for (const char *const *name = mounts_default_writes; *name != NULL; name++)
            paths_add(&out->allowed, path_resolve(*name, place.directory, place.home));
        add_entries(&s->allow_write, ENTRY_ALLOW, &place, &out->allowed);
        add_entries(&s->deny_write, ENTRY_DENY, &place, &out->denied);
    }
    free(directory);
}

/* The file can be written, or renamed away at some directory up to `root`. */
static bool can_replace(const char *path, const char *root)
{
    char *at = mem_dup(path);
    bool can = false;

    for (;;) {
        can = faccessat(AT_FDCWD, at, W_OK, AT_EACCESS) == 0;
        if (can || strcmp(at, root) == 0 || strcmp(at, "/") == 0)
            break;
        char *parent = path_parent(at);
        free(at);
        at = parent;
    }
    free(at);
    return can;
}

static bool opened(const struct write_lists *lists, const char *path)
{
    if (paths_cover(&lists->denied, path))
        return false;
    for (size_t i = 0; i < lists->allowed.count; i++)
        if (path_within(path, lists->allowed.list[i]) && can_replace(path, lists->allowed.list[i]))
            return true;
    return false;
}

bool writable_by_command(const struct sandbox_settings *s, const char *path)
{
    struct write_lists lists = {0};
    char *location = path_name_location(path);
    char *real = path_canonical(path);
    bool result = false;

    /* An ordinary user can write nothing of the system's: no need to look at the settings. */
    if (can_replace(location, "/") || can_replace(real, "/")) {
        collect(s, &lists);
        if (geteuid() != 0 || !paths_has(&lists.allowed, "/"))
            result = opened(&lists, location) || opened(&lists, real);
    }
    paths_free(&lists.allowed);
    paths_free(&lists.denied);
    free(location);
    free(real);
    return result;
}
