/*
 * The kernel's mount calls, as far as the box is built with them. Descriptors
 * are close-on-exec and the caller's; -1 and false come with errno.
 */
#ifndef LAUNCHER_INSIDE_MOUNT_CALLS_H
#define LAUNCHER_INSIDE_MOUNT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* A name below `directory`, without passing a symbolic link or leaving it: for places that are
 * canonical, where a link is a swap. A link in the last component is opened itself. Leading
 * slashes are ignored; "" and "/" are the directory itself. O_PATH. */
int open_canonical(int directory, const char *name);

/* A detached copy of what `source` (O_PATH) names, with all that is mounted below. */
int mount_copy(int source);

/* Sets and clears attributes (MOUNT_ATTR_*) of the mount and all below it, and cuts them off from
 * what the host mounts later. */
bool mount_attributes(int mount, uint64_t set, uint64_t clear);

/* Attaches a detached mount on top of `place` (O_PATH). */
bool mount_attach(int mount, int place);

/* A new file system, detached. `options` is a NULL-terminated list of names and values, in turn. */
int mount_new(const char *type, const char *const *options, uint64_t attributes);

#endif
