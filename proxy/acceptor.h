/*
 * From a listener to a session: accepts, waits for the first byte, and hands
 * the client to SOCKS or HTTP by it. Accepting rests when the process is out of
 * descriptors. Chapter 20 section 1.
 */
#ifndef PROXY_ACCEPTOR_H
#define PROXY_ACCEPTOR_H

#include "proxy/egress/worker.h"
#include "proxy/net/listen.h"

struct acceptor;

/* Takes over the listener. */
struct acceptor *acceptor_new(struct worker *w, struct listener *listener);
/* Closes the listener; the clients it brought stay. */
void acceptor_free(struct acceptor *a);

/* A client has gone: goes on when it was the limit of connections that it rested for. */
void acceptor_resume(struct acceptor *a);

/* Serves one connected client socket, whose first byte decides. Takes over fd. False: closed, the
 * client's address has too many connections. */
bool acceptor_serve(struct worker *w, int fd, const struct sockaddr *peer);

#endif
