/* Descriptors of a decider that we were given at the start. */
#ifndef DECIDER_INHERITED_H
#define DECIDER_INHERITED_H

#include <stdbool.h>

#include "base/buf.h"

/* Whether `in` can be read and `out` written as a stream: a stream socket, which may be both, or
 * the end of a pipe. They are made non-blocking and close-on-exec then. False with a line in
 * *error. */
bool inherited_prepare(int in, int out, struct buf *error);

#endif
