/*
 * Nodes on the host that stand in for missing protected names while a box
 * lives: an empty directory or a socket node each. Runs share them: each lists
 * all that it uses in a file of its own, in a private directory, which it keeps
 * locked; the last one removes. Files that nobody locks are stale and are cleared
 * by the next run. Chapter 50 sections 7.3, 14 and 18.
 */
#ifndef LAUNCHER_STANDINS_H
#define LAUNCHER_STANDINS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launcher/mounts.h"

struct standins;

/* The private directory of this user's records: made (0700) when missing, checked for its owner.
 * NULL with a line in *error when none of the candidates is usable. The caller frees. */
char *standins_directory(struct buf *error);

/* Reads the other runs' lists and clears stale ones. `directory` as above. Never NULL. */
struct standins *standins_open(const char *directory);

/*
 * True when the node at `path` is a stand-in that some run made and that is still the same node
 * (device, inode), or when nothing is there any more: the planner then treats the name as missing.
 */
bool standins_known(struct standins *s, const char *path);

/*
 * Makes, or shares, each of the plan's stand-ins. False with a line in *error when one cannot be
 * made. One that is optional and cannot be made loses its mount in the plan. `directory` becomes
 * what stands in, which a run before may have chosen. May be called again with another plan.
 */
bool standins_make(struct standins *s, struct mounts *plan, struct buf *error);

/* The descriptor whose lock says that this run lives; -1 when it uses none. It stays ours. Whoever
 * else holds it open keeps the stand-ins in use beyond our end. */
int standins_lock(const struct standins *s);

/* Frees s and leaves the stand-ins where they are, for a later run to clear: processes of the box
 * may still be there. */
void standins_abandon(struct standins *s);

/* Lets go of them; what nobody else uses is removed from the host, deepest first, if it is still
 * what was made and empty. Frees s. Safe to call at any exit. */
void standins_close(struct standins *s);

#endif
