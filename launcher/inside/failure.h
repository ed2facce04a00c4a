/* The text of a failed step, for the one line that the user gets to see. */
#ifndef LAUNCHER_INSIDE_FAILURE_H
#define LAUNCHER_INSIDE_FAILURE_H

#include <stdbool.h>

#include "base/buf.h"

/* Sets *error to "STEP: why" from errno, or "STEP SUBJECT: why" where `subject` is not NULL.
 * Always false. */
bool failure(struct buf *error, const char *step, const char *subject);
/* The same with a reason that no errno tells. */
bool failure_because(struct buf *error, const char *step, const char *why);

#endif
