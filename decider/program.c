#include "decider/program.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "decider/clock.h"
#include "decider/spawn.h"

/* How often one is looked at that has no pidfd. */
enum { LOOK_MS = 50, FREE_LOOK_MS = 2 };

struct program {
    struct program_options o;
    struct spawned it;
    bool gone;
    int code, status;   /* of siginfo_t, once it is gone; code 0: not known */
    int signals;        /* sent so far: of the two that end it */
    ev_io started;      /* active until it is known */
    ev_io ended;        /* its pidfd, or not active */
    ev_timer look;      /* without one */
    ev_child reaped;    /* the default loop reaps children by itself, and tells how they ended */
    ev_timer next_step; /* while it is stopped: the next signal */
};

/* Reaps it if it has ended. */
static bool is_gone(struct program *p)
{
    siginfo_t info = {.si_pid = 0};
    int result;

    if (p->gone)
        return true;
    if (p->it.pidfd >= 0)
        result = waitid(P_PIDFD, (id_t)p->it.pidfd, &info, WEXITED | WNOHANG);
    else
        result = waitid(P_PID, (id_t)p->it.pid, &info, WEXITED | WNOHANG);
    /* ECHILD: somebody else has reaped it; when it was the loop, that says so in a moment. */
    p->gone = result == 0 ? info.si_pid != 0 : errno == ECHILD && !ev_is_active(&p->reaped);
    if (result == 0 && p->gone) {
        p->code = info.si_code;
        p->status = info.si_status;
    }
    return p->gone;
}

/* The next of the two signals, to all of its group: a shell may have others do the work. Its number
 * is not another's: it has not been reaped. */
static void send_next_signal(struct program *p)
{
    int number = p->signals++ == 0 ? SIGTERM : SIGKILL;

    if (!is_gone(p) && kill(-p->it.pid, number) != 0)
        kill(p->it.pid, number);
}

static void stop_watching(struct program *p)
{
    ev_io_stop(p->o.loop, &p->started);
    ev_io_stop(p->o.loop, &p->ended);
    ev_timer_stop(p->o.loop, &p->look);
    ev_timer_stop(p->o.loop, &p->next_step);
    if (ev_is_active(&p->reaped))
        ev_child_stop(p->o.loop, &p->reaped);
}

static void tell_started(struct program *p)
{
    int why = 0;
    ssize_t n = read(p->it.started, &why, sizeof why);

    ev_io_stop(p->o.loop, &p->started);
    p->o.started(p->o.ctx, n == (ssize_t)sizeof why ? why : 0);
}

static void on_started(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    (void)revents;
    tell_started(io->data);
}

static void tell_if_gone(struct program *p)
{
    if (!is_gone(p))
        return;
    if (ev_is_active(&p->started))
        tell_started(p); /* nothing more can come */
    stop_watching(p);
    p->o.gone(p->o.ctx);
}

static void on_ended(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    (void)revents;
    tell_if_gone(io->data);
}

static void on_reaped(struct ev_loop *loop, ev_child *child, int revents)
{
    struct program *p = child->data;
    (void)loop;
    (void)revents;
    p->gone = true;
    p->code = WIFEXITED(child->rstatus) ? CLD_EXITED : CLD_KILLED;
    p->status = WIFEXITED(child->rstatus) ? WEXITSTATUS(child->rstatus) : WTERMSIG(child->rstatus);
    tell_if_gone(p);
}

static void on_look(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    tell_if_gone(timer->data);
}

static void on_next_step(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct program *p = timer->data;

    (void)revents;
    send_next_signal(p);
    if (p->signals == 2)
        ev_timer_stop(loop, timer);
}

struct program *program_start(const struct program_options *o, int *stream)
{
    struct spawned it;

    if (!spawn(o->words, o->files, &it))
        return NULL;
    struct program *p = mem_alloc(sizeof *p);
    double stop_s = o->stop_ms / 1e3;
    *p = (struct program){.o = *o, .it = it};
    ev_io_init(&p->started, on_started, it.started, EV_READ);
    ev_io_init(&p->ended, on_ended, it.pidfd, EV_READ);
    ev_timer_init(&p->look, on_look, LOOK_MS / 1e3, LOOK_MS / 1e3);
    ev_timer_init(&p->next_step, on_next_step, stop_s, stop_s);
    ev_child_init(&p->reaped, on_reaped, it.pid, 0);
    p->started.data = p->ended.data = p->look.data = p->next_step.data = p->reaped.data = p;
    if (ev_is_default_loop(o->loop))
        ev_child_start(o->loop, &p->reaped);
    ev_io_start(o->loop, &p->started);
    if (it.pidfd >= 0)
        ev_io_start(o->loop, &p->ended);
    else
        ev_timer_start(o->loop, &p->look);
    *stream = it.stream;
    return p;
}

void program_stop(struct program *p)
{
    if (!ev_is_active(&p->next_step) && p->signals == 0)
        ev_timer_start(p->o.loop, &p->next_step);
}

void program_end(const struct program *p, char *out, size_t size)
{
    const char *name = p->code == CLD_EXITED ? NULL : sigabbrev_np(p->status);

    if (p->code == 0 || p->signals != 0)
        out[0] = '\0';
    else if (p->code == CLD_EXITED)
        snprintf(out, size, "; it ended with status %d", p->status);
    else
        snprintf(out, size, "; it was ended by SIG%s", name != NULL ? name : "?");
}

/* Waits for its end, `ms` at most. */
static bool wait_for_end(struct program *p, uint32_t ms)
{
    double until = clock_now() + ms / 1e3, left = ms / 1e3;

    for (; !is_gone(p) && left > 0; left = until - clock_now()) {
        struct pollfd ended = {.fd = p->it.pidfd, .events = POLLIN};
        /* Without a pidfd, poll() passes over the entry. */
        (void)poll(&ended, 1, p->it.pidfd >= 0 ? (int)(left * 1e3) + 1 : FREE_LOOK_MS);
    }
    return p->gone;
}

void program_free(struct program *p)
{
    if (p == NULL)
        return;
    stop_watching(p);
    while (!wait_for_end(p, p->o.stop_ms) && p->signals < 2)
        send_next_signal(p);
    if (p->it.pidfd >= 0)
        close(p->it.pidfd);
    close(p->it.started);
    free(p);
}
