/*
 * Pipes for splice(2), kept between uses: a relay borrows one while a direction
 * moves much, so that an idle tunnel holds none. One loop, one pool.
 */
#ifndef NET_PIPES_H
#define NET_PIPES_H

#include <stddef.h>

#include <ev.h>

enum {
    PIPE_BYTES = 262144, /* asked for; what an unprivileged user gets may be less */
    PIPES_KEPT = 16,     /* idle ones, for a moment */
    PIPES_MOST = 256     /* in all: two descriptors each */
};

struct pipes;
struct splice_pipe {
    int in, out; /* write end, read end; non-blocking, close-on-exec */
    size_t held; /* bytes in it */
};

/* Idle pipes that a second has not needed are closed. */
struct pipes *pipes_new(struct ev_loop *loop);
void pipes_free(struct pipes *p); /* NULL is fine; all must have been given back */

/* An empty pipe, or NULL when there are too many or none can be made. */
struct splice_pipe *pipes_take(struct pipes *p);
/* One with bytes left in it is closed instead of kept. NULL is fine. */
void pipes_give(struct pipes *p, struct splice_pipe *pipe);

#endif
