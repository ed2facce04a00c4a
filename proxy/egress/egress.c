#include "proxy/egress/egress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "proxy/egress/bridge.h"
#include "proxy/egress/parent_connect.h"

enum { NEXT_HOP_TEXT = 512, NEXT_HOP_WARNING_S = 60 };

/* Between two tries at a socket whose backlog is full. */
static const double SOCKET_RETRY_S = 0.02;

enum egress_state {
    SOCKET,      /* the MITM socket is about to be connected */
    DIALLING,    /* a dial to the destination or the parent is under way */
    PARENT_TLS,  /* TLS handshake with an https parent */
    PARENT_HEAD, /* CONNECT sent to the parent, its answer awaited */
    TARGET_TLS   /* TLS handshake with the destination */
};

struct egress {
    struct worker *worker;
    const struct snapshot *snapshot;
    const struct host *host;
    struct next_hop hop;
    uint16_t port;
    enum egress_kind kind;
    enum egress_state state;
    struct dial *dial;
    struct tls_connect *tls;
    struct parent_connect *connect;
    struct host *parent_host;
    struct address address; /* that was dialled, when direct */
    double deadline;        /* ev_now() at which it has failed */
    ev_timer timer;         /* handshakes after the dial; the dial has its own */
    egress_callback *callback;
    void *ctx;
};

struct next_hop egress_next_hop(const struct snapshot *s, const struct host *host, uint16_t port,
                                enum egress_kind kind)
{
    struct next_hop hop = {0};
    if (s->mitm_domains != NULL && pattern_list_match(s->mitm_domains, host, port) >= 0)
        hop.socket = s->mitm_socket;
    else if (s->routes != NULL)
        hop.parent =
            routes_find(s->routes, host, kind == EGRESS_PLAIN ? ROUTE_PLAIN : ROUTE_TUNNEL);
    return hop;
}

/* A descriptor, or minus the errno. There is nothing to wait for but room in the backlog. */
static int connect_socket(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof to.sun_path)
        return -ENAMETOOLONG;
    memcpy(to.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    int number = errno;
    close(fd);
    return -number;
}

static void egress_free(struct egress *e)
{
    ev_timer_stop(e->worker->loop, &e->timer);
    free(e->parent_host);
    free(e);
}

static void give(struct egress *e, struct egress_result *result)
{
    egress_callback *callback = e->callback;
    void *ctx = e->ctx;
    egress_free(e);
    callback(ctx, result);
}

static void fail(struct egress *e, enum err err, const char *detail)
{
    struct egress_result result = {.err = err, .detail = detail};
    give(e, &result);
}

static void succeed(struct egress *e, struct stream *stream)
{
    struct egress_result result = {.err = ERR_NONE, .stream = stream, .address = e->address};
    give(e, &result);
}

/* Next hops are the operator's: the log names them, the client is told the class alone. */
static void fail_at_hop(struct egress *e, const char *why)
{
    struct worker *w = e->worker;
    char text[NEXT_HOP_TEXT];
    if (e->hop.socket != NULL)
        snprintf(text, sizeof text, "MITM socket %s: %s", e->hop.socket, why);
    else
        snprintf(text, sizeof text, "parent proxy %s:%u: %s", e->hop.parent->host,
                 (unsigned)e->hop.parent->port, why);
    /* Every request's record says it; the operator's terminal hears of it now and then. */
    if (ev_now(w->loop) >= w->next_hop_warning) {
        log_warning("%s", text);
        w->next_hop_warning = ev_now(w->loop) + NEXT_HOP_WARNING_S;
    }
    fail(e, ERR_UPSTREAM_PARENT, text);
}

static void on_target_tls(void *ctx, enum err err, struct stream *stream, const char *detail)
{
    struct egress *e = ctx;
    e->tls = NULL;
    if (err != ERR_NONE)
        fail(e, err, detail);
    else
        succeed(e, stream);
}

static void start_target_tls(struct egress *e, int fd)
{
    e->state = TARGET_TLS;
    e->tls =
        tls_connect_start(e->worker->tls, e->worker->loop, fd, e->host, NULL, 0, on_target_tls, e);
}

static void on_parent_answer(void *ctx, enum err err, struct stream *stream, struct buf *early,
                             const char *detail)
{
    struct egress *e = ctx;
    e->connect = NULL;
    if (err != ERR_NONE) {
        fail_at_hop(e, detail);
        return;
    }
    if (e->kind == EGRESS_TLS) {
        /* TLS begins with our ClientHello: a server that spoke first is not one. */
        bool spoke = buf_len(early) != 0;
        buf_free(early);
        if (spoke) {
            stream_close(&stream);
            fail(e, ERR_UPSTREAM_TLS, "the server spoke before the TLS handshake");
            return;
        }
        int fd = stream_release(stream);
        if (fd < 0)
            fd = bridge_open(e->worker, stream);
        if (fd >= 0)
            start_target_tls(e, fd);
        else
            fail(e, ERR_OVERLOADED, NULL);
        return;
    }
    struct egress_result result = {.err = ERR_NONE, .stream = stream, .early = *early};
    give(e, &result);
}

static void parent_ready(struct egress *e, struct stream *stream)
{
    if (e->kind == EGRESS_PLAIN) {
        succeed(e, stream);
        return;
    }
    e->state = PARENT_HEAD;
    e->connect = parent_connect_start(stream, e->host, e->port,
                                      e->hop.parent != NULL ? e->hop.parent->authorization : NULL,
                                      e->snapshot->limits.response_head_bytes, on_parent_answer, e);
}

static void on_parent_tls(void *ctx, enum err err, struct stream *stream, const char *detail)
{
    struct egress *e = ctx;
    e->tls = NULL;
    if (err != ERR_NONE)
        fail_at_hop(e, detail);
    else
        parent_ready(e, stream);
}

static void debug_denied(const struct egress *e, const struct dial_result *r)
{
    for (size_t i = 0; i < r->denied_count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&r->denied[i], text);
        log_debug("Denied address(es) for %s:%u: %s (%s)", e->host->text, (unsigned)e->port, text,
                  address_class_text(r->denied_class[i]));
    }
}

static void start_timer(struct egress *e, double seconds)
{
    double left = e->deadline - ev_now(e->worker->loop);
    ev_timer_stop(e->worker->loop, &e->timer);
    ev_timer_set(&e->timer, left < 0 ? 0 : left < seconds ? left : seconds, 0);
    ev_timer_start(e->worker->loop, &e->timer);
}

static void on_dialled(void *ctx, const struct dial_result *r)
{
    struct egress *e = ctx;
    e->dial = NULL;
    if (r->denied_count != 0 && log_debug_enabled)
        debug_denied(e, r);
    if (r->err != ERR_NONE) {
        if (e->hop.parent != NULL) {
            fail_at_hop(e, err_info(r->err)->sentence);
            return;
        }
        struct egress_result result = {.err = r->err, .denied_classes = r->denied_classes};
        give(e, &result);
        return;
    }
    if (e->hop.parent == NULL)
        e->address = r->address;
    if (e->hop.parent == NULL && e->kind != EGRESS_TLS) {
        succeed(e, stream_plain(e->worker->loop, r->fd));
        return;
    }
    start_timer(e, HUGE_VAL);
    if (e->hop.parent == NULL) {
        start_target_tls(e, r->fd);
    } else if (e->hop.parent->tls) {
        e->state = PARENT_TLS;
        e->tls = tls_connect_start(e->worker->tls, e->worker->loop, r->fd, e->parent_host, NULL, 0,
                                   on_parent_tls, e);
    } else {
        parent_ready(e, stream_plain(e->worker->loop, r->fd));
    }
}

static void abandon(struct egress *e)
{
    if (e->dial != NULL)
        dial_cancel(e->dial);
    if (e->tls != NULL)
        tls_connect_cancel(e->tls);
    if (e->connect != NULL)
        parent_connect_cancel(e->connect);
    e->dial = NULL;
    e->tls = NULL;
    e->connect = NULL;
}

static void open_socket(struct egress *e)
{
    int fd = connect_socket(e->hop.socket);
    if (fd == -EAGAIN && ev_now(e->worker->loop) < e->deadline) {
        /* Its backlog is full: it is there, and busy. */
        start_timer(e, SOCKET_RETRY_S);
        return;
    }
    if (fd < 0) {
        fail_at_hop(e, strerror(-fd));
        return;
    }
    e->state = DIALLING;
    start_timer(e, HUGE_VAL);
    parent_ready(e, stream_plain(e->worker->loop, fd));
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct egress *e = timer->data;
    if (e->state == SOCKET) {
        open_socket(e);
        return;
    }
    bool at_hop = !next_hop_is_direct(&e->hop) && e->state != TARGET_TLS;
    (void)loop;
    (void)revents;
    abandon(e);
    if (at_hop)
        fail_at_hop(e, "handshake not done in time");
    else
        fail(e, ERR_UPSTREAM_TIMEOUT, "handshake not done in time");
}

struct egress *egress_start(struct worker *w, const struct snapshot *snapshot,
                            const struct host *host, uint16_t port, enum egress_kind kind,
                            egress_callback *callback, void *ctx)
{
    struct egress *e = mem_alloc(sizeof *e);
    e->worker = w;
    e->snapshot = snapshot;
    e->host = host;
    e->port = port;
    e->kind = kind;
    e->callback = callback;
    e->ctx = ctx;
    e->deadline = ev_now(w->loop) + snapshot->limits.dial_ms / 1e3;
    e->hop = egress_next_hop(snapshot, host, port, kind);
    e->state = DIALLING;
    ev_timer_init(&e->timer, on_timeout, snapshot->limits.dial_ms / 1e3, 0);
    e->timer.data = e;
    if (e->hop.socket != NULL) {
        /* Even a failure is told from the loop. */
        e->state = SOCKET;
        ev_feed_event(w->loop, &e->timer, EV_TIMER);
    } else if (e->hop.parent != NULL) {
        /* routes_new() accepted the name, so it has a canonical form. */
        e->parent_host = mem_alloc(sizeof *e->parent_host);
        host_canonicalise(e->hop.parent->host, strlen(e->hop.parent->host), e->parent_host);
        e->dial = dial_start(&w->dialer, NULL, e->parent_host, e->hop.parent->port, on_dialled, e);
    } else {
        e->dial = dial_start(&w->dialer, snapshot->policy, host, port, on_dialled, e);
    }
    return e;
}

void egress_cancel(struct egress *e)
{
    abandon(e);
    egress_free(e);
}
