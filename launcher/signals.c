#include "launcher/signals.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/mem.h"

static const int ending[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
static const int passed_on[] = {SIGUSR1, SIGUSR2};

struct signals {
    int fd;
    int first; /* ending signal */
    uint64_t ignored;
    struct ev_loop *loop;
    ev_io ready;
    signal_fn *fn;
    void *ctx;
};

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void take(sigset_t *set, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(set, numbers[i]);
}

struct signals *signals_new(void)
{
    sigset_t set;
    sigemptyset(&set);
    take(&set, ending, sizeof ending / sizeof ending[0]);
    take(&set, passed_on, sizeof passed_on / sizeof passed_on[0]);

    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct signals *s = mem_alloc(sizeof *s);
    s->fd = fd;
    for (int number = 1; number < 32; number++)
        if (is_ignored(number))
            s->ignored |= UINT64_C(1) << (number - 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return s;
}

uint64_t signals_ignored(const struct signals *s)
{
    return s->ignored;
}

static bool is_ending(int number)
{
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (ending[i] == number)
            return true;
    return false;
}

static bool next(struct signals *s, struct signalfd_siginfo *info)
{
    return read(s->fd, info, sizeof *info) == (ssize_t)sizeof *info;
}

int signals_pending(struct signals *s)
{
    struct signalfd_siginfo info;
    while (s->first == 0 && next(s, &info))
        if (is_ending((int)info.ssi_signo))
            s->first = (int)info.ssi_signo;
    return s->first;
}

static void on_ready(struct ev_loop *loop, ev_io *io, int revents)
{
    struct signals *s = io->data;
    struct signalfd_siginfo info;
    (void)loop;
    (void)revents;
    while (next(s, &info))
        s->fn(s->ctx, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
}

void signals_watch(struct signals *s, struct ev_loop *loop, signal_fn *fn, void *ctx)
{
    s->loop = loop;
    s->fn = fn;
    s->ctx = ctx;
    ev_io_init(&s->ready, on_ready, s->fd, EV_READ);
    s->ready.data = s;
    ev_io_start(loop, &s->ready);
}

void signals_free(struct signals *s)
{
    if (s == NULL)
        return;
    if (s->loop != NULL)
        ev_io_stop(s->loop, &s->ready);
    close(s->fd);
    free(s);
}

const char *signals_name(int number)
{
    static char name[32];
    const char *known = sigabbrev_np(number);
    if (known != NULL)
        snprintf(name, sizeof name, "SIG%s", known);
    else
        snprintf(name, sizeof name, "SIG%d", number);
    return name;
}
