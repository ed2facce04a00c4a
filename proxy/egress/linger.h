/*
 * The orderly end of a client connection: what is queued is sent, then our
 * FIN, and what the client still sends is read and dropped for a moment. A
 * close with unread bytes would make the kernel reset the connection and take
 * the last answer with it (RFC 9112 section 9.6).
 */
#ifndef EGRESS_LINGER_H
#define EGRESS_LINGER_H

#include "base/buf.h"
#include "proxy/egress/worker.h"

/*
 * Takes over the client, whose session is gone, and the bytes of `out`. Never frees the client
 * from inside. ms: how long it takes; while the client sends the `upload` bytes it has announced,
 * that counts from its last byte, up to upload_ms in all, so that a long upload does not cost it
 * the answer that came early.
 */
void linger_start(struct client *client, struct buf *out, uint32_t ms, uint64_t upload,
                  uint32_t upload_ms);

#endif
