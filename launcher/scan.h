/*
 * Names that are never writable: in the working directory whether they exist or
 * not, and below it as found by a walk. Chapter 50 section 6.3.
 */
#ifndef LAUNCHER_SCAN_H
#define LAUNCHER_SCAN_H

#include <stdbool.h>

#include "launcher/path.h"

/* How long the walk may take, milliseconds. */
enum { SCAN_MS = 10000 };

struct scan_options {
    const char *directory; /* the working directory */
    unsigned depth;        /* mandatoryDenySearchDepth */
    bool allow_git_config;
    bool (*stopped)(void *ctx); /* asked now and then; true ends the walk. NULL: never */
    void *ctx;
};

/* Appends the names, absolute. False when `stopped` said so. *cut (may be NULL): the time was up.
 */
bool scan_mandatory(const struct scan_options *o, struct paths *out, bool *cut);

#endif
