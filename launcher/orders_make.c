#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/run_internal.h"
#include "seccomp/filters.h"

static uint32_t flags_of(const struct run *r)
{
    const struct plan *p = &r->plan;
    uint32_t flags = 0;

    if (!p->by_bubblewrap)
        flags |= ORDER_MOUNT;
    if (p->mounts.root_writable)
        flags |= ORDER_ROOT_WRITABLE;
    if (p->new_session)
        flags |= ORDER_NEW_SESSION;
    if (p->weaker_nested)
        flags |= ORDER_KEEP_PROC;
    if (!p->nested_namespaces)
        flags |= ORDER_NO_USER_NAMESPACES;
    /* The kernel lets a box within the box mount its /proc only where nothing covers ours. An
     * ordinary user's uid opens none of those files for writing anyway. */
    if (!p->nested_namespaces || geteuid() == 0)
        flags |= ORDER_COVER_SYSTEM;
    if (p->observe)
        flags |= ORDER_OBSERVE;
    if (isatty(STDOUT_FILENO))
        flags |= ORDER_CONSOLE;
    if (r->line->control_fd >= 0)
        flags |= ORDER_NULL_FD;
    if (r->asking != NULL && asking_has_keys(r->asking))
        flags |= ORDER_TERMINAL;
    return flags;
}

static const char *fallback_directory(void)
{
    const char *home = getenv("HOME");
    return home != NULL && home[0] == '/' ? home : "/";
}

bool orders_make(const struct run *r, struct orders_made *made, struct buf *error)
{
    const struct plan *p = &r->plan;
    const struct mounts *m = &p->mounts;

    buf_init(&made->filter, 1 << 20);
    buf_init(&made->observer, 1 << 20);
    made->mounts = mem_array(m->count, sizeof *made->mounts);
    for (size_t i = 0; i < m->count; i++)
        made->mounts[i] = (struct order_mount){.kind = (uint8_t)m->list[i].kind,
                                               .source = m->list[i].source,
                                               .place = m->list[i].place};
    if ((p->filters != 0 && !filters_build(p->filters, &made->filter, error)) ||
        (p->observe && !filters_build_observer(&made->observer, error)))
        return false;

    const char *argv[] = {p->shell, "-c", "--", p->command, NULL};
    for (size_t i = 0; i < sizeof argv / sizeof argv[0]; i++)
        made->argv[i] = argv[i];
    made->orders = (struct orders){
        .flags = flags_of(r),
        .null_fd = r->line->control_fd,
        .ignored_signals = signals_ignored(r->signals),
        .program = p->shell,
        .directory = p->directory,
        .fallback = fallback_directory(),
        .argv = made->argv,
        .envp = (const char *const *)p->environment,
        .mounts = made->mounts,
        .mount_count = m->count,
        .filter = buf_data(&made->filter),
        .filter_len = buf_len(&made->filter),
        .observe = buf_data(&made->observer),
        .observe_len = buf_len(&made->observer),
    };
    return true;
}

void orders_unmake(struct orders_made *made)
{
    MEM_FREE(made->mounts);
    buf_free(&made->filter);
    buf_free(&made->observer);
}
