#include "decider/reference/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    READ_ONCE = 262144,
    MEMORY_KEPT = 1048576 /* an empty buffer larger than this, once of a body, gives it back */
};

struct stream {
    struct stream_options o;
    struct session *session;
    ev_io readable, writable;
    struct buf input, output;
    bool input_ended;
};

static void finish(struct stream *s, enum stream_end end, const char *why)
{
    ev_io_stop(s->o.loop, &s->readable);
    ev_io_stop(s->o.loop, &s->writable);
    s->o.ended(s->o.ctx, end, why);
}

/* False: it is over, and the stream may be gone. */
static bool write_output(struct stream *s)
{
    while (buf_len(&s->output) != 0) {
        ssize_t n = write(s->o.out, buf_data(&s->output), buf_len(&s->output));
        if (n >= 0) {
            buf_consume(&s->output, (size_t)n);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return true;
        } else if (errno != EINTR) {
            bool gone = errno == EPIPE || errno == ECONNRESET;
            finish(s, gone ? STREAM_DONE : STREAM_FAILED, strerror(errno));
            return false;
        }
    }
    return true;
}

static void give_memory_back(struct buf *b)
{
    if (buf_len(b) == 0 && b->cap > MEMORY_KEPT)
        buf_free(b);
}

/* Reads on, waits for the proxy to take what is there, or ends. */
static void go_on(struct stream *s)
{
    give_memory_back(&s->input);
    give_memory_back(&s->output);
    if (buf_len(&s->output) != 0) {
        ev_io_stop(s->o.loop, &s->readable);
        ev_io_start(s->o.loop, &s->writable);
    } else if (!s->input_ended) {
        ev_io_stop(s->o.loop, &s->writable);
        ev_io_start(s->o.loop, &s->readable);
    } else if (buf_len(&s->input) != 0) {
        finish(s, STREAM_VIOLATION, "the stream ends inside a frame");
    } else {
        finish(s, STREAM_DONE, "the stream ended");
    }
}

/* Answers what has been read, as far as answers are taken. */
static void answer(struct stream *s)
{
    const char *why = NULL;
    size_t used;
    do {
        bool well = session_answer(s->session, buf_data(&s->input), buf_len(&s->input),
                                   ev_now(s->o.loop), &used, &s->output, &why);
        buf_consume(&s->input, used);
        if (!write_output(s))
            return;
        if (!well) {
            finish(s, STREAM_VIOLATION, why);
            return;
        }
    } while (used != 0 && buf_len(&s->output) == 0);
    s->o.answered(s->o.ctx);
    go_on(s);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    struct stream *s = w->data;
    (void)loop;
    (void)events;
    size_t room = buf_room(&s->input) < READ_ONCE ? buf_room(&s->input) : READ_ONCE;
    ssize_t n = read(s->o.in, buf_reserve(&s->input, room), room);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n < 0 && errno != ECONNRESET) {
        finish(s, STREAM_FAILED, strerror(errno));
        return;
    }
    s->input_ended = n <= 0;
    buf_commit(&s->input, n > 0 ? (size_t)n : 0);
    answer(s);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int events)
{
    struct stream *s = w->data;
    (void)loop;
    (void)events;
    if (write_output(s))
        answer(s);
}

struct stream *stream_new(const struct stream_options *o)
{
    struct stream *s = mem_alloc(sizeof *s);
    s->o = *o;
    s->session = session_new(o->rules, o->log);
    buf_init(&s->input, SESSION_INPUT_MAX + READ_ONCE);
    buf_init(&s->output, SESSION_OUTPUT_MAX);
    ev_io_init(&s->readable, on_readable, o->in, EV_READ);
    ev_io_init(&s->writable, on_writable, o->out, EV_WRITE);
    s->readable.data = s->writable.data = s;
    ev_io_start(o->loop, &s->readable);
    return s;
}

void stream_free(struct stream *s)
{
    if (s == NULL)
        return;
    ev_io_stop(s->o.loop, &s->readable);
    ev_io_stop(s->o.loop, &s->writable);
    session_free(s->session);
    buf_wipe(&s->input);
    buf_wipe(&s->output);
    free(s);
}
