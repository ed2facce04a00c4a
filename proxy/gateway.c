#include "proxy/gateway.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "proxy/acceptor.h"
#include "proxy/egress/bridge.h"
#include "proxy/egress/peers.h"
#include "proxy/egress/pool.h"
#include "proxy/egress/record.h"
#include "proxy/gateway_options.h"
#include "proxy/port_file.h"
#include "proxy/self_parent.h"

/* How long a full log waits before it is tried again. */
static const double LOG_RETRY_S = 0.1;

enum { STATUS_OK = 0, STATUS_SETTINGS = 1, STATUS_USAGE = 2 };

struct gateway {
    struct worker *worker;
    struct listener *listeners[LISTENERS_MAX];
    struct acceptor *acceptors[LISTENERS_MAX];
    size_t listener_count, acceptor_count;
    struct secret *token;
    const char *stopped_by; /* signal name */
    ev_signal term, interrupt, hangup;
    ev_timer drain;
    ev_timer log_retry; /* the log's sink was full */
    struct stream_watch *watch;
    ev_prepare flush_log;
};

static void emptied(void *ctx)
{
    struct gateway *g = ctx;
    ev_break(g->worker->loop, EVBREAK_ALL);
}

static void room(void *ctx)
{
    struct gateway *g = ctx;
    for (size_t i = 0; i < g->acceptor_count; i++)
        acceptor_resume(g->acceptors[i]);
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

/* The first signal lets what is under way finish; a second one does not wait. */
static void on_stop_signal(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct gateway *g = signal->data;
    bool again = g->stopped_by != NULL;
    (void)revents;
    g->stopped_by = signal->signum == SIGINT ? "SIGINT" : "SIGTERM";
    stop_accepting(g);
    if (!again) {
        ev_timer_set(&g->drain, g->worker->snapshot->limits.drain_ms / 1e3, 0);
        ev_timer_start(loop, &g->drain);
    }
    worker_stop(g->worker, again);
}

static void on_hangup(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct gateway *g = signal->data;
    struct buf error;
    (void)loop;
    (void)revents;
    buf_init(&error, 1024);
    if (!record_log_reopen(g->worker->log, &error))
        log_warning("%s", buf_cstr(&error));
    buf_free(&error);
}

static void on_turn(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    struct gateway *g = prepare->data;
    (void)revents;
    if (record_log_flush(g->worker->log) && !ev_is_active(&g->log_retry))
        ev_timer_start(loop, &g->log_retry);
}

static void on_log_retry(struct ev_loop *loop, ev_timer *timer, int revents)
{
    /* Waking up is all: the log is flushed at the end of each turn. */
    ev_timer_stop(loop, timer);
    (void)revents;
}

static int fail(const char *message)
{
    log_error("%s", message);
    return STATUS_USAGE;
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
            log_warning("%s: anyone who can reach this address can use it: clients need no "
                        "credentials",
                        g->listeners[i]->address);
    return true;
}

static bool prepare_worker(struct gateway *g, struct snapshot *snapshot,
                           const struct gateway_options *o, struct buf *error)
{
    struct worker *w = g->worker;
    const char *why = NULL;
    const char *log = o->log != NULL ? o->log : snapshot->log_file;

    w->loop = ev_default_loop(EVFLAG_AUTO);
    w->snapshot = snapshot;
    w->emptied = emptied;
    w->emptied_ctx = g;
    w->room = room;
    w->room_ctx = g;
    w->budget.mark = snapshot->limits.queued_bytes;
    w->peers = peers_new();
    w->pipes = pipes_new(w->loop);
    if (snapshot->token_file != NULL) {
        g->token = secret_read_file(snapshot->token_file, SECRET_TOKEN_MAX, error);
        if (g->token == NULL)
            return false;
        w->token = (const char *)g->token->bytes;
    }
    w->dialer = (struct dialer){
        .loop = w->loop,
        .resolver = resolver_new(w->loop,
                                 &(struct resolver_options){.servers = snapshot->dns_servers,
                                                            .use_hosts = snapshot->dns_hosts,
                                                            .limits = &snapshot->limits},
                                 &why),
        .interfaces = interfaces_new(w->loop),
        .limits = &snapshot->limits,
    };
    if (w->dialer.resolver == NULL) {
        buf_puts(error, why);
        return false;
    }
    w->pool = pool_new(w->loop, w->dialer.interfaces);
    w->tls = tls_upstream_new();
    if (w->tls == NULL) {
        buf_puts(error, "no TLS context could be made");
        return false;
    }
    if (log != NULL) {
        w->log = record_log_open(log, error);
        if (w->log == NULL)
            return false;
    }
    return true;
}

static void watch_signal(struct gateway *g, ev_signal *signal, int number,
                         void (*callback)(struct ev_loop *, ev_signal *, int))
{
    ev_signal_init(signal, callback, number);
    signal->data = g;
    ev_signal_start(g->worker->loop, signal);
}

static void serve(struct gateway *g)
{
    struct ev_loop *loop = g->worker->loop;
    watch_signal(g, &g->term, SIGTERM, on_stop_signal);
    watch_signal(g, &g->interrupt, SIGINT, on_stop_signal);
    watch_signal(g, &g->hangup, SIGHUP, on_hangup);
    ev_timer_init(&g->drain, on_drained, 0, 0);
    g->drain.data = g;
    ev_timer_init(&g->log_retry, on_log_retry, LOG_RETRY_S, 0);
    g->watch = stream_watch(loop, g->worker->snapshot->limits.dead_peer_ms / 1e3);
    ev_prepare_init(&g->flush_log, on_turn);
    g->flush_log.data = g;
    if (g->worker->log != NULL)
        ev_prepare_start(loop, &g->flush_log);
    for (size_t i = 0; i < g->listener_count; i++) {
        fprintf(stderr, "srt proxy: serving %s\n", g->listeners[i]->address);
        g->acceptors[i] = acceptor_new(g->worker, g->listeners[i]);
        g->listeners[i] = NULL;
    }
    g->acceptor_count = g->listener_count;
    ev_run(loop, 0);
    fprintf(stderr, "srt proxy: stopped (%s)\n", g->stopped_by);
}

static void release(struct gateway *g)
{
    struct worker *w = g->worker;
    stop_accepting(g);
    for (size_t i = 0; i < g->listener_count; i++)
        listener_close(&g->listeners[i]);
    pool_free(w->pool);
    bridges_close(w);
    stream_watch_stop(g->watch);
    peers_free(w->peers);
    pipes_free(w->pipes);
    resolver_free(w->dialer.resolver);
    if (w->dialer.interfaces != NULL)
        interfaces_free(w->dialer.interfaces);
    if (w->tls != NULL)
        tls_upstream_free(w->tls);
    record_log_close(w->log);
    if (w->snapshot != NULL)
        snapshot_unref(w->snapshot);
    secret_free(g->token);
    if (w->loop != NULL) {
        ev_signal_stop(w->loop, &g->term);
        ev_signal_stop(w->loop, &g->interrupt);
        ev_signal_stop(w->loop, &g->hangup);
        ev_loop_destroy(w->loop);
    }
    free(w);
    free(g);
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Buffers for slow peers go back to the system when they are freed, not into the heap. */
static void give_memory_back(void)
{
    mallopt(M_MMAP_THRESHOLD, RELAY_CHUNK);
    mallopt(M_TRIM_THRESHOLD, 16 * RELAY_CHUNK);
}

static int run(const struct gateway_options *o, struct snapshot *snapshot)
{
    struct gateway *g = mem_alloc(sizeof *g);
    struct buf error;
    int status = STATUS_OK;

    g->worker = mem_alloc(sizeof *g->worker);
    buf_init(&error, 4096);
    if (!prepare_worker(g, snapshot, o, &error) || !open_listeners(g, o, &error) ||
        !self_parent_absent(snapshot->routes, g->listeners, g->listener_count,
                            g->worker->dialer.interfaces, &error) ||
        (o->port_file != NULL &&
         !port_file_write(o->port_file, g->listeners, g->listener_count, &error)))
        status = fail(buf_cstr(&error));
    else
        serve(g);
    buf_free(&error);
    release(g);
    return status;
}

static int start(const struct gateway_options *o)
{
    struct buf warnings, error;
    int status = STATUS_SETTINGS;

    if (o->settings == NULL)
        return fail("a decider is required (--decider-fd, or --decider-in and --decider-out)");
    buf_init(&warnings, 1 << 20);
    buf_init(&error, 1 << 20);
    struct snapshot *snapshot =
        snapshot_load(o->settings, SETTINGS_GATEWAY, true, &warnings, &error);
    struct buf *said = snapshot != NULL ? &warnings : &error;
    fd_write_all(STDERR_FILENO, buf_data(said), buf_len(said));
    buf_free(&warnings);
    buf_free(&error);
    if (snapshot != NULL)
        status = run(o, snapshot);
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
        signal(SIGPIPE, SIG_IGN);
        process_no_core_dumps();
        tzset(); /* reads its file now, not at the first date on the loop */
        raise_descriptor_limit();
        give_memory_back();
        status = start(o);
    }
    buf_free(&error);
    free(o);
    return status;
}
