#include "proxy/egress/stall.h"

enum { LOOKS = 5 };

static void on_look(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct stall *s = timer->data;
    struct stall_view now = s->look(s->ctx);
    bool stuck = now.waiting && now.moved == s->last.moved && now.unsent >= s->last.unsent &&
                 s->last.waiting;
    (void)revents;
    s->last = now;
    s->looks = stuck ? s->looks + 1 : 0;
    if (s->looks < LOOKS)
        return;
    stall_stop(s, loop);
    s->stalled(s->ctx);
}

void stall_watch(struct stall *s, struct ev_loop *loop, uint32_t ms,
                 struct stall_view (*look)(void *ctx), void (*stalled)(void *ctx), void *ctx)
{
    double period = ms / 1e3 / LOOKS;
    *s = (struct stall){.look = look, .stalled = stalled, .ctx = ctx};
    ev_timer_init(&s->timer, on_look, period, period);
    s->timer.data = s;
    ev_timer_start(loop, &s->timer);
}

void stall_stop(struct stall *s, struct ev_loop *loop)
{
    ev_timer_stop(loop, &s->timer);
}
