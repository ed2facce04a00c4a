/* Files of srt's own installation, found from the running executable. */
#ifndef LAUNCHER_LOCATE_H
#define LAUNCHER_LOCATE_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/mounts.h"

/* srt-inside, open for execution: beside the executable, else in libexec. -1 with a line in
 * *error. */
int locate_inside(struct buf *error);
/* The JVM agent: `given` if it exists, else the one beside the executable, else the installed one;
 * NULL: none. The caller frees. */
char *locate_java_agent(const char *given);
/* The running executable, if the box of this plan can execute it: it and its libraries are
 * visible there. NULL: no. The caller frees. */
char *locate_connector(const struct mounts *mounts);

#endif
