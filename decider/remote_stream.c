#include "decider/remote_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "decider/clock.h"

enum {
    READ_MAX = 65536,   /* bytes taken in one turn */
    WRITE_MAX = 262144, /* given in one turn, and the rest of the last piece */
    WHY_MAX = 128
};

struct remote_stream {
    struct ev_loop *loop;
    struct link *link;
    int in, out;
    void (*dead)(void *ctx);
    void *ctx;
    ev_io readable;
    ev_io writable; /* active while the decider does not take all */
    ev_prepare turn;
    ev_timer tick;
    double tick_at; /* clock_now() when it is due, while it is active */
    uint8_t bytes[READ_MAX];
};

static void failed(struct remote_stream *s, const char *what, int number)
{
    char why[WHY_MAX];

    snprintf(why, sizeof why, "%s: %s", what, strerror(number));
    link_ended(s->link, why);
}

static void take(struct remote_stream *s)
{
    ssize_t n = read(s->in, s->bytes, sizeof s->bytes);

    if (n > 0) {
        link_feed(s->link, s->bytes, (size_t)n, clock_now());
        explicit_bzero(s->bytes, (size_t)n); /* credentials may have been among them */
    } else if (n == 0) {
        link_ended(s->link, "its stream ended");
    } else if (errno != EAGAIN && errno != EINTR) {
        failed(s, "reading from it failed", errno);
    }
}

/* Writes until there is no more, it takes no more, or this turn's share is used up. */
static void give(struct remote_stream *s)
{
    const uint8_t *p;
    size_t n, given = 0;

    while ((p = link_output(s->link, &n)) != NULL && given < WRITE_MAX) {
        ssize_t done = write(s->out, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno != EAGAIN) {
            failed(s, "writing to it failed", errno);
            return;
        }
        if (done <= 0)
            break;
        link_written(s->link, (size_t)done);
        given += (size_t)done;
    }
    if (p == NULL)
        ev_io_stop(s->loop, &s->writable);
    else
        ev_io_start(s->loop, &s->writable);
}

/* One timer for all questions: it is set anew only when it would be late. */
static void follow_deadline(struct remote_stream *s)
{
    double due = link_deadline(s->link);

    if (due == 0 || (ev_is_active(&s->tick) && s->tick_at <= due))
        return;
    double after = due - clock_now();
    ev_timer_stop(s->loop, &s->tick);
    ev_timer_set(&s->tick, after > 0 ? after : 0, 0);
    ev_timer_start(s->loop, &s->tick);
    s->tick_at = due;
}

static void tell_if_dead(struct remote_stream *s)
{
    if (link_is_dead(s->link))
        s->dead(s->ctx);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct remote_stream *s = io->data;

    (void)loop;
    (void)revents;
    take(s);
    tell_if_dead(s);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct remote_stream *s = io->data;

    (void)loop;
    (void)revents;
    give(s);
    tell_if_dead(s);
}

static void on_turn(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    struct remote_stream *s = prepare->data;

    (void)loop;
    (void)revents;
    if (!ev_is_active(&s->writable))
        give(s);
    if (!link_is_dead(s->link))
        follow_deadline(s);
    tell_if_dead(s);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct remote_stream *s = timer->data;

    (void)loop;
    (void)revents;
    link_tick(s->link, clock_now());
    tell_if_dead(s);
}

struct remote_stream *remote_stream_new(struct ev_loop *loop, struct link *link, int in, int out,
                                        void (*dead)(void *ctx), void *ctx)
{
    struct remote_stream *s = mem_alloc(sizeof *s);

    s->loop = loop;
    s->link = link;
    s->in = in;
    s->out = out;
    s->dead = dead;
    s->ctx = ctx;
    ev_io_init(&s->readable, on_readable, in, EV_READ);
    ev_io_init(&s->writable, on_writable, out, EV_WRITE);
    ev_prepare_init(&s->turn, on_turn);
    ev_timer_init(&s->tick, on_tick, 0, 0);
    /* Before others that close a turn: answers that come of it are for their eyes too. */
    ev_set_priority(&s->turn, EV_MAXPRI);
    s->readable.data = s->writable.data = s->turn.data = s->tick.data = s;
    ev_io_start(loop, &s->readable);
    ev_prepare_start(loop, &s->turn);
    return s;
}

void remote_stream_free(struct remote_stream *s)
{
    if (s == NULL)
        return;
    ev_io_stop(s->loop, &s->readable);
    ev_io_stop(s->loop, &s->writable);
    ev_prepare_stop(s->loop, &s->turn);
    ev_timer_stop(s->loop, &s->tick);
    close(s->in);
    if (s->out != s->in)
        close(s->out);
    free(s);
}
