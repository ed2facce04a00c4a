#include "proxy/gateway.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "decider/remote.h"
#include "proxy/egress/record.h"
#include "proxy/gateway_internal.h"
#include "proxy/port_file.h"
#include "proxy/self_parent.h"

/* What answers under way have when the decider or the host is gone. */
enum { PROXY_ONLY_DRAIN_MS = 1000 };

static void emptied(void *ctx)
{
    struct gateway *g = ctx;
    ev_break(g->loop, EVBREAK_ALL);
}

static void stop_accepting(struct gateway *g)
{
    for (size_t i = 0; i < g->acceptor_count; i++)
        acceptor_free(g->acceptors[i]);
    g->acceptor_count = 0;
}

static void on_drained(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct gateway *g = timer->data;
    (void)loop;
    (void)revents;
    worker_stop(g->worker, true);
}

void gateway_stop(struct gateway *g, const char *why, bool at_once)
{
    uint32_t drain_ms = g->proxy_only ? PROXY_ONLY_DRAIN_MS : g->worker->snapshot->limits.drain_ms;
    if (g->stopped_by == NULL) {
        ev_timer_set(&g->drain, drain_ms / 1e3, 0);
        ev_timer_start(g->loop, &g->drain);
        g->stopped_by = why;
    }
    stop_accepting(g);
    worker_stop(g->worker, at_once);
}

/* The first signal lets what is under way finish; a second one does not wait. */
static void on_stop_signal(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct gateway *g = signal->data;
    (void)loop;
    (void)revents;
    gateway_stop(g, signal->signum == SIGINT ? "SIGINT" : "SIGTERM", g->stopped_by != NULL);
}

static void on_hangup(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct gateway *g = signal->data;
    struct buf error;
    (void)loop;
    (void)revents;
    buf_init(&error, 1024);
    if (!line_log_reopen(g->worker->log, &error))
        log_warning("%s", buf_cstr(&error));
    buf_free(&error);
}

static int fail(const char *message)
{
    log_error("%s", message);
    return STATUS_USAGE;
}

static void on_report(struct ev_loop *loop, ev_timer *timer, int revents)
{
    unsigned long size, resident;
    FILE *f = fopen("/proc/self/statm", "re");
    (void)loop;
    (void)timer;
    (void)revents;
    if (f == NULL)
        return;
    if (fscanf(f, "%lu %lu", &size, &resident) == 2)
        fprintf(stderr, "srt-proxy rss %lu\n", resident * (unsigned long)sysconf(_SC_PAGESIZE));
    fclose(f);
}

/* For hosts that cannot look at the memory of other processes. */
static void report_memory(struct gateway *g)
{
    const char *text = getenv("SRT_PROXY_REPORT_RSS_MS");
    char *end;
    if (text == NULL)
        return;
    long ms = strtol(text, &end, 10);
    if (end == text || *end != '\0' || ms <= 0)
        return;
    g->report.repeat = (double)ms / 1e3;
    ev_timer_again(g->loop, &g->report);
}

static bool open_listener(struct gateway *g, const struct listen_spec *spec, unsigned flags,
                          struct buf *error)
{
    if (g->listener_count == LISTENERS_MAX) {
        buf_printf(error, "more than %d listeners", LISTENERS_MAX);
        return false;
    }
    struct listener *l = listener_open(spec, flags, error);
    if (l == NULL)
        return false;
    g->listeners[g->listener_count++] = l;
    return true;
}

/* Those a service manager passed and those of the command line, else those of the settings. */
static bool open_listeners(struct gateway *g, const struct gateway_options *o, struct buf *error)
{
    const struct snapshot *s = g->worker->snapshot;
    bool open_to_all = o->listen_any_interface || s->listen_any_interface;
    unsigned flags = open_to_all || g->token != NULL ? LISTEN_ANY_INTERFACE : 0;
    struct listen_spec spec;

    for (int i = 0, n = listen_activated(); i < n; i++) {
        listen_inherited(LISTEN_FDS_FIRST + i, &spec);
        if (!open_listener(g, &spec, flags, error))
            return false;
    }
    for (size_t i = 0; i < o->listen_count; i++)
        if (!open_listener(g, &o->listen[i], flags, error))
            return false;
    bool given = g->listener_count != 0;
    for (char **text = s->listen; !given && text != NULL && *text != NULL; text++)
        if (!listen_parse(*text, &spec, error) || !open_listener(g, &spec, flags, error))
            return false;
    if (g->listener_count == 0) {
        buf_puts(error, "--listen-fd (or --listen for development) is required");
        return false;
    }
    for (size_t i = 0; i < g->listener_count; i++)
        if (!g->listeners[i]->loopback && g->token == NULL)
            log_warning("%s is unauthenticated: anyone who can reach this address can use it",
                        g->listeners[i]->address);
    return true;
}

static bool open_core(struct gateway *g, struct buf *error)
{
    struct snapshot *snapshot = g->snapshot;
    if (snapshot->token_file != NULL) {
        g->token = secret_read_file(snapshot->token_file, SECRET_TOKEN_MAX, error);
        if (g->token == NULL)
            return false;
    }
    g->snapshot = NULL;
    g->core = core_new(
        &(struct core_options){
            .loop = g->loop,
            .snapshot = snapshot,
            .log = g->options->log != NULL ? g->options->log : snapshot->log_file,
            .token = g->token != NULL ? (const char *)g->token->bytes : NULL,
            .ca = g->ca,
        },
        error);
    if (g->core == NULL)
        return false;
    g->worker = core_worker(g->core);
    g->worker->emptied = emptied;
    g->worker->emptied_ctx = g;
    return true;
}

static void watch_signal(struct gateway *g, ev_signal *signal, int number,
                         void (*callback)(struct ev_loop *, ev_signal *, int))
{
    ev_signal_init(signal, callback, number);
    signal->data = g;
    ev_signal_start(g->loop, signal);
}

void gateway_serve(struct gateway *g)
{
    const char *port_file = g->options->port_file;
    if (port_file != NULL &&
        !port_file_write(port_file, g->listeners, g->listener_count, &g->failure)) {
        ev_break(g->loop, EVBREAK_ALL);
        return;
    }
    g->serving = true;
    for (size_t i = 0; i < g->listener_count; i++) {
        fprintf(stderr, "srt proxy: serving %s\n", g->listeners[i]->address);
        g->acceptors[i] = acceptor_new(g->worker, g->listeners[i]);
        g->listeners[i] = NULL;
    }
    g->acceptor_count = g->listener_count;
}

static bool open_all(struct gateway *g, struct buf *error)
{
    const struct gateway_options *o = g->options;
    return open_core(g, error) && open_listeners(g, o, error) &&
           self_parent_absent(g->worker->snapshot->routes, g->listeners, g->listener_count,
                              g->worker->dialer.interfaces, error) &&
           gateway_watch_lifeline(g, error) && gateway_open_decider(g, error);
}

/* Until it is stopped, or cannot start after all. */
static int run(struct gateway *g)
{
    watch_signal(g, &g->term, SIGTERM, on_stop_signal);
    watch_signal(g, &g->interrupt, SIGINT, on_stop_signal);
    watch_signal(g, &g->hangup, SIGHUP, on_hangup);
    report_memory(g);
    /* Without a decider's word nothing may pass, so nobody is let in before it. */
    if (g->decider == NULL)
        gateway_serve(g);
    if (g->serving || g->decider != NULL)
        ev_run(g->loop, 0);
    if (g->stopped_by == NULL)
        return fail(buf_cstr(&g->failure));
    fprintf(stderr, "srt proxy: stopped (%s)\n", g->stopped_by);
    return STATUS_OK;
}

static void release(struct gateway *g)
{
    stop_accepting(g);
    for (size_t i = 0; i < g->listener_count; i++)
        listener_close(&g->listeners[i]);
    core_free(g->core);
    remote_free(g->decider);
    snapshot_unref(g->snapshot);
    ca_unref(g->ca);
    secret_free(g->token);
    json_decref(g->document);
    json_decref(g->hello);
    buf_free(&g->failure);
    ev_timer_stop(g->loop, &g->drain);
    ev_timer_stop(g->loop, &g->report);
    ev_io_stop(g->loop, &g->lifeline);
    ev_signal_stop(g->loop, &g->term);
    ev_signal_stop(g->loop, &g->interrupt);
    ev_signal_stop(g->loop, &g->hangup);
    ev_loop_destroy(g->loop);
    free(g);
}

static int start(const struct gateway_options *o)
{
    if (o->settings == NULL && !gateway_options_have_decider(o))
        return fail(GATEWAY_DECIDER_REQUIRED);
    struct gateway *g = mem_alloc(sizeof *g);
    struct buf error;
    g->options = o;
    g->loop = ev_default_loop(EVFLAG_AUTO);
    buf_init(&g->failure, 4096);
    buf_init(&error, 4096);
    ev_init(&g->drain, on_drained);
    ev_init(&g->report, on_report);
    ev_init(&g->lifeline, NULL);
    ev_init(&g->term, NULL);
    ev_init(&g->interrupt, NULL);
    ev_init(&g->hangup, NULL);
    g->drain.data = g;
    int status = gateway_configure(g);
    if (status == STATUS_OK)
        status = open_all(g, &error) ? run(g) : fail(buf_cstr(&error));
    buf_free(&error);
    release(g);
    return status;
}

int gateway_main(int argc, char **argv)
{
    struct gateway_options *o = mem_alloc(sizeof *o);
    struct buf error;
    int status;

    log_set_program("srt proxy");
    buf_init(&error, 4096);
    if (!gateway_options_parse(argc, argv, o, &error)) {
        status = fail(buf_cstr(&error));
    } else if (o->version) {
        puts("srt-proxy " SRT_VERSION);
        status = STATUS_OK;
    } else if (o->help) {
        fputs(gateway_usage, stdout);
        status = STATUS_OK;
    } else {
        if (o->debug)
            log_debug_enable();
        core_prepare_process();
        status = start(o);
    }
    buf_free(&error);
    free(o);
    return status;
}
