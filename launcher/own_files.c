#include "launcher/own_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void add(struct paths *out, const char *path)
{
    if (path != NULL && path[0] != '\0')
        paths_add(out, mem_dup(path));
}

/* A log is a path, unless it names a descriptor. */
static void add_log(struct paths *out, const char *target)
{
    if (target != NULL && strcmp(target, "-") != 0 && strncmp(target, "fd:", 3) != 0)
        add(out, target);
}

void own_files(const struct command_line *line, const struct dependencies *d, int inside,
               const char *log, const char *socket, struct paths *out)
{
    char link[32];

    add(out, line->settings);
    paths_add(out, path_join(path_home(), ".srt-settings.json"));
    paths_add(out, realpath("/proc/self/exe", NULL));
    snprintf(link, sizeof link, "/proc/self/fd/%d", inside);
    paths_add(out, realpath(link, NULL));
    add(out, d->bwrap);
    add_log(out, log);
    add_log(out, line->violations);
    add(out, socket);
    out->list = mem_resize(out->list, out->count + 1, sizeof *out->list);
    out->room = out->count + 1;
    out->list[out->count] = NULL;
}
