#include "proxy/gateway.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "proxy/acceptor.h"
#include "proxy/core.h"
#include "proxy/egress/record.h"
#include "proxy/gateway_options.h"
#include "proxy/port_file.h"
#include "proxy/self_parent.h"
#include "proxy/settings/notes.h"

enum { STATUS_OK = 0, STATUS_SETTINGS = 1, STATUS_USAGE = 2 };

struct gateway {
    struct ev_loop *loop;
    struct core *core;
    struct worker *worker; /* the core's */
    struct listener *listeners[LISTENERS_MAX];
    struct acceptor *acceptors[LISTENERS_MAX];
    size_t listener_count, acceptor_count;
    struct secret *token;
    struct ca *ca;          /* NULL: TLS is passed through */
    const char *stopped_by; /* signal name */
    ev_signal term, interrupt, hangup;
    ev_timer drain;
};

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

/* Takes the snapshot over. */
static bool open_core(struct gateway *g, struct snapshot *snapshot, const struct gateway_options *o,
                      struct buf *error)
{
    if (snapshot->token_file != NULL) {
        g->token = secret_read_file(snapshot->token_file, SECRET_TOKEN_MAX, error);
        if (g->token == NULL) {
            snapshot_unref(snapshot);
            return false;
        }
    }
    g->core = core_new(
        &(struct core_options){
            .loop = g->loop,
            .snapshot = snapshot,
            .log = o->log != NULL ? o->log : snapshot->log_file,
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

static void serve(struct gateway *g)
{
    watch_signal(g, &g->term, SIGTERM, on_stop_signal);
    watch_signal(g, &g->interrupt, SIGINT, on_stop_signal);
    watch_signal(g, &g->hangup, SIGHUP, on_hangup);
    ev_timer_init(&g->drain, on_drained, 0, 0);
    g->drain.data = g;
    for (size_t i = 0; i < g->listener_count; i++) {
        fprintf(stderr, "srt proxy: serving %s\n", g->listeners[i]->address);
        g->acceptors[i] = acceptor_new(g->worker, g->listeners[i]);
        g->listeners[i] = NULL;
    }
    g->acceptor_count = g->listener_count;
    ev_run(g->loop, 0);
    fprintf(stderr, "srt proxy: stopped (%s)\n", g->stopped_by);
}

static void release(struct gateway *g)
{
    stop_accepting(g);
    for (size_t i = 0; i < g->listener_count; i++)
        listener_close(&g->listeners[i]);
    core_free(g->core);
    ca_unref(g->ca);
    secret_free(g->token);
    ev_timer_stop(g->loop, &g->drain);
    ev_signal_stop(g->loop, &g->term);
    ev_signal_stop(g->loop, &g->interrupt);
    ev_signal_stop(g->loop, &g->hangup);
    ev_loop_destroy(g->loop);
    free(g);
}

static int run(const struct gateway_options *o, struct snapshot *snapshot, struct ca *ca)
{
    struct gateway *g = mem_alloc(sizeof *g);
    struct buf error;
    int status = STATUS_OK;

    g->loop = ev_default_loop(EVFLAG_AUTO);
    g->ca = ca;
    buf_init(&error, 4096);
    if (!open_core(g, snapshot, o, &error) || !open_listeners(g, o, &error) ||
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

/* The settings name a CA for the tunnels that are terminated. *ca stays NULL without. */
static bool load_ca(const struct snapshot *snapshot, struct ca **ca, struct buf *warnings,
                    struct buf *error)
{
    struct buf why;
    if (!snapshot->tls_terminate)
        return true;
    buf_init(&why, 8192);
    *ca = ca_load(snapshot->tls_ca_certificate, snapshot->tls_ca_key, &why);
    if (*ca != NULL) {
        ca_warnings(*ca, warnings);
    } else {
        buf_puts(error, "Error: ");
        settings_line(error, buf_cstr(&why), buf_len(&why));
    }
    buf_free(&why);
    return *ca != NULL;
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
    struct ca *ca = NULL;
    bool usable = snapshot != NULL && load_ca(snapshot, &ca, &warnings, &error);
    struct buf *said = usable ? &warnings : &error;
    fd_write_all(STDERR_FILENO, buf_data(said), buf_len(said));
    buf_free(&warnings);
    buf_free(&error);
    if (usable)
        status = run(o, snapshot, ca);
    else
        snapshot_unref(snapshot);
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
