#include "proxy/core.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "proxy/acceptor.h"
#include "proxy/egress/answers.h"
#include "proxy/egress/bridge.h"
#include "proxy/egress/peers.h"
#include "proxy/egress/pool.h"
#include "proxy/egress/record.h"
#include "proxy/tls/accept.h"

/* How long a full log waits before it is tried again. */
static const double LOG_RETRY_S = 0.1;

struct core {
    struct worker *worker;
    struct limits limits; /* of the start: those that snapshots come and go with are equal */
    char *attribution;
    struct stream_watch *watch;
    ev_prepare flush_log;
    ev_timer log_retry; /* the log's sink was full */
};

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

void core_prepare_process(void)
{
    signal(SIGPIPE, SIG_IGN);
    process_no_core_dumps();
    tzset(); /* reads its file now, not at the first date on the loop */
    raise_descriptor_limit();
    give_memory_back();
}

static void on_turn(struct ev_loop *loop, ev_prepare *prepare, int revents)
{
    struct core *c = prepare->data;
    (void)revents;
    if (line_log_flush(c->worker->log) && !ev_is_active(&c->log_retry))
        ev_timer_start(loop, &c->log_retry);
}

static void on_log_retry(struct ev_loop *loop, ev_timer *timer, int revents)
{
    /* Waking up is all: the log is flushed at the end of each turn. */
    ev_timer_stop(loop, timer);
    (void)revents;
}

static void on_room(void *ctx)
{
    acceptors_resume(ctx);
}

/* Whoever waits for the last client says so by a call back of their own. */
static void on_emptied(void *ctx)
{
    (void)ctx;
}

static bool open_resolver(struct core *c, struct buf *error)
{
    struct worker *w = c->worker;
    const struct resolver_options options = {
        .servers = w->snapshot->dns_servers,
        .use_hosts = w->snapshot->dns_hosts,
        .limits = &c->limits,
    };
    const char *why = NULL;
    w->dialer = (struct dialer){
        .loop = w->loop,
        .resolver = resolver_new(w->loop, &options, &why),
        .interfaces = interfaces_new(w->loop),
        .limits = &c->limits,
    };
    if (w->dialer.resolver == NULL)
        buf_puts(error, why);
    return w->dialer.resolver != NULL;
}

static bool open_parts(struct core *c, const struct core_options *o, struct buf *error)
{
    struct worker *w = c->worker;
    w->peers = peers_new();
    w->pipes = pipes_new(w->loop);
    if (!open_resolver(c, error))
        return false;
    w->pool = pool_new(w->loop, w->dialer.interfaces);
    w->tls = tls_upstream_new(o->short_lived);
    if (o->ca != NULL)
        w->tls_server = tls_server_new(o->ca, o->short_lived);
    if (w->tls == NULL || (o->ca != NULL && w->tls_server == NULL)) {
        buf_puts(error, "no TLS context could be made");
        return false;
    }
    if (o->log == NULL)
        return true;
    w->log = line_log_open("decision log", o->log, STDOUT_FILENO, o->log_may_be_planted, error);
    if (w->log == NULL)
        return false;
    ev_prepare_start(w->loop, &c->flush_log);
    return true;
}

struct core *core_new(const struct core_options *o, struct buf *error)
{
    struct core *c = mem_alloc(sizeof *c);
    struct worker *w = c->worker = mem_alloc(sizeof *w);
    c->limits = o->snapshot->limits;
    w->loop = o->loop;
    w->snapshot = o->snapshot;
    w->token = o->token;
    w->token_optional = o->token_optional;
    w->violations = o->violations;
    w->attribution = c->attribution = o->attribution != NULL ? mem_dup(o->attribution) : NULL;
    w->budget.mark = c->limits.queued_bytes;
    w->room = on_room;
    w->room_ctx = w;
    w->emptied = on_emptied;
    ev_prepare_init(&c->flush_log, on_turn);
    c->flush_log.data = c;
    ev_timer_init(&c->log_retry, on_log_retry, LOG_RETRY_S, 0);
    c->watch = stream_watch(w->loop, c->limits.dead_peer_ms / 1e3);
    if (open_parts(c, o, error))
        return c;
    core_free(c);
    return NULL;
}

struct worker *core_worker(struct core *c)
{
    return c->worker;
}

void core_free(struct core *c)
{
    if (c == NULL)
        return;
    struct worker *w = c->worker;
    w->emptied = on_emptied;
    worker_stop(w, true);
    pool_free(w->pool);
    bridges_close(w);
    stream_watch_stop(c->watch);
    ev_prepare_stop(w->loop, &c->flush_log);
    ev_timer_stop(w->loop, &c->log_retry);
    peers_free(w->peers);
    pipes_free(w->pipes);
    resolver_free(w->dialer.resolver);
    if (w->dialer.interfaces != NULL)
        interfaces_free(w->dialer.interfaces);
    if (w->tls != NULL)
        tls_upstream_free(w->tls);
    tls_server_free(w->tls_server);
    worker_forget_told(w);
    answers_free(w->answers);
    line_log_close(w->log);
    snapshot_unref(w->snapshot);
    free(c->attribution);
    free(w);
    free(c);
}

void core_replace_snapshot(struct core *c, struct snapshot *snapshot)
{
    struct snapshot *old = c->worker->snapshot;
    snapshot_keep_fixed(snapshot, old);
    c->worker->snapshot = snapshot;
    snapshot_unref(old);
}
