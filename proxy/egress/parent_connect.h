/*
 * CONNECT through a next hop: the request, and its answer's head. Chapter 20
 * section 8.1 of the contract, RFC 9110 section 9.3.6.
 */
#ifndef EGRESS_PARENT_CONNECT_H
#define EGRESS_PARENT_CONNECT_H

#include "base/buf.h"
#include "base/err.h"
#include "proxy/net/stream.h"
#include "proxy/policy/host.h"

struct parent_connect;

/* Called once, from the loop. On ERR_NONE `stream` and the bytes behind the head are the
 * callee's; else the stream is closed and detail is a short reason for the log. */
typedef void parent_connect_callback(void *ctx, enum err err, struct stream *stream,
                                     struct buf *early, const char *detail);

/* Takes over the stream. authorization: value of Proxy-Authorization or NULL. The caller keeps
 * the time. */
struct parent_connect *parent_connect_start(struct stream *stream, const struct host *host,
                                            uint16_t port, const char *authorization,
                                            size_t head_limit, parent_connect_callback *callback,
                                            void *ctx);
void parent_connect_cancel(struct parent_connect *c);

#endif
