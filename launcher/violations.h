/*
 * Violations on request: --violations FILE|fd:N (a JSON line each) and
 * --annotate (a block on stderr when the command is over, with entries to paste
 * into the settings). Network ones come from the proxy's store, file-system ones
 * from the seccomp listener. Chapter 50 section 13.
 */
#ifndef LAUNCHER_VIOLATIONS_H
#define LAUNCHER_VIOLATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>

#include "base/buf.h"
#include "launcher/path.h"
#include "proxy/policy/violation.h"

struct violations;

struct violations_options {
    struct ev_loop *loop;
    const char *target; /* of --violations, or NULL */
    bool annotate;
    const char *command; /* what the box runs */
    size_t command_len;
    const struct violation_filter *const *ignore; /* the one in force, changed by updates */
    const struct paths *write_allowed, *write_denied;
    const struct paths *read_hidden; /* where a private tmpfs takes what is written; or NULL */
    struct violation_store *store;   /* the proxy's; network violations are heard from it */
};

/* NULL with a line in *error when the target cannot be opened. */
struct violations *violations_new(const struct violations_options *o, struct buf *error);
/* Takes over the seccomp listener of the box. */
void violations_watch(struct violations *v, int listener);
/* When the command is over: hears what is still waiting, closes the target, prints the block. */
void violations_finish(struct violations *v);
/* When the box is gone and before the store is. */
void violations_free(struct violations *v);

#endif
