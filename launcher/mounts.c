#include "launcher/mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "launcher/mounts_internal.h"

enum { WARNING_MAX = 64 * 1024 };

void mount_list_add(struct mount_list *l, enum mount_kind kind, enum mount_reason reason,
                    const char *source, const char *place)
{
    if (l->count == l->room) {
        l->room = l->room == 0 ? 32 : l->room * 2;
        l->list = mem_resize(l->list, l->room, sizeof *l->list);
    }
    l->list[l->count++] = (struct mount){.kind = kind,
                                         .reason = reason,
                                         .source = source != NULL ? mem_dup(source) : NULL,
                                         .place = mem_dup(place)};
}

void mount_list_free(struct mount_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->list[i].source);
        free(l->list[i].place);
    }
    free(l->list);
    *l = (struct mount_list){0};
}

bool plan_is_private_tree(const char *path)
{
    return path_within(path, "/dev") || path_within(path, "/proc");
}

int plan_lstat_hidden(const struct planner *p, const char *path, mode_t *mode, bool *standin)
{
    struct stat st;
    int number = path_lstat(path, &st);
    *standin = false;
    if (number != 0)
        return number;
    *mode = st.st_mode;
    /* A stand-in is a socket node or a directory, or an empty file where there are no sockets. */
    bool may_be =
        S_ISSOCK(st.st_mode) || S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size == 0);
    *standin = may_be && p->o->is_standin != NULL && p->o->is_standin(p->o->standin_ctx, path);
    return *standin && !S_ISDIR(st.st_mode) ? ENOENT : 0;
}

int plan_lstat(const struct planner *p, const char *path, mode_t *mode)
{
    bool standin;
    int number = plan_lstat_hidden(p, path, mode, &standin);
    return standin ? ENOENT : number;
}

void plan_add_standin(struct planner *p, const char *path, bool directory, bool optional)
{
    struct mounts *out = p->out;
    if (out->standin_count == out->standin_room) {
        out->standin_room = out->standin_room == 0 ? 16 : out->standin_room * 2;
        out->standins = mem_resize(out->standins, out->standin_room, sizeof *out->standins);
    }
    out->standins[out->standin_count++] =
        (struct standin){.path = mem_dup(path), .directory = directory, .optional = optional};
}

void plan_warn(struct planner *p, const char *key, const char *text, const char *what)
{
    struct buf line;
    buf_init(&line, WARNING_MAX);
    if (buf_printf(&line, "%s: \"%s\" %s", key, text, what))
        paths_add(&p->out->warnings, mem_dup(buf_cstr(&line)));
    buf_free(&line);
}

bool plan_stopped(struct planner *p)
{
    if (p->o->stopped == NULL || !p->o->stopped(p->o->ctx))
        return false;
    buf_puts(p->error, "interrupted");
    return true;
}

static void planner_free(struct planner *p)
{
    for (size_t i = 0; i < p->read_entry_count; i++)
        readings_free(&p->read_entries[i].readings);
    free(p->read_entries);
    for (size_t i = 0; i < p->allow_entry_count; i++)
        readings_free(&p->allow_entries[i]);
    free(p->allow_entries);
    paths_free(&p->allowed);
    path_index_free(&p->allowed_index);
    for (size_t i = 0; i < p->write_name_count; i++)
        free(p->write_names[i].name);
    free(p->write_names);
    free(p->own_directory);

    path_index_free(&p->directories);
    paths_free(&p->links);
    path_index_free(&p->link_index);

    paths_free(&p->read_allowed);
    for (size_t i = 0; i < p->place_count; i++)
        free(p->places[i].place);
    free(p->places);
    path_index_free(&p->place_index);
    path_index_free(&p->hidden_index);
    path_index_free(&p->sealed_index);
    path_index_free(&p->credential_index);
    for (size_t i = 0; i < p->allowance_count; i++) {
        free(p->allowances[i].location);
        free(p->allowances[i].source);
    }
    free(p->allowances);
    mount_list_free(&p->allows);
    mount_list_free(&p->reads);
    view_free(&p->view);

    for (size_t i = 0; i < p->target_count; i++)
        free(p->targets[i].place);
    free(p->targets);
    path_index_free(&p->parents);
    path_index_free(&p->denied_directories);
    path_index_free(&p->sure);
    mount_list_free(&p->pins);
    mount_list_free(&p->covers);
    mount_list_free(&p->denies);
}

bool mounts_plan(const struct mounts_options *o, struct mounts *out, struct buf *error)
{
    struct planner p = {.o = o,
                        .spelled = {.directory = o->directory, .home = o->home},
                        .out = out,
                        .error = error};

    *out = (struct mounts){0};
    if (o->settings->filesystem_disabled) {
        out->root_writable = true;
        paths_add(&out->write_allowed, mem_dup("/"));
        return true;
    }
    if (o->private_directory != NULL) {
        p.own_directory = path_real(o->private_directory);
        if (p.own_directory != NULL && plan_is_private_tree(p.own_directory))
            MEM_FREE(p.own_directory);
    }
    bool ok = lists_collect(&p) && reads_collect(&p);
    if (ok)
        reads_mount(&p);
    ok = ok && writes_resolve(&p);
    if (ok) {
        pins_collect(&p);
        for (size_t i = 0; i < p.allowed.count; i++)
            paths_add(&out->write_allowed, mem_dup(p.allowed.list[i]));
        if (o->temporary != NULL)
            paths_add(&out->write_allowed, mem_dup(o->temporary));
        order_mounts(&p);
    }
    planner_free(&p);
    if (!ok)
        mounts_free(out);
    return ok;
}

void mounts_free(struct mounts *m)
{
    struct mount_list mounts = {.list = m->list, .count = m->count};
    mount_list_free(&mounts);
    for (size_t i = 0; i < m->standin_count; i++)
        free(m->standins[i].path);
    free(m->standins);
    paths_free(&m->write_allowed);
    paths_free(&m->write_denied);
    paths_free(&m->read_hidden);
    paths_free(&m->warnings);
    *m = (struct mounts){0};
}

bool mounts_visible(const struct mounts *m, const char *path)
{
    if (plan_is_private_tree(path))
        return false;
    for (size_t i = m->count; i > 0; i--) {
        const struct mount *top = &m->list[i - 1];
        if (top->kind != MOUNT_PIN_LINK && path_within(path, top->place))
            return top->source != NULL && strcmp(top->source, top->place) == 0;
    }
    return true;
}
