#include "proxy/net/pipes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

struct pipes {
    struct splice_pipe *idle[PIPES_KEPT];
    unsigned idle_count, total;
    unsigned spare; /* fewest idle ones since the last look */
    struct ev_loop *loop;
    ev_timer timer; /* runs while there are idle ones */
};

static const double LOOK_S = 1;

static void destroy(struct pipes *p, struct splice_pipe *pipe)
{
    close(pipe->in);
    close(pipe->out);
    free(pipe);
    p->total--;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct pipes *p = timer->data;
    (void)revents;
    while (p->spare != 0 && p->idle_count != 0) {
        p->spare--;
        destroy(p, p->idle[--p->idle_count]);
    }
    p->spare = p->idle_count;
    if (p->idle_count == 0)
        ev_timer_stop(loop, timer);
}

struct pipes *pipes_new(struct ev_loop *loop)
{
    struct pipes *p = mem_alloc(sizeof *p);
    p->loop = loop;
    ev_timer_init(&p->timer, on_timer, LOOK_S, LOOK_S);
    p->timer.data = p;
    return p;
}

void pipes_free(struct pipes *p)
{
    if (p == NULL)
        return;
    ev_timer_stop(p->loop, &p->timer);
    while (p->idle_count != 0)
        destroy(p, p->idle[--p->idle_count]);
    free(p);
}

struct splice_pipe *pipes_take(struct pipes *p)
{
    int fds[2];
    if (p->idle_count != 0) {
        struct splice_pipe *pipe = p->idle[--p->idle_count];
        if (p->spare > p->idle_count)
            p->spare = p->idle_count;
        return pipe;
    }
    if (p->total == PIPES_MOST || pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0)
        return NULL;
    /* A smaller one works too. */
    (void)fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES);
    struct splice_pipe *pipe = mem_alloc(sizeof *pipe);
    pipe->out = fds[0];
    pipe->in = fds[1];
    p->total++;
    return pipe;
}

void pipes_give(struct pipes *p, struct splice_pipe *pipe)
{
    if (pipe == NULL)
        return;
    if (pipe->held != 0 || p->idle_count == PIPES_KEPT) {
        destroy(p, pipe);
        return;
    }
    p->idle[p->idle_count++] = pipe;
    if (!ev_is_active(&p->timer)) {
        p->spare = 0;
        ev_timer_set(&p->timer, LOOK_S, LOOK_S);
        ev_timer_start(p->loop, &p->timer);
    }
}
