/*
 * Everything a run does, as data: what is executed where, the mounts, the
 * environment, name spaces and filters. `srt --print-plan` shows it.
 */
#ifndef LAUNCHER_PLAN_H
#define LAUNCHER_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/mounts.h"

struct plan {
    struct mounts mounts;
    char **environment;  /* of the command */
    char *shell;         /* absolute path; also argv[0] */
    const char *command; /* borrowed */
    char *directory;
    unsigned filters;   /* enum filter_part */
    bool observe;       /* the violation monitor's filter */
    bool by_bubblewrap; /* it applies the mounts; else srt-inside does */
    bool new_session;   /* the command has not the caller's terminal */
    bool own_terminal;  /* ... but one of its own */
    bool weaker_nested; /* the host's /proc */
    bool nested_namespaces;
};

/* Appends the plan. Of the environment only what differs from `inherited` is shown, with the token
 * replaced by TOKEN: what else is in it is the user's. */
void plan_print(const struct plan *p, char *const *inherited, const char *token, bool json,
                struct buf *out);
/* Frees what it owns. */
void plan_free(struct plan *p);

#endif
