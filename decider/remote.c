#include "decider/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/executable.h"
#include "base/mem.h"
#include "decider/clock.h"
#include "decider/inherited.h"
#include "decider/link.h"
#include "decider/program.h"
#include "decider/remote_stream.h"

enum { WHY_MAX = 512 };

enum kind { INHERITED, STARTED, CONNECTED };

enum state {
    AWAY,     /* the pause before the next try runs, or the last program is not gone yet */
    STARTING, /* a program was started: whether it runs is awaited */
    GREETING, /* there is a link; its hello is awaited */
    UP,       /* it has come */
    ENDED     /* inherited descriptors, lost */
};

struct remote {
    struct decider decider; /* first: it is what others know */
    struct remote_options o;
    enum kind kind;
    enum state state;

    char **words; /* STARTED */
    struct rlimit files;
    struct program *program;    /* runs, or is not gone yet */
    int unused;                 /* STARTING: its stream */
    struct sockaddr_un address; /* CONNECTED */

    struct link *link; /* GREETING and UP */
    struct remote_stream *stream;

    ev_timer timer; /* AWAY: the pause; STARTING and GREETING: for the hello */
    uint32_t pause_ms;
    double up_since;
    char why[WHY_MAX];  /* it was lost */
    char end[64];       /* of the program that was started last; "": it runs, or not known */
    bool untold;        /* it was lost before its hello, and its program may be about to end */
    uint32_t waited_ms; /* for that */
};

static const struct decider_ops remote_ops;

static struct remote *remote_of(struct decider *d)
{
    return (struct remote *)d;
}

static void set_timer(struct remote *r, uint32_t ms)
{
    ev_timer_stop(r->o.loop, &r->timer);
    ev_timer_set(&r->timer, ms / 1e3, 0);
    ev_timer_start(r->o.loop, &r->timer);
}

static void set_why(struct remote *r, const char *what, const char *which, const char *detail)
{
    snprintf(r->why, sizeof r->why, "%s %s: %s", what, which, detail);
}

/* Lets go of what there is and arranges for the next try, without telling. */
static void let_go(struct remote *r)
{
    bool final = r->kind == INHERITED;

    remote_stream_free(r->stream);
    r->stream = NULL;
    link_free(r->link);
    r->link = NULL;
    if (r->state == STARTING)
        close(r->unused);
    if (r->program != NULL)
        program_stop(r->program);
    if (r->state == UP && clock_now() - r->up_since >= REMOTE_STEADY_MS / 1e3)
        r->pause_ms = REMOTE_PAUSE_MS;
    r->state = final ? ENDED : AWAY;
    if (!final) {
        set_timer(r, r->pause_ms);
        r->pause_ms = r->pause_ms * 2 < REMOTE_PAUSE_MAX_MS ? r->pause_ms * 2 : REMOTE_PAUSE_MAX_MS;
    }
}

static void lost(struct remote *r)
{
    let_go(r);
    r->o.away(r->o.ctx, r->why, r->kind == INHERITED);
}

static void tell(struct remote *r)
{
    char why[sizeof r->why + sizeof r->end];

    if (!r->untold)
        return;
    r->untold = false;
    snprintf(why, sizeof why, "%s%s", r->why, r->end);
    r->o.away(r->o.ctx, why, false);
}

static void on_hello(void *ctx, const struct hello *hello)
{
    struct remote *r = ctx;

    ev_timer_stop(r->o.loop, &r->timer);
    r->state = UP;
    r->up_since = clock_now();
    r->decider.asks = r->o.level != 0 ? r->o.level : hello->asks;
    r->o.ready(r->o.ctx, hello);
}

static void on_link_dead(void *ctx, const char *why)
{
    struct remote *r = ctx;

    /* The link is in use until the stream tells of it. */
    snprintf(r->why, sizeof r->why, "%s", why);
}

static void on_stream_dead(void *ctx)
{
    struct remote *r = ctx;

    if (r->state != GREETING || r->kind != STARTED) {
        lost(r);
        return;
    }
    let_go(r);
    r->untold = true;
    r->waited_ms = 0;
    /* Else the pause is the time it has for its end. */
    if (r->program == NULL)
        tell(r);
}

static void greet(struct remote *r, int in, int out)
{
    const struct link_options o = {.proto = r->o.proto,
                                   .level = r->o.level,
                                   .timeout_ms = r->o.timeout_ms,
                                   .decider = &r->decider,
                                   .hello = on_hello,
                                   .dead = on_link_dead,
                                   .ctx = r};

    r->state = GREETING;
    r->link = link_new(&o);
    r->stream = remote_stream_new(r->o.loop, r->link, in, out, on_stream_dead, r);
}

static void on_program_started(void *ctx, int why)
{
    struct remote *r = ctx;

    if (r->state != STARTING)
        return;
    if (why == 0) {
        greet(r, r->unused, r->unused);
        return;
    }
    set_why(r, "cannot start", r->words[0], strerror(why));
    lost(r);
}

static void try_again(struct remote *r);

static void on_program_gone(void *ctx)
{
    struct remote *r = ctx;

    program_end(r->program, r->end, sizeof r->end);
    program_free(r->program);
    r->program = NULL;
    tell(r);
    /* While it was not gone the pause has passed. */
    if (r->state == AWAY && !ev_is_active(&r->timer))
        try_again(r);
}

static void start(struct remote *r)
{
    const struct program_options o = {.loop = r->o.loop,
                                      .words = r->words,
                                      .files = r->o.files != NULL ? &r->files : NULL,
                                      .stop_ms = REMOTE_STOP_MS,
                                      .started = on_program_started,
                                      .gone = on_program_gone,
                                      .ctx = r};

    r->end[0] = '\0';
    r->program = program_start(&o, &r->unused);
    if (r->program != NULL) {
        r->state = STARTING;
        return;
    }
    set_why(r, "cannot start", r->words[0], strerror(errno));
    lost(r);
}

static void connect_to_it(struct remote *r)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&r->address, sizeof r->address) == 0) {
        greet(r, fd, fd);
        return;
    }
    /* A Unix socket connects at once or not at all. */
    set_why(r, "cannot connect to", r->address.sun_path,
            errno == EAGAIN ? "its queue of connections is full" : strerror(errno));
    if (fd >= 0)
        close(fd);
    lost(r);
}

static void try_again(struct remote *r)
{
    /* One at a time: the next may want what the last still has. */
    if (r->program != NULL)
        return;
    set_timer(r, r->o.hello_ms);
    if (r->kind == STARTED)
        start(r);
    else
        connect_to_it(r);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct remote *r = timer->data;

    (void)loop;
    (void)revents;
    if (r->state == AWAY) {
        /* How it ended comes soon, if it has; nothing is started before. */
        if (r->untold && r->program != NULL && r->waited_ms < REMOTE_STOP_MS) {
            r->waited_ms += REMOTE_PAUSE_MS;
            set_timer(r, REMOTE_PAUSE_MS);
            return;
        }
        tell(r);
        try_again(r);
        return;
    }
    snprintf(r->why, sizeof r->why, "no hello within %u ms", r->o.hello_ms);
    lost(r);
}

static bool prepare_path(struct remote *r, struct buf *error)
{
    size_t n = strlen(r->o.unix_path);

    r->address.sun_family = AF_UNIX;
    if (n == 0 || n >= sizeof r->address.sun_path) {
        buf_printf(error, "the path of the decider's socket is %s", n == 0 ? "empty" : "too long");
        return false;
    }
    memcpy(r->address.sun_path, r->o.unix_path, n);
    return true;
}

/* Looked up once: what PATH leads to may be another program when it is started again. */
static bool find_program(char **words, struct buf *error)
{
    if (strchr(words[0], '/') != NULL)
        return true;
    char *found = executable_find(words[0]);
    if (found == NULL) {
        buf_printf(error, "cannot start %s: it is not on PATH", words[0]);
        return false;
    }
    free(words[0]);
    words[0] = found;
    return true;
}

/* What has to be right from the start. */
static bool prepare(struct remote *r, struct buf *error)
{
    if (r->kind == INHERITED)
        return inherited_prepare(r->o.fd_in, r->o.fd_out, error);
    if (r->kind == CONNECTED)
        return prepare_path(r, error);
    if (r->o.files != NULL)
        r->files = *r->o.files;
    r->words = remote_split_command(r->o.exec, error);
    return r->words != NULL && find_program(r->words, error);
}

struct decider *remote_new(const struct remote_options *o, struct buf *error)
{
    struct remote *r = mem_alloc(sizeof *r);

    r->decider = (struct decider){.ops = &remote_ops, .asks = o->level};
    r->o = *o;
    r->kind = o->exec != NULL ? STARTED : o->unix_path != NULL ? CONNECTED : INHERITED;
    r->state = AWAY;
    r->pause_ms = REMOTE_PAUSE_MS;
    if (o->hello_ms == 0)
        r->o.hello_ms = REMOTE_HELLO_MS;
    if (!prepare(r, error)) {
        remote_free_words(r->words);
        free(r);
        return NULL;
    }
    ev_timer_init(&r->timer, on_timer, 0, 0);
    r->timer.data = r;
    if (r->kind == INHERITED)
        greet(r, o->fd_in, o->fd_out);
    else
        set_timer(r, 0);
    return &r->decider;
}

void remote_free(struct decider *d)
{
    if (d == NULL)
        return;
    struct remote *r = remote_of(d);
    ev_timer_stop(r->o.loop, &r->timer);
    remote_stream_free(r->stream);
    link_free(r->link);
    if (r->state == STARTING)
        close(r->unused);
    program_free(r->program);
    remote_free_words(r->words);
    free(r);
}

static struct decider_question *ask_connection(struct decider *d,
                                               const struct decider_connection *c,
                                               decider_answer *answer, void *ctx)
{
    struct remote *r = remote_of(d);

    return r->state == UP ? link_ask_connection(r->link, c, clock_now(), answer, ctx) : NULL;
}

static struct decider_question *ask_request(struct decider *d,
                                            const struct decider_request *request,
                                            const char **refused, decider_answer *answer, void *ctx)
{
    struct remote *r = remote_of(d);

    *refused = NULL;
    return r->state == UP ? link_ask_request(r->link, request, clock_now(), refused, answer, ctx)
                          : NULL;
}

static void give_body(struct decider_question *q, struct decider_body *body, bool cut)
{
    link_give_body(q, body, cut, clock_now());
}

static const struct decider_ops remote_ops = {.connection = ask_connection,
                                              .request = ask_request,
                                              .hold = link_hold,
                                              .body = give_body,
                                              .forget = link_forget};
