/* The decider of a gateway, and the other descriptors that its host hands it. Chapter 35 sections 5
 * to 7. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "decider/remote.h"
#include "proxy/gateway_internal.h"

enum { WARNING_PAUSE_S = 10, MESSAGES_MAX = 1 << 20 };

/* Puts a decider's lists in force. */
static bool use_lists(struct gateway *g, const struct decider_lists *lists)
{
    struct buf warnings, error;
    buf_init(&warnings, MESSAGES_MAX);
    buf_init(&error, MESSAGES_MAX);
    struct snapshot *s = gateway_snapshot(g, lists, &warnings, &error);
    if (s != NULL)
        core_replace_snapshot(g->core, s);
    else
        log_error("decider: its lists cannot be used: %s", buf_cstr(&error));
    buf_free(&warnings);
    buf_free(&error);
    return s != NULL;
}

static void on_ready(void *ctx, const struct hello *hello)
{
    struct gateway *g = ctx;
    const struct decider_lists lists = {.allowed = hello->allowed,
                                        .allowed_count = hello->allowed_count,
                                        .denied = hello->denied,
                                        .denied_count = hello->denied_count};
    json_decref(g->hello);
    g->hello = json_incref(hello->json);
    g->next_warning = 0;
    if (use_lists(g, &lists) && !g->serving && g->stopped_by == NULL)
        gateway_serve(g);
}

/* What a decider of protocol 2 allowed by its hello it does not allow any more: it would be asked,
 * and is away. What it denied stays denied. */
static void forget_allowed(struct gateway *g)
{
    const json_t *denied = json_object_get(g->hello, "deniedDomains");
    size_t count = json_array_size(denied);
    const char **names = mem_array(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = json_string_value(json_array_get(denied, i));
    use_lists(g, &(struct decider_lists){.denied = names, .denied_count = count});
    free(names);
    json_decref(g->hello);
    g->hello = NULL;
}

/* Before the first hello nothing is served, and nothing more can come from a descriptor. */
static void fail_to_start(struct gateway *g, const char *why)
{
    buf_printf(&g->failure, "decider unavailable: %s", why);
    ev_break(g->loop, EVBREAK_ALL);
}

static void on_away(void *ctx, const char *why, bool final)
{
    struct gateway *g = ctx;
    worker_decider_lost(g->worker);
    if (g->hello != NULL && !g->proxy_only)
        forget_allowed(g);
    if (final && !g->serving) {
        fail_to_start(g, why);
    } else if (final && g->proxy_only) {
        buf_clear(&g->failure);
        buf_printf(&g->failure, "decider: %s", why);
        gateway_stop(g, buf_cstr(&g->failure), false);
    } else if (ev_now(g->loop) >= g->next_warning) {
        log_warning("decider: %s; %s", why,
                    g->serving ? "what it has to answer is refused while it is away"
                               : "connections are accepted once it has said hello");
        g->next_warning = ev_now(g->loop) + WARNING_PAUSE_S;
    }
}

bool gateway_open_decider(struct gateway *g, struct buf *error)
{
    const struct gateway_options *o = g->options;
    const struct snapshot *s = g->worker->snapshot;
    bool ours = gateway_options_have_decider(o), pair = o->decider_in >= 0;
    if (g->proto == 0)
        return true;
    const struct remote_options options = {
        .loop = g->loop,
        .proto = g->proto,
        .level = g->proto == 1 ? 0 : s->decider_level,
        .timeout_ms = s->decider_timeout_ms,
        .fd_in = pair ? o->decider_in : o->decider_fd,
        .fd_out = pair ? o->decider_out : o->decider_fd,
        .exec = ours ? o->decider_exec : s->decider_exec,
        .unix_path = ours ? o->decider_unix : s->decider_unix,
        .ready = on_ready,
        .away = on_away,
        .ctx = g,
    };
    g->decider = remote_new(&options, error);
    g->worker->decider = g->decider;
    return g->decider != NULL;
}

static void on_lifeline(struct ev_loop *loop, ev_io *io, int revents)
{
    struct gateway *g = io->data;
    char bytes[4096];
    (void)revents;
    ssize_t n = read(io->fd, bytes, sizeof bytes);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    ev_io_stop(loop, io);
    gateway_stop(g, n == 0 ? "lifeline closed" : "lifeline error", false);
}

bool gateway_watch_lifeline(struct gateway *g, struct buf *error)
{
    int fd = g->options->lifeline_fd;
    if (fd < 0)
        return true;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        buf_printf(error, "--lifeline-fd %d: %s", fd, strerror(errno));
        return false;
    }
    ev_io_init(&g->lifeline, on_lifeline, fd, EV_READ);
    g->lifeline.data = g;
    ev_io_start(g->loop, &g->lifeline);
    return true;
}
