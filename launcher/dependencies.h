/*
 * What a box needs from the machine: bubblewrap, name spaces, kernel calls.
 * Chapter 50 section 3, and texts that say what to do about it.
 */
#ifndef LAUNCHER_DEPENDENCIES_H
#define LAUNCHER_DEPENDENCIES_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/sandbox_settings.h"

struct dependencies {
    char *bwrap;       /* absolute path */
    bool bwrap_setuid; /* capabilities cannot be asked for */
    bool mount_calls;  /* open_tree, move_mount and mount_setattr are there */
    bool filters;      /* seccomp filters can be built for this architecture */
};

/* False with "Sandbox dependencies not available: ..." in *error, without a newline. A bwrap that
 * the command could have put on PATH is passed over, with a warning; one that bwrapPath names is
 * trusted. Costs one stat a directory of PATH, a few for what is found there and two system calls;
 * no process is started unless uid 0 lacks CAP_SETFCAP. */
bool dependencies_check(const struct sandbox_settings *s, struct dependencies *out,
                        struct buf *error);
void dependencies_free(struct dependencies *d);

/*
 * bubblewrap ended before the box was up, having said `text` (its stderr): appends what is
 * restricted here and what to do about it, a line each with its newline, or nothing when the text
 * says enough. AppArmor's and the kernel's switches are looked at in /proc/sys.
 */
void dependencies_explain(const char *text, size_t n, bool weaker_nested, struct buf *out);

#endif
