/*
 * An HTTP client connection, from its first byte to its end: heads, tokens,
 * CONNECT, forwarding, refusals, keep-alive and pipelining. One request at a
 * time; later ones wait in the buffer. Chapter 20 sections 2.1, 3, 4 and 6.
 */
#ifndef HTTP_SESSION_H
#define HTTP_SESSION_H

#include "base/buf.h"
#include "proxy/egress/worker.h"

struct inside;

/* Serves the requests inside a terminated tunnel: the client's stream is decrypted, and all of them
 * go where its CONNECT went. Takes over *inside. */
void http_session_start_inside(struct client *client, struct inside *inside);

/* Serves the client from now on; `first` holds the bytes read so far and is taken over. */
void http_session_start(struct client *client, struct buf *first);

#endif
