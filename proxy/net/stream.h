/*
 * One byte stream, plain or TLS: the session above it cannot tell. Level
 * triggered: an event comes as long as it is wanted and the stream is ready.
 * Runs on its loop; never blocks. A stream owns its descriptor.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <ev.h>

struct stream;

enum {
    STREAM_READ = 1,
    STREAM_WRITE = 2,
    STREAM_GONE = 4 /* nothing is wanted, and the connection is dead: see stream_watch() */
};

/* events: which of the wanted ones are ready; an error shows as every wanted event, and the
 * read or write that follows returns it. The handler may close the stream. */
typedef void stream_handler(void *ctx, struct stream *s, int events);

struct stream_ops {
    /* > 0 bytes; 0 the peer ended its side; -1 with errno, EAGAIN when not ready. TLS trouble is
     * EPROTO. */
    ssize_t (*read)(struct stream *s, void *p, size_t n);
    /* bytes taken (may be short); -1 with errno as above. */
    ssize_t (*writev)(struct stream *s, const struct iovec *iov, int count);
    /* Ends our sending side once (FIN, close_notify). 0, or -1 with errno (EAGAIN: again when
     * writable). */
    int (*shutdown)(struct stream *s);
    void (*want)(struct stream *s, int events);
    void (*close)(struct stream *s); /* releases everything, the structure too */
    bool close_ends;                 /* a close alone is an orderly end for the peer */
};

/* Base of every implementation; fields are for implementations and inline calls below only. */
struct stream {
    const struct stream_ops *ops;
    struct ev_loop *loop;
    stream_handler *handler;
    void *ctx;
    int fd;
    int wanted;
    ev_io io;
    struct stream *quiet_next, **quiet_link; /* of the streams from which nothing is wanted */
    bool kept_alive, dead;
};

/*
 * A stream from which nothing is wanted has no event that could tell that its peer is gone. The
 * watch looks at those of its loop every so often, and tells their handlers with STREAM_GONE; TCP
 * keep-alive finds peers that went without a word. At most one a loop; streams of a loop without
 * one are not looked at.
 */
struct stream_watch;
struct stream_watch *stream_watch(struct ev_loop *loop, double seconds);
void stream_watch_stop(struct stream_watch *watch);  /* NULL is fine */
void stream_set_quiet(struct stream *s, bool quiet); /* for the inline calls below */

/* Takes over a connected, non-blocking, close-on-exec socket. No events are wanted yet. */
struct stream *stream_plain(struct ev_loop *loop, int fd);

/* Gives the socket back and frees the stream; -1, with the stream untouched, when it is not plain.
 */
int stream_release(struct stream *s);

/* The socket when its bytes are the stream's bytes, else -1. Still the stream's. */
int stream_raw_fd(const struct stream *s);

/* Reset, or ended in both directions: seen without reading, whatever is still to be read. */
bool stream_is_dead(const struct stream *s);

/* Bytes that the kernel has taken but the peer has not. */
size_t stream_unsent(const struct stream *s);

static inline void stream_set_handler(struct stream *s, stream_handler *handler, void *ctx)
{
    s->handler = handler;
    s->ctx = ctx;
}
static inline void stream_want(struct stream *s, int events)
{
    if (s->wanted == events)
        return;
    s->ops->want(s, events);
    if ((events == 0) != (s->quiet_link != NULL))
        stream_set_quiet(s, events == 0);
}
static inline ssize_t stream_read(struct stream *s, void *p, size_t n)
{
    return s->ops->read(s, p, n);
}
static inline ssize_t stream_writev(struct stream *s, const struct iovec *iov, int count)
{
    return s->ops->writev(s, iov, count);
}
static inline ssize_t stream_write(struct stream *s, const void *p, size_t n)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    return s->ops->writev(s, &iov, 1);
}
static inline int stream_shutdown(struct stream *s)
{
    return s->ops->shutdown(s);
}

/* Closes *s if there is one and clears it. */
static inline void stream_close(struct stream **s)
{
    struct stream *old = *s;
    *s = NULL;
    if (old == NULL)
        return;
    if (old->quiet_link != NULL)
        stream_set_quiet(old, false);
    old->ops->close(old);
}
/* The same, with a reset instead of a FIN for the peer (SO_LINGER 0): a cut must not look like
 * an orderly end. */
void stream_reset(struct stream **s);

/* The result of a read or write says: not now. */
static inline bool stream_would_block(ssize_t n, int error)
{
    return n < 0 && (error == EAGAIN || error == EINTR);
}

#endif
