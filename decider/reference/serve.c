#include "decider/reference/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ev.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "decider/reference/decision_log.h"
#include "decider/reference/rules_file.h"
#include "decider/reference/stream.h"
#include "proxy/net/listen.h"

enum { ACCEPT_AT_ONCE = 16, MESSAGES_MAX = 16777216 };

/* When there is no descriptor for a link that waits, and when the log could not be written. */
static const double pause_s = 0.2, log_retry_s = 1;

/* A link of the socket. */
struct proxy_link {
    struct server *server;
    struct stream *stream;
    int fd;
    struct proxy_link *next, **place;
};

struct server {
    struct ev_loop *loop;
    const struct decider_options *options;
    struct decider_rules *rules;
    struct line_log *log;
    struct stream *standard; /* over standard input and output, or NULL */
    struct listener *listener;
    struct proxy_link *links;
    ev_io acceptable;
    ev_timer accept_again, log_again;
    ev_signal hangup, terminate, interrupt;
    int status;
};

static void log_lines(const char *text)
{
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1)
        log_error("%.*s", (int)(end - text), text);
}

/* --- rules and log --- */

static void on_hangup(struct ev_loop *loop, ev_signal *w, int events)
{
    struct server *server = w->data;
    struct buf error;
    (void)loop;
    (void)events;
    buf_init(&error, MESSAGES_MAX);
    struct decider_rules *rules = decider_rules_read(server->options->rules, &error);
    if (rules != NULL) {
        decider_rules_unref(server->rules);
        server->rules = rules;
        log_error("the rules were read again");
    } else {
        log_lines(buf_cstr(&error));
        log_error("the rules stay as they were");
    }
    buf_clear(&error);
    if (!line_log_reopen(server->log, &error))
        log_error("%s", buf_cstr(&error));
    buf_free(&error);
}

static void flush_log(struct server *server)
{
    if (line_log_flush(server->log) && !ev_is_active(&server->log_again))
        ev_timer_start(server->loop, &server->log_again);
}

static void on_log_again(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop;
    (void)events;
    flush_log(w->data);
}

static void on_answered(void *ctx)
{
    flush_log(ctx);
}

/* --- links --- */

static void tell_end(enum stream_end end, const char *why)
{
    if (end == STREAM_VIOLATION)
        log_error("the proxy broke the protocol: %s", why);
    else if (end == STREAM_FAILED)
        log_error("the stream failed: %s", why);
}

static void on_standard_ended(void *ctx, enum stream_end end, const char *why)
{
    struct server *server = ctx;
    tell_end(end, why);
    server->status = end == STREAM_DONE ? EXIT_SUCCESS : EXIT_FAILURE;
    ev_break(server->loop, EVBREAK_ALL);
}

static void free_link(struct proxy_link *l)
{
    *l->place = l->next;
    if (l->next != NULL)
        l->next->place = l->place;
    stream_free(l->stream);
    close(l->fd);
    free(l);
}

static void free_links(struct server *server)
{
    for (struct proxy_link *l = server->links, *next; l != NULL; l = next) {
        next = l->next;
        free_link(l);
    }
}

static void on_link_ended(void *ctx, enum stream_end end, const char *why)
{
    struct proxy_link *l = ctx;
    tell_end(end, why);
    flush_log(l->server);
    free_link(l);
}

static void on_link_answered(void *ctx)
{
    flush_log(((struct proxy_link *)ctx)->server);
}

static void add_link(struct server *server, int fd)
{
    struct proxy_link *l = mem_alloc(sizeof *l);
    *l = (struct proxy_link){
        .server = server, .fd = fd, .next = server->links, .place = &server->links};
    if (l->next != NULL)
        l->next->place = &l->next;
    server->links = l;
    const struct stream_options options = {.loop = server->loop,
                                           .in = fd,
                                           .out = fd,
                                           .rules = &server->rules,
                                           .log = server->log,
                                           .answered = on_link_answered,
                                           .ended = on_link_ended,
                                           .ctx = l};
    l->stream = stream_new(&options);
}

static void on_acceptable(struct ev_loop *loop, ev_io *w, int events)
{
    struct server *server = w->data;
    struct sockaddr_storage peer;
    (void)events;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd = listener_accept(server->listener, &peer);
        if (fd >= 0) {
            add_link(server, fd);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return;
        log_warning("no new link: %s", strerror(errno));
        ev_io_stop(loop, w);
        ev_timer_set(&server->accept_again, pause_s, 0);
        ev_timer_start(loop, &server->accept_again);
        return;
    }
}

static void on_accept_again(struct ev_loop *loop, ev_timer *w, int events)
{
    struct server *server = w->data;
    (void)events;
    ev_io_start(loop, &server->acceptable);
}

/* --- the program --- */

static void on_terminate(struct ev_loop *loop, ev_signal *w, int events)
{
    (void)w;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void start_signal(struct server *server, ev_signal *w, int number,
                         void (*call)(struct ev_loop *, ev_signal *, int))
{
    ev_signal_init(w, call, number);
    w->data = server;
    ev_signal_start(server->loop, w);
}

static bool listen_at(struct server *server, const char *path)
{
    struct buf text, error;
    struct listen_spec spec;
    buf_init(&text, MESSAGES_MAX);
    buf_init(&error, MESSAGES_MAX);
    buf_printf(&text, "unix:%s", path);
    if (listen_parse(buf_cstr(&text), &spec, &error))
        server->listener = listener_open(&spec, 0, &error);
    if (server->listener == NULL)
        log_error("%s", buf_cstr(&error));
    buf_free(&text);
    buf_free(&error);
    if (server->listener == NULL)
        return false;
    ev_io_init(&server->acceptable, on_acceptable, server->listener->fd, EV_READ);
    server->acceptable.data = server;
    ev_io_start(server->loop, &server->acceptable);
    fprintf(stderr, "srt-decider: serving %s\n", server->listener->address);
    return true;
}

static bool open_log(struct server *server)
{
    struct buf error;
    if (server->options->log == NULL)
        return true;
    buf_init(&error, MESSAGES_MAX);
    server->log = line_log_open("decision log", server->options->log, STDERR_FILENO, false, &error);
    if (server->log == NULL)
        log_error("%s", buf_cstr(&error));
    buf_free(&error);
    return server->log != NULL;
}

static void serve_standard(struct server *server)
{
    const struct stream_options options = {.loop = server->loop,
                                           .in = STDIN_FILENO,
                                           .out = STDOUT_FILENO,
                                           .rules = &server->rules,
                                           .log = server->log,
                                           .answered = on_answered,
                                           .ended = on_standard_ended,
                                           .ctx = server};
    server->standard = stream_new(&options);
}

/* Flags belong to whoever else has the stream, too: they are put back. */
static void run_standard(struct server *server)
{
    int in = fcntl(STDIN_FILENO, F_GETFL), out = fcntl(STDOUT_FILENO, F_GETFL);
    if (in < 0 || out < 0 || !fd_nonblock(STDIN_FILENO, true) ||
        !fd_nonblock(STDOUT_FILENO, true)) {
        log_error("standard input and output: %s", strerror(errno));
        server->status = EXIT_FAILURE;
        return;
    }
    serve_standard(server);
    ev_run(server->loop, 0);
    stream_free(server->standard);
    fcntl(STDOUT_FILENO, F_SETFL, out);
    fcntl(STDIN_FILENO, F_SETFL, in);
}

int decider_serve(const struct decider_options *options, struct decider_rules *rules)
{
    struct server server = {.loop = ev_default_loop(0), .options = options, .rules = rules};

    signal(SIGPIPE, SIG_IGN);
    ev_timer_init(&server.accept_again, on_accept_again, pause_s, 0);
    ev_timer_init(&server.log_again, on_log_again, log_retry_s, 0);
    server.accept_again.data = server.log_again.data = &server;
    start_signal(&server, &server.hangup, SIGHUP, on_hangup);
    start_signal(&server, &server.terminate, SIGTERM, on_terminate);
    start_signal(&server, &server.interrupt, SIGINT, on_terminate);

    if (!open_log(&server)) {
        server.status = 2;
    } else if (options->listen == NULL) {
        run_standard(&server);
    } else if (listen_at(&server, options->listen)) {
        ev_run(server.loop, 0);
        free_links(&server);
        listener_close(&server.listener);
    } else {
        server.status = 2;
    }
    line_log_close(server.log);
    decider_rules_unref(server.rules);
    ev_loop_destroy(server.loop);
    return server.status;
}
