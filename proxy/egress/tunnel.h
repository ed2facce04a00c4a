/*
 * An established opaque tunnel: what is left of a CONNECT or a SOCKS request
 * once both sides are connected. It keeps the client, the relay and the record,
 * and nothing else.
 */
#ifndef EGRESS_TUNNEL_H
#define EGRESS_TUNNEL_H

#include "base/buf.h"
#include "proxy/egress/request.h"
#include "proxy/egress/worker.h"

/*
 * Takes over the client (whose session is gone), the upstream, the three buffers, and what the
 * request's record needs; the request is empty afterwards. ahead: what the client sent before;
 * answer: ours, for the client, tried at once and not counted; early: what the upstream sent
 * before.
 */
void tunnel_start(struct client *client, struct stream *upstream, struct buf ahead,
                  struct buf answer, struct buf early, struct request *request);

#endif
