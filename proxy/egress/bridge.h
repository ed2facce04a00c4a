/*
 * A stream as a descriptor: TLS to a destination is made on a socket, and
 * behind an https parent there is none that carries plain bytes. A socket pair
 * and a relay make one.
 */
#ifndef EGRESS_BRIDGE_H
#define EGRESS_BRIDGE_H

#include "proxy/egress/worker.h"

/* Takes over the stream. A non-blocking socket whose bytes are the stream's, or -1 (the stream is
 * closed). It ends with the descriptor. */
int bridge_open(struct worker *w, struct stream *stream);

/* Ends those that are left. */
void bridges_close(struct worker *w);

#endif
