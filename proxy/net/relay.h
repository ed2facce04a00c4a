/*
 * The opaque relay: bytes of two streams passed on in both directions, with
 * half-close and back-pressure. An idle relay holds no buffer; a direction whose
 * reader is slow holds at most one chunk and then stops reading. A direction
 * that moves much between plain sockets borrows a pipe and moves pages instead
 * of copying bytes. Chapter 20 sections 4 and 13.
 */
#ifndef NET_RELAY_H
#define NET_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/err.h"
#include "proxy/net/pipes.h"
#include "proxy/net/stream.h"

struct relay;

/* Called once, from the loop, never from inside relay_start(); both streams are closed by then and
 * the relay is gone. ERR_NONE: both sides ended in order. */
typedef void relay_done(void *ctx, enum err why);

struct relay_ends {
    struct stream *client, *upstream; /* taken over */
    bool own_client; /* the client's end is ours: when it closes, nobody is left to deliver for */
    struct buf to_upstream, to_client; /* bytes to be delivered first; taken over (moved) */
    uint64_t *bytes_up, *bytes_down;   /* counters to add to; must outlive the relay */
    uint8_t *scratch;                  /* RELAY_CHUNK bytes, shared by the relays of a loop */
    struct budget *budget;             /* of the loop */
    struct pipes *pipes;               /* of the loop */
};

struct relay *relay_start(const struct relay_ends *ends, relay_done *done, void *ctx);
/* Bytes wait for a side that takes none just now. */
bool relay_is_blocked(const struct relay *relay);
/* Bytes that the kernel holds for either side. */
size_t relay_unsent(const struct relay *relay);
/* Closes both streams with a reset; no call back. */
void relay_cancel(struct relay *relay);

#endif
