/* The directory that the command's TMPDIR names. Chapter 50 sections 11.1 and 18. */
#ifndef LAUNCHER_TEMPORARY_H
#define LAUNCHER_TEMPORARY_H

#include <stdbool.h>

struct temporary {
    const char *path;    /* for TMPDIR */
    const char *private; /* where a private tmpfs has to go; NULL: nowhere */
};

/* /tmp/claude, made when absent. Where it is somebody else's, the box gets one of its own there;
 * where it is no directory, TMPDIR is the box's /dev/shm. */
void temporary_prepare(struct temporary *t);

#endif
