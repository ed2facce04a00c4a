/*
 * Where --violations goes: a file, or a descriptor the caller gave. Writing
 * never holds up the loop: what a slow reader has not taken is held up to a
 * bound, and lines past it are dropped and counted.
 */
#ifndef LAUNCHER_VIOLATION_SINK_H
#define LAUNCHER_VIOLATION_SINK_H

#include <stddef.h>

#include <ev.h>

#include "base/buf.h"

enum {
    SINK_PENDING_MAX = 1 << 20, /* bytes held for a slow reader */
    SINK_FILE_MAX = 1 << 26,    /* bytes one run writes to a regular file: the command decides how
                                   many violations there are */
    SINK_CLOSE_MS = 500         /* that closing waits for the reader */
};

struct violation_sink;

/*
 * "fd:N": N must be open for writing; it becomes close-on-exec, but for the three standard ones.
 * Else the name of a file, which is made (0600) and appended to. NULL with a line in *error.
 */
struct violation_sink *violation_sink_open(struct ev_loop *loop, const char *target,
                                           struct buf *error);
/* One line, its newline included. */
void violation_sink_write(struct violation_sink *s, const char *line, size_t n);
/* Says on stderr how many lines were lost. */
void violation_sink_close(struct violation_sink *s);

#endif
