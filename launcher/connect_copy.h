/* Bytes both ways between a pair of descriptors and a socket, until both ways have ended. */
#ifndef LAUNCHER_CONNECT_COPY_H
#define LAUNCHER_CONNECT_COPY_H

#include "base/buf.h"

/*
 * From `in` to `sock` and from `sock` to `out`; `early` (its maximum at least what it holds) came
 * from the socket already. The end of one way is passed on and the other goes on. `out` is closed
 * when the socket has ended. No descriptor's flags are changed; they may be shared. Returns 0, or
 * the errno that ended it: EPIPE when whoever reads `out` has gone. SIGPIPE must be ignored.
 */
int connect_copy(int in, int out, int sock, struct buf *early);

#endif
