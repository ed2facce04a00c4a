#include "proxy/net/relay.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/mem.h"

enum {
    FULL_READS = 4,      /* reads of a whole chunk in a row that make a direction worth a pipe */
    SPLICE_LEAST = 16384 /* bytes moved at once below which it gives the pipe back */
};

enum direction_state {
    FLOWING, /* reads from `from`, writes to `to` */
    ENDING,  /* `from` has ended; what is pending goes out, then our FIN */
    ENDED,   /* FIN sent */
    DROPPING /* `to` takes nothing more; what comes is dropped until the other direction is over */
};

struct direction {
    enum direction_state state;
    struct buf pending;       /* read but not yet written */
    struct splice_pipe *pipe; /* in its place while the direction moves much, else NULL */
    uint64_t *count;          /* bytes passed on */
    bool reset;          /* DROPPING: `to` reset the connection, so its end is no orderly one */
    unsigned full_reads; /* in a row */
};

struct relay {
    struct stream *client, *upstream;
    struct direction up, down;
    uint8_t *scratch;
    struct budget *budget;
    struct pipes *pipes;
    size_t held; /* reported to the budget */
    relay_done *done;
    void *ctx;
    bool own_client;
    bool copies;    /* splice(2) cannot be used */
    enum err error; /* why a direction broke */
};

static void relay_free(struct relay *r)
{
    budget_report(r->budget, &r->held, 0);
    buf_free(&r->up.pending);
    buf_free(&r->down.pending);
    pipes_give(r->pipes, r->up.pipe);
    pipes_give(r->pipes, r->down.pipe);
    free(r);
}

/* Bytes read but not yet written. */
static size_t waiting(const struct direction *d)
{
    return buf_len(&d->pending) + (d->pipe != NULL ? d->pipe->held : 0);
}

static void report(struct relay *r)
{
    size_t held = r->up.pending.cap + r->down.pending.cap;
    if (r->up.pipe != NULL)
        held += r->up.pipe->held;
    if (r->down.pipe != NULL)
        held += r->down.pipe->held;
    budget_report(r->budget, &r->held, held);
}

/* A side that got our FIN has all there was to get; for another the cut must show. */
static void close_side(struct stream **side, const struct direction *towards)
{
    if (towards->state == ENDED)
        stream_close(side);
    else
        stream_reset(side);
}

static void finish(struct relay *r, enum err why)
{
    relay_done *done = r->done;
    void *ctx = r->ctx;
    close_side(&r->client, &r->down);
    close_side(&r->upstream, &r->up);
    relay_free(r);
    done(ctx, why);
}

static bool over(const struct direction *d)
{
    return d->state == ENDED || d->state == DROPPING;
}

static int wanted(const struct direction *reads, const struct direction *writes)
{
    int events = 0;
    if ((reads->state == FLOWING && waiting(reads) == 0) || reads->state == DROPPING)
        events |= STREAM_READ;
    if (!over(writes) && (waiting(writes) != 0 || writes->state == ENDING))
        events |= STREAM_WRITE;
    return events;
}

/* The side that is written to is gone: its own bytes may still be on the way to the other. */
static void break_direction(struct relay *r, struct direction *d, enum err why, int number)
{
    d->reset = number == ECONNRESET; /* EPIPE: it had ended in order before */
    d->state = DROPPING;
    buf_free(&d->pending);
    pipes_give(r->pipes, d->pipe);
    d->pipe = NULL;
    if (r->error == ERR_NONE)
        r->error = why;
}

static enum err blame(const struct relay *r, const struct stream *s)
{
    return s == r->client ? ERR_CLIENT_GONE : ERR_UPSTREAM_BROKEN;
}

/* Empties the pipe as far as `to` takes it. */
static void drain_pipe(struct relay *r, struct direction *d, struct stream *to)
{
    struct splice_pipe *pipe = d->pipe;
    while (pipe->held != 0) {
        ssize_t n = splice(pipe->out, NULL, stream_raw_fd(to), NULL, pipe->held,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n <= 0) {
            if (n == 0 || !stream_would_block(n, errno))
                break_direction(r, d, blame(r, to), errno);
            return;
        }
        *d->count += (uint64_t)n;
        pipe->held -= (size_t)n;
    }
}

/* Writes what is pending and, at the end, our FIN. */
static void flush(struct relay *r, struct direction *d, struct stream *to)
{
    if (over(d))
        return;
    if (d->pipe != NULL) {
        drain_pipe(r, d, to);
        if (d->pipe == NULL || d->pipe->held != 0)
            return;
        /* Not kept by a direction that may be idle from now on; the next read takes it again. */
        pipes_give(r->pipes, d->pipe);
        d->pipe = NULL;
    }
    if (buf_len(&d->pending) != 0) {
        ssize_t n = stream_write(to, buf_data(&d->pending), buf_len(&d->pending));
        if (n < 0) {
            if (!stream_would_block(n, errno))
                break_direction(r, d, blame(r, to), errno);
            return;
        }
        *d->count += (uint64_t)n;
        buf_consume(&d->pending, (size_t)n);
        if (buf_len(&d->pending) != 0)
            return;
        buf_free(&d->pending);
    }
    if (d->state == ENDING) {
        if (stream_shutdown(to) == 0)
            d->state = ENDED;
        else if (!stream_would_block(-1, errno))
            break_direction(r, d, blame(r, to), errno);
    }
}

/* `from` has ended. */
static void end(struct relay *r, struct direction *d, struct stream *to)
{
    const struct direction *other = d == &r->up ? &r->down : &r->up;
    d->state = ENDING;
    if (other->state == ENDED && to->ops->close_ends)
        d->state = ENDED; /* the close that follows says it */
    else
        flush(r, d, to);
}

/* Borrows a pipe once the direction has shown that it moves much. */
static bool may_splice(struct relay *r, struct direction *d, const struct stream *from,
                       const struct stream *to)
{
    if (r->copies || d->full_reads < FULL_READS || budget_is_short(r->budget) ||
        stream_raw_fd(from) < 0 || stream_raw_fd(to) < 0)
        return false;
    d->pipe = pipes_take(r->pipes);
    return d->pipe != NULL;
}

/* The same as pump() with pages instead of bytes; the pipe is empty before. */
static bool pump_pipe(struct relay *r, struct direction *d, struct stream *from, struct stream *to)
{
    ssize_t n = splice(stream_raw_fd(from), NULL, d->pipe->in, NULL, PIPE_BYTES,
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0 && errno == EINVAL) {
        /* Not between these two sockets: bytes then. */
        pipes_give(r->pipes, d->pipe);
        d->pipe = NULL;
        r->copies = true;
        return true;
    }
    if (n > 0) {
        d->pipe->held = (size_t)n;
        drain_pipe(r, d, to);
    }
    int number = errno;
    if (n < SPLICE_LEAST && waiting(d) == 0)
        d->full_reads = 0; /* not so much any more */
    if (d->pipe != NULL && d->pipe->held == 0) {
        /* Only one with bytes in it is kept: the direction may be idle from now on. */
        pipes_give(r->pipes, d->pipe);
        d->pipe = NULL;
    }
    errno = number;
    if (n == 0) {
        if ((d == &r->up ? &r->down : &r->up)->reset)
            return false;
        end(r, d, to);
    }
    return n >= 0 || stream_would_block(n, errno);
}

/* One read and the write of what it brought. False when the source failed. */
static bool pump(struct relay *r, struct direction *d, struct stream *from, struct stream *to)
{
    if (d->state == FLOWING && (d->pipe != NULL || may_splice(r, d, from, to)))
        return pump_pipe(r, d, from, to);
    ssize_t n = stream_read(from, r->scratch, budget_read_size(r->budget, RELAY_CHUNK));
    if (n < 0)
        return stream_would_block(n, errno);
    const struct direction *back = d == &r->up ? &r->down : &r->up;
    if (n == 0 && back->reset)
        return false;
    if (d->state == DROPPING) {
        if (n == 0)
            d->state = ENDED;
        return true;
    }
    if (n == 0) {
        end(r, d, to);
        return true;
    }
    d->full_reads = n == RELAY_CHUNK ? d->full_reads + 1 : 0;
    ssize_t w = stream_write(to, r->scratch, (size_t)n);
    if (w < 0) {
        if (!stream_would_block(w, errno)) {
            break_direction(r, d, blame(r, to), errno);
            return true;
        }
        w = 0;
    }
    *d->count += (uint64_t)w;
    if (w < n)
        buf_append(&d->pending, r->scratch + w, (size_t)(n - w));
    return true;
}

/* A peer that ended its side and went: EPIPE is a reset after its FIN. */
static bool ended_in_order(const struct stream *s, const struct direction *writes)
{
    int number = 0;
    socklen_t n = sizeof number;
    return !writes->reset && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &number, &n) == 0 &&
           (number == 0 || number == EPIPE);
}

static void on_event(void *ctx, struct stream *s, int events)
{
    struct relay *r = ctx;
    struct stream *other = s == r->client ? r->upstream : r->client;
    struct direction *reads = s == r->client ? &r->up : &r->down;
    struct direction *writes = s == r->client ? &r->down : &r->up;

    if (events & STREAM_GONE) {
        /* What one sent before its reset, or a client before its orderly end, waits for the other
         * side. */
        bool to_deliver = reads->state == FLOWING && waiting(reads) != 0;
        if (!to_deliver || (s == r->client && (r->own_client || !ended_in_order(s, writes))))
            finish(r, blame(r, s));
        return;
    }
    if (events & STREAM_WRITE)
        flush(r, writes, s);
    if ((events & STREAM_READ) && reads->state != ENDING && reads->state != ENDED &&
        !pump(r, reads, s, other)) {
        finish(r, r->error != ERR_NONE ? r->error : blame(r, s));
        return;
    }
    if (over(&r->up) && over(&r->down)) {
        finish(r, r->error);
        return;
    }
    stream_want(s, wanted(reads, writes));
    stream_want(other, wanted(writes, reads));
    report(r);
}

static void take(struct direction *d, const struct buf *pending, uint64_t *count)
{
    d->state = FLOWING;
    d->pending = *pending;
    d->pending.max = buf_len(pending) + RELAY_CHUNK;
    d->count = count;
}

/* Both sides are almost always writable now: an immediate try saves a turn of the loop. A failure
 * comes back with the next event. */
static void write_first(struct direction *d, struct stream *to)
{
    if (buf_len(&d->pending) == 0)
        return;
    ssize_t n = stream_write(to, buf_data(&d->pending), buf_len(&d->pending));
    if (n <= 0)
        return;
    *d->count += (uint64_t)n;
    buf_consume(&d->pending, (size_t)n);
    if (buf_len(&d->pending) == 0)
        buf_free(&d->pending);
}

struct relay *relay_start(const struct relay_ends *ends, relay_done *done, void *ctx)
{
    struct relay *r = mem_alloc(sizeof *r);
    r->client = ends->client;
    r->upstream = ends->upstream;
    r->scratch = ends->scratch;
    r->budget = ends->budget;
    r->own_client = ends->own_client;
    r->pipes = ends->pipes;
    r->done = done;
    r->ctx = ctx;
    take(&r->up, &ends->to_upstream, ends->bytes_up);
    take(&r->down, &ends->to_client, ends->bytes_down);
    stream_set_handler(r->client, on_event, r);
    stream_set_handler(r->upstream, on_event, r);
    write_first(&r->up, r->upstream);
    write_first(&r->down, r->client);
    stream_want(r->client, wanted(&r->up, &r->down));
    stream_want(r->upstream, wanted(&r->down, &r->up));
    report(r);
    return r;
}

bool relay_is_blocked(const struct relay *r)
{
    return waiting(&r->up) != 0 || waiting(&r->down) != 0;
}

size_t relay_unsent(const struct relay *r)
{
    return stream_unsent(r->client) + stream_unsent(r->upstream);
}

void relay_cancel(struct relay *r)
{
    stream_reset(&r->client);
    stream_reset(&r->upstream);
    relay_free(r);
}
