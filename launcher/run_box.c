/* A run while its box is there: what comes out of it, what srt is told by signals, how it ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "launcher/run_internal.h"
#include "proxy/settings/notes.h"

void run_on_signal(void *ctx, int number, bool from_terminal)
{
    struct run *r = ctx;
    bool user = number == SIGUSR1 || number == SIGUSR2;
    if (r->box == NULL) { /* it waits for the decider */
        if (user)
            return;
        r->status = run_interrupted(r, number);
        ev_break(r->loop, EVBREAK_ALL);
        return;
    }
    if (user) {
        box_signal(r->box, number);
        return;
    }
    box_poll(r->box);
    bool key = from_terminal && (number == SIGINT || number == SIGQUIT);
    if (r->running && key && r->asking != NULL && asking_signal(r->asking, number))
        return;
    /* Ctrl-C and Ctrl-\ have reached the command already; whether it ends is its own matter. */
    if (r->running && key && !r->plan.new_session)
        return;
    r->stopped_by = number;
    if (!r->running) {
        box_kill(r->box);
        return;
    }
    box_signal(r->box, number);
    if (!ev_is_active(&r->grace))
        ev_timer_start(r->loop, &r->grace);
}

void run_on_grace_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct run *r = timer->data;
    (void)loop;
    (void)revents;
    box_kill(r->box);
}

static void on_listener(void *ctx, int fd, enum listener_port port)
{
    struct run *r = ctx;
    if (r->core == NULL) { /* a run that is given up before there is a proxy */
        close(fd);
        return;
    }
    uint16_t external =
        port == LISTENER_3128 ? r->settings->http_proxy_port : r->settings->socks_proxy_port;
    size_t i = r->listeners++;
    if (i < LISTENERS_PASSED_MAX && external != 0) {
        r->forwarders[i] = forwarder_new(core_worker(r->core), fd, external);
        if (r->forwarders[i] != NULL)
            return;
    } else if (i < LISTENERS_PASSED_MAX) {
        struct listener *listener = listener_adopt(fd);
        if (listener != NULL) {
            r->acceptors[i] = acceptor_new(core_worker(r->core), listener);
            return;
        }
    }
    close(fd);
}

void run_close_listeners(struct run *r)
{
    for (size_t i = 0; i < LISTENERS_PASSED_MAX; i++) {
        acceptor_free(r->acceptors[i]);
        forwarder_free(r->forwarders[i]);
        r->acceptors[i] = NULL;
        r->forwarders[i] = NULL;
    }
    r->listeners = 0;
}

static void on_started(void *ctx)
{
    struct run *r = ctx;
    r->running = true;
    if (r->asking != NULL)
        asking_started(r->asking);
    log_debug("the command runs: %s -c -- %s", r->plan.shell, r->plan.command);
}

static void on_observer(void *ctx, int fd)
{
    struct run *r = ctx;
    if (r->violations != NULL)
        violations_watch(r->violations, fd);
    else
        close(fd);
}

/* The status of a run that srt was asked to end. */
static int status_when_stopped(const struct run *r)
{
    return r->line->strict_exit_codes ? STATUS_SIGNAL + r->stopped_by : 0;
}

static int report_not_built(const struct run *r, const struct box_end *end)
{
    struct buf advice;
    buf_init(&advice, 16384);
    fd_write_all(STDERR_FILENO, end->text, end->text_len);
    dependencies_explain(end->text, end->text_len, r->settings->weaker_nested, &advice);
    run_say(&advice);
    buf_free(&advice);
    if (end->text_len == 0)
        return run_failed(r, NOT_BUILT, strlen(NOT_BUILT));
    return run_failure_status(r);
}

static bool begins(const struct box_end *end, const char *prefix)
{
    size_t n = strlen(prefix);
    return end->text_len >= n && memcmp(end->text, prefix, n) == 0;
}

/* What srt-inside could not do. */
static int report_failed(const struct run *r, const struct box_end *end)
{
    static const char exec[] = "exec: ";
    struct buf line;
    bool is_exec =
        end->text_len >= sizeof exec - 1 && memcmp(end->text, exec, sizeof exec - 1) == 0;
    size_t skip = is_exec ? sizeof exec - 1 : 0;

    buf_init(&line, 4096);
    buf_puts(&line, is_exec ? "Failed to execute command: " : "Error: the box cannot be built: ");
    settings_line(&line, end->text + skip, end->text_len - skip);
    run_say(&line);
    buf_free(&line);
    return run_failure_status(r);
}

static void on_ended(void *ctx, const struct box_end *end);

bool run_start_box(struct run *r, struct buf *error)
{
    int stdio[] = {-1, -1, -1};
    for (int n = 0; r->asking != NULL && n < 3; n++)
        stdio[n] = asking_stdio(r->asking, n);
    const struct box_options options = {
        .loop = r->loop,
        .stdio = stdio,
        .dependencies = &r->dependencies,
        .inside = r->inside,
        .weaker_nested = r->settings->weaker_nested,
        .nested_namespaces = r->settings->nested_user_namespaces,
        .mounts = r->plan.by_bubblewrap ? &r->plan.mounts : NULL,
        .files = r->files,
        .cores = r->cores,
        .events = {.listener = on_listener,
                   .observer = on_observer,
                   .started = on_started,
                   .ended = on_ended,
                   .ctx = r},
    };
    r->box = box_start(&options, error);
    return r->box != NULL;
}

bool run_start_command(struct run *r, struct buf *error)
{
    struct orders_made made = {0};
    bool done = (r->standins == NULL || standins_make(r->standins, &r->plan.mounts, error)) &&
                (r->box != NULL || run_start_box(r, error)) && orders_make(r, &made, error) &&
                box_order(r->box, &made.orders, standins_lock(r->standins), error);
    orders_unmake(&made);
    return done;
}

/* The same plan again, by bubblewrap. False: it could not be started, and that has been said. */
static bool try_bubblewrap(struct run *r)
{
    struct buf error;
    log_debug("srt-inside may not mount here: bubblewrap does");
    run_close_listeners(r);
    box_free(r->box);
    r->box = NULL;
    r->plan.by_bubblewrap = true;
    buf_init(&error, 4096);
    bool started = run_start_command(r, &error);
    if (!started)
        r->status = run_failed(r, buf_chars(&error), buf_len(&error));
    buf_free(&error);
    return started;
}

static void on_ended(void *ctx, const struct box_end *end)
{
    struct run *r = ctx;
    if (end->kind == BOX_FAILED && !r->plan.by_bubblewrap && r->stopped_by == 0 &&
        begins(end, ORDERS_MOUNTS_REFUSED)) {
        if (!try_bubblewrap(r))
            ev_break(r->loop, EVBREAK_ALL);
        return;
    }
    if (!r->running && r->stopped_by != 0) {
        r->status = run_interrupted(r, r->stopped_by);
        ev_break(r->loop, EVBREAK_ALL);
        return;
    }
    switch (end->kind) {
    case BOX_EXITED:
        r->status = end->value;
        break;
    case BOX_KILLED:
        r->status = r->stopped_by != 0 ? status_when_stopped(r) : STATUS_SIGNAL + end->value;
        r->crashed = true;
        break;
    case BOX_FAILED:
        r->status = report_failed(r, end);
        break;
    case BOX_NOT_BUILT:
        r->status = report_not_built(r, end);
        break;
    case BOX_LOST:
        r->crashed = true;
        if (r->stopped_by != 0 || r->control_failed) {
            r->status = status_when_stopped(r);
        } else if (r->quit) {
            r->status = STATUS_SIGNAL + SIGKILL;
        } else {
            fprintf(stderr, "Process killed by signal: %s\n", signals_name(end->value));
            r->status = run_failure_status(r);
        }
        break;
    }
    if (r->control_failed)
        r->status = run_failure_status(r);
    ev_break(r->loop, EVBREAK_ALL);
}
