/* What /proc and /sys let a process change, or read, beyond its box. */
#ifndef LAUNCHER_INSIDE_SYSTEM_H
#define LAUNCHER_INSIDE_SYSTEM_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/inside/box.h"

/* No user name space can be made in this one any more, where the kernel lets us say so. */
void system_limit_user_namespaces(void);

/* Shows the box's /proc in the command's tree, writable where it is a process's own. fresh: what is
 * there is the host's, and a new one is tried first. */
bool system_show_proc(const struct box *b, bool fresh, struct buf *error);

/* Makes kernel settings read-only and hides what shows the machine's memory, in the command's
 * tree. `strict`: what is there and cannot be covered is an error. Otherwise always true. */
bool system_cover(struct box *b, bool strict, struct buf *error);

/* The same for the tree that bubblewrap has made, as far as the rights left by it go. */
void system_cover_mounted(void);

#endif
