/* From settings to a plan: the wrap of chapter 50 section 1.4, step 7. */
#ifndef LAUNCHER_PREPARE_H
#define LAUNCHER_PREPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launcher/dependencies.h"
#include "launcher/plan.h"
#include "launcher/sandbox_settings.h"
#include "launcher/standins.h"
#include "launcher/trust.h"

struct preparation {
    const struct sandbox_settings *settings;
    const struct dependencies *dependencies;
    const char *command; /* what the shell is given */
    char *const *inherited;
    const char *token;         /* NULL: none */
    const struct trust *trust; /* the run's CA, or none */
    const char *records;       /* standins_directory(); NULL with filesystem.disabled */
    struct standins *standins; /* likewise */
    /* Absolute, or relative to the working directory: see mounts.h. NULL: none. */
    const char *const *protected_files;
    const char *decider_socket; /* hidden in the box; NULL: none */
    bool own_terminal;          /* the box has one that is nobody else's */
    bool observe;
    bool (*stopped)(void *ctx);
    void *ctx;
};

/* False with a line in *error; also when *stopped said so. *out is to be freed in any case. */
bool prepare_plan(const struct preparation *p, struct plan *out, struct buf *error);

/* SRT_MOUNTS=bwrap, or what the machine lacks. */
bool prepare_by_bubblewrap(const struct dependencies *d);

#endif
