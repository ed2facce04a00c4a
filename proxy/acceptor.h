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
/* Closes the listener; the clients it brought stay. Before the worker goes. */
void acceptor_free(struct acceptor *a);

/* What is done with a connection instead of acceptor_serve(), which see. */
typedef bool acceptor_service(void *ctx, struct worker *w, int fd, const struct sockaddr *peer);
struct acceptor *acceptor_new_for(struct worker *w, struct listener *listener,
                                  acceptor_service *serve, void *ctx);

/* A client has gone: those of the worker's acceptors go on that rested for the limit of
 * connections. */
void acceptors_resume(struct worker *w);

/* Serves one connected client socket, whose first byte decides. Takes over fd. False: closed, the
 * client's address has too many connections. */
bool acceptor_serve(struct worker *w, int fd, const struct sockaddr *peer);

#endif
