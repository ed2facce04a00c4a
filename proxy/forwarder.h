/*
 * A raw way out of a box to a proxy of somebody else's: what connects to the
 * listener is passed on, byte for byte, to a port of this host's loopback. Its
 * connections count among the worker's clients. Chapter 50 section 10.
 */
#ifndef PROXY_FORWARDER_H
#define PROXY_FORWARDER_H

#include <stdint.h>

#include "proxy/egress/worker.h"

struct forwarder;

/* Takes over a listening TCP socket, as listener_adopt() does. NULL with errno when it is none,
 * and still the caller's. */
struct forwarder *forwarder_new(struct worker *w, int fd, uint16_t port);
/* Closes the listener and every connection it brought. Before the worker goes. NULL is fine. */
void forwarder_free(struct forwarder *f);

#endif
