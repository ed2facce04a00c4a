/* Why bubblewrap could not build a box here, and what helps. Pure. */
#ifndef LAUNCHER_EXPLAIN_H
#define LAUNCHER_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launcher/machine.h"

/* `text`: what bubblewrap said on stderr. Appends lines, or nothing when it says enough itself. */
void explain_bwrap(const char *text, size_t n, bool weaker_nested, const struct machine *m,
                   struct buf *out);

#endif
