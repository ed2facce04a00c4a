#include "launcher/ask.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "launcher/ask_hint.h"
#include "launcher/ask_text.h"

enum { FORBIDDEN = 403, TEXT_MAX = 4096, REASON_MAX = 2048 };

static const char ended[] = "the run was ended at a question";
static const char too_many[] = "too many questions are open";

struct question {
    struct decider_question base;
    struct ask *ask;
    bool due; /* it is being answered, with others */
    char *host, *via;
    uint16_t port;
    const char *refused;           /* why nobody is asked; NULL: it is open */
    struct question *next, **link; /* of those that are refused; link NULL: it is open */
    decider_answer *answer;
    void *ctx;
    ev_timer deadline;
};

/* An answer for the rest of the run. */
struct remembered {
    struct remembered *next;
    char *host, *reason; /* reason: NULL for none */
    uint16_t port;
    bool allow;
};

struct ask {
    struct decider base;
    struct ask_options options;
    struct question *open[ASK_OPEN_MAX]; /* in the order in which they were asked */
    size_t count;
    struct remembered *remembered;
    ev_timer next; /* shows a question, from the loop alone */
    struct question *refused;
    ev_timer refusals; /* answers those */
    bool stopped;
    bool quit; /* the command is to end: nobody is asked any more */

    char *host; /* of the question on the screen; NULL: none is */
    char *via;
    uint16_t port;
    unsigned tries;
};

static bool is_about(const struct question *q, const char *host, uint16_t port)
{
    return q->port == port && strcmp(q->host, host) == 0;
}

static void take_from_open(struct ask *a, const struct question *q)
{
    size_t i = 0;

    while (a->open[i] != q)
        i++;
    for (a->count--; i < a->count; i++)
        a->open[i] = a->open[i + 1];
}

/* The first of those that are refused, taken from them; NULL: there is none. */
static struct question *pop_refused(struct ask *a)
{
    struct question *q = a->refused;
    if (q != NULL)
        a->refused = q->next;
    if (a->refused != NULL)
        a->refused->link = &a->refused;
    return q;
}

/* One that was taken from its list. */
static void free_question(struct question *q)
{
    ev_timer_stop(q->ask->options.loop, &q->deadline);
    free(q->host);
    free(q->via);
    free(q);
}

/* --- the screen ---------------------------------------------------------------------------- */

/* A question, and behind it its prompt. */
static void show(struct ask *a, const struct buf *text)
{
    const struct ask_screen *screen = &a->options.screen;
    screen->show(screen->ctx, buf_chars(text), buf_len(text));
    screen->prompt(screen->ctx, ask_text_prompt, strlen(ask_text_prompt));
}

static void show_text(struct ask *a, const char *text)
{
    a->options.screen.show(a->options.screen.ctx, text, strlen(text));
}

static void schedule(struct ask *a)
{
    if (a->count != 0 && a->host == NULL && !a->stopped && !ev_is_active(&a->next)) {
        ev_timer_set(&a->next, 0, 0);
        ev_timer_start(a->options.loop, &a->next);
    }
}

/* remark: what is said about it, or NULL. */
static void take_down(struct ask *a, const char *remark)
{
    if (a->host == NULL)
        return;
    if (remark != NULL)
        show_text(a, remark);
    MEM_FREE(a->host);
    MEM_FREE(a->via);
    a->options.screen.end(a->options.screen.ctx);
}

static void take_down_unless_wanted(struct ask *a, const char *remark)
{
    for (size_t i = 0; i < a->count && a->host != NULL; i++)
        if (is_about(a->open[i], a->host, a->port))
            return;
    take_down(a, remark);
}

/* --- answers ------------------------------------------------------------------------------- */

static void answer_question(struct question *q, const struct decider_verdict *v)
{
    decider_answer *answer = q->answer;
    void *ctx = q->ctx;

    free_question(q);
    answer(ctx, v);
}

static struct question *first_due(const struct ask *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->open[i]->due)
            return a->open[i];
    return NULL;
}

/* Those about the host and port, or all (NULL), that are open now: whatever is asked or forgotten
 * while they are answered. */
static void answer_open(struct ask *a, const char *host, uint16_t port,
                        const struct decider_verdict *v)
{
    struct question *q;

    for (size_t i = 0; i < a->count; i++)
        a->open[i]->due = host == NULL || is_about(a->open[i], host, port);
    while ((q = first_due(a)) != NULL) {
        take_from_open(a, q);
        answer_question(q, v);
    }
}

static void deny_open(struct ask *a, const char *host, uint16_t port, const char *reason)
{
    const struct decider_verdict no = {
        .action = DECIDER_DENY, .status = FORBIDDEN, .reason = reason};
    answer_open(a, host, port, &no);
}

static void on_refusals(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct ask *a = timer->data;
    (void)loop;
    (void)revents;

    struct question *q;
    while (!a->stopped && (q = pop_refused(a)) != NULL) {
        const struct decider_verdict no = {
            .action = DECIDER_DENY, .status = FORBIDDEN, .reason = q->refused};
        answer_question(q, &no);
    }
}

static void on_late(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct question *q = timer->data;
    struct ask *a = q->ask;
    char reason[64];
    (void)loop;
    (void)revents;

    snprintf(reason, sizeof reason, "nobody answered in %u s", a->options.timeout_s);
    const struct decider_verdict no = {
        .action = DECIDER_DENY, .status = FORBIDDEN, .reason = reason};
    take_from_open(a, q);
    answer_question(q, &no);
    take_down_unless_wanted(a, "\nsrt: (denied: nobody answered)\n");
    schedule(a);
}

/* --- answers for the run ------------------------------------------------------------------- */

/* Kept here too: who asks, which the proxy tells apart, is no matter to a person. */
static void remember(struct ask *a, const struct decider_verdict *v)
{
    struct remembered *m = mem_alloc(sizeof *m);
    *m = (struct remembered){.next = a->remembered,
                             .host = mem_dup(a->host),
                             .port = a->port,
                             .allow = v->action == DECIDER_ALLOW,
                             .reason = v->reason != NULL ? mem_dup(v->reason) : NULL};
    a->remembered = m;
}

/* True when the first question is answered by what was answered before. */
static bool answer_again(struct ask *a)
{
    const struct remembered *m = a->remembered;

    while (m != NULL && !is_about(a->open[0], m->host, m->port))
        m = m->next;
    if (m == NULL)
        return false;
    const struct decider_verdict verdict = {.action = m->allow ? DECIDER_ALLOW : DECIDER_DENY,
                                            .ttl_s = DECIDER_TTL_RUN,
                                            .status = m->allow ? 0 : FORBIDDEN,
                                            .reason = m->reason};
    answer_open(a, m->host, m->port, &verdict);
    return true;
}

/* --- the questions ------------------------------------------------------------------------- */

static void on_next(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct ask *a = timer->data;
    struct buf text;
    (void)loop;
    (void)revents;

    if (a->count == 0 || a->host != NULL || a->stopped)
        return;
    if (answer_again(a)) {
        schedule(a);
        return;
    }
    if (!a->options.screen.begin(a->options.screen.ctx)) {
        deny_open(a, NULL, 0, "srt is not in the foreground of its terminal, and cannot ask");
        return;
    }
    const struct question *q = a->open[0];
    a->host = mem_dup(q->host);
    a->via = mem_dup(q->via);
    a->port = q->port;
    a->tries = 0;
    struct ask_text asked = {.via = q->via,
                             .host = q->host,
                             .port = q->port,
                             .command = a->options.command,
                             .hint = ask_hint(q->host),
                             .waiting = a->count};
    for (size_t i = 0; i < a->count; i++)
        asked.waiting_here += is_about(a->open[i], q->host, q->port);
    buf_init(&text, TEXT_MAX);
    ask_text_question(&text, &asked);
    show(a, &text);
    buf_free(&text);
}

/* The question on the screen has its answer. */
static void decide(struct ask *a, const struct decider_verdict *v, const char *remark)
{
    char *host = mem_dup(a->host);
    uint16_t port = a->port;

    take_down(a, remark);
    answer_open(a, host, port, v);
    free(host);
    schedule(a);
}

static void not_clear(struct ask *a)
{
    static const struct decider_verdict no = {
        .action = DECIDER_DENY, .status = FORBIDDEN, .reason = "no clear answer was given"};
    struct buf text;

    if (++a->tries == ASK_TRIES) {
        decide(a, &no, "srt: (denied: that is no answer either)\n");
        return;
    }
    buf_init(&text, TEXT_MAX);
    ask_text_again(&text, a->via, a->host, a->port);
    show(a, &text);
    buf_free(&text);
}

static void quit(struct ask *a)
{
    a->quit = true;
    a->options.quit(a->options.screen.ctx);
    take_down(a, "srt: (denied, and the command is to end)\n");
    deny_open(a, NULL, 0, ended);
}

void ask_line(struct decider *d, const char *line, size_t n)
{
    struct ask *a = (struct ask *)d;
    struct buf reason;

    if (a->host == NULL)
        return;
    buf_init(&reason, REASON_MAX);
    struct ask_answer answer = ask_text_parse(line, n, &reason);
    const struct decider_verdict verdict = {.action = answer.allow ? DECIDER_ALLOW : DECIDER_DENY,
                                            .ttl_s = answer.for_run ? (uint32_t)DECIDER_TTL_RUN : 0,
                                            .status = answer.allow ? 0 : FORBIDDEN,
                                            .reason =
                                                buf_len(&reason) != 0 ? buf_cstr(&reason) : NULL};
    if (answer.clear && answer.for_run)
        remember(a, &verdict);
    if (answer.clear && answer.quit)
        quit(a);
    else if (answer.clear)
        decide(a, &verdict, NULL);
    else
        not_clear(a);
    buf_free(&reason);
}

bool ask_is_shown(const struct decider *d)
{
    return ((const struct ask *)d)->host != NULL;
}

void ask_refuse_all(struct decider *d, const char *why)
{
    struct ask *a = (struct ask *)d;

    if (a->host == NULL)
        return;
    take_down(a, "\nsrt: (denied)\n");
    deny_open(a, NULL, 0, why);
    schedule(a);
}

/* --- the decider --------------------------------------------------------------------------- */

static struct decider_question *ask_connection(struct decider *d,
                                               const struct decider_connection *c,
                                               decider_answer *answer, void *ctx)
{
    struct ask *a = (struct ask *)d;

    if (a->stopped)
        return NULL;
    struct question *q = mem_alloc(sizeof *q);
    *q = (struct question){.base.decider = d,
                           .ask = a,
                           .host = mem_dup(c->host),
                           .via = mem_dup(c->via),
                           .port = c->port,
                           .answer = answer,
                           .ctx = ctx};
    ev_timer_init(&q->deadline, on_late, a->options.timeout_s, 0);
    q->deadline.data = q;
    if (a->quit || a->count >= ASK_OPEN_MAX) {
        q->refused = a->quit ? ended : too_many;
        q->next = a->refused;
        if (q->next != NULL)
            q->next->link = &q->next;
        q->link = &a->refused;
        a->refused = q;
        if (!ev_is_active(&a->refusals)) {
            ev_timer_set(&a->refusals, 0, 0);
            ev_timer_start(a->options.loop, &a->refusals);
        }
        return &q->base;
    }
    a->open[a->count++] = q;
    ev_timer_start(a->options.loop, &q->deadline);
    schedule(a);
    return &q->base;
}

/* Only connections are asked about. */
static struct decider_question *ask_request(struct decider *d, const struct decider_request *r,
                                            const char **refused, decider_answer *answer, void *ctx)
{
    (void)d;
    (void)r;
    (void)answer;
    (void)ctx;
    *refused = NULL;
    return NULL;
}

static bool hold(struct decider_question *question, uint64_t length)
{
    (void)question;
    (void)length;
    return false;
}

static void give_body(struct decider_question *question, struct decider_body *body, bool cut)
{
    (void)question;
    (void)body;
    (void)cut;
}

static void forget(struct decider_question *question)
{
    struct question *q = (struct question *)question;
    struct ask *a = q->ask;

    if (q->link == NULL)
        take_from_open(a, q);
    else
        *q->link = q->next;
    if (q->next != NULL)
        q->next->link = q->link;
    free_question(q);
    take_down_unless_wanted(a, "\nsrt: (no longer needed)\n");
    schedule(a);
}

static const struct decider_ops ops = {.connection = ask_connection,
                                       .request = ask_request,
                                       .hold = hold,
                                       .body = give_body,
                                       .forget = forget};

struct decider *ask_new(const struct ask_options *o)
{
    struct ask *a = mem_alloc(sizeof *a);

    *a = (struct ask){.base = {.ops = &ops, .asks = DECIDER_CONNECTIONS}, .options = *o};
    ev_timer_init(&a->next, on_next, 0, 0);
    ev_timer_init(&a->refusals, on_refusals, 0, 0);
    a->next.data = a->refusals.data = a;
    return &a->base;
}

void ask_stop(struct decider *d)
{
    struct ask *a = (struct ask *)d;

    a->stopped = true;
    take_down(a, "\n");
}

void ask_free(struct decider *d)
{
    struct ask *a = (struct ask *)d;

    if (a == NULL)
        return;
    ask_stop(d);
    while (a->count != 0)
        free_question(a->open[--a->count]);
    for (struct question *q; (q = pop_refused(a)) != NULL;)
        free_question(q);
    for (struct remembered *m = a->remembered, *next; m != NULL; m = next) {
        next = m->next;
        free(m->host);
        free(m->reason);
        free(m);
    }
    ev_timer_stop(a->options.loop, &a->next);
    ev_timer_stop(a->options.loop, &a->refusals);
    free(a);
}
