/*
 * A SOCKS client connection, from its first byte to its tunnel or refusal.
 * Chapter 20 section 5.
 */
#ifndef SOCKS_SESSION_H
#define SOCKS_SESSION_H

#include "base/buf.h"
#include "proxy/egress/worker.h"

/* Serves the client from now on; `first` holds the bytes read so far and is taken over. */
void socks_session_start(struct client *client, struct buf *first);

#endif
