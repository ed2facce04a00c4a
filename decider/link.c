#include "decider/link.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decider/frame.h"
#include "decider/link_late.h"
#include "decider/link_questions.h"
#include "decider/link_queue.h"

enum link_state {
    LINK_HELLO,  /* the decider's hello, and nothing else, may come */
    LINK_READY,  /* questions go out, verdicts come in */
    LINK_DOOMED, /* broken where no call back may be made: nothing is asked or read any more, the
                  * next tick buries it */
    LINK_DEAD    /* every question was answered; nothing happens any more */
};

struct link {
    struct link_options o;
    enum link_state state;
    unsigned asks; /* bits: what the hello asks for */
    double now;    /* the latest time that was told */
    struct link_questions questions;
    struct link_late late;
    size_t held;   /* bytes reserved by all questions */
    size_t coming; /* of them, those of bodies that are being read */
    int64_t known; /* the newest id when the bytes being read came */
    struct buf in; /* start of a frame that is not complete */
    struct link_queue queue;
    char why[192]; /* of its death */
};

/* Death. */

__attribute__((format(printf, 2, 3))) static void doom(struct link *l, const char *fmt, ...)
{
    if (l->state == LINK_DOOMED || l->state == LINK_DEAD)
        return;
    l->state = LINK_DOOMED;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(l->why, sizeof l->why, fmt, ap);
    va_end(ap);
}

static void drop(struct link *l, struct link_question *q)
{
    l->held -= q->held;
    if (q->stage == LINK_READING)
        l->coming -= q->held;
    link_questions_drop(&l->questions, q);
}

/* The last that its asker hears of it. */
static void finish(struct link *l, struct link_question *q, const struct decider_verdict *v)
{
    decider_answer *answer = q->answer;
    void *ctx = q->ctx;
    drop(l, q);
    answer(ctx, v);
}

static void bury(struct link *l)
{
    size_t count = l->questions.count;
    int64_t *ids = link_questions_ids(&l->questions);
    const struct decider_verdict v = {.action = DECIDER_UNAVAILABLE, .why = l->why};

    l->state = LINK_DEAD;
    link_queue_free(&l->queue);
    buf_wipe(&l->in);
    for (size_t i = 0; i < count; i++) {
        /* By id: an answer may have made its receiver forget others. */
        struct link_question *q = link_questions_find(&l->questions, ids[i]);
        if (q != NULL)
            finish(l, q, &v);
    }
    free(ids);
    l->o.dead(l->o.ctx, l->why);
}

static bool is_open(const struct link *l)
{
    return l->state == LINK_HELLO || l->state == LINK_READY;
}

struct link *link_new(const struct link_options *o)
{
    assert(o->timeout_ms > 0);
    struct link *l = mem_alloc(sizeof *l);
    l->o = *o;
    link_late_init(&l->late, o->first_id != 0 ? o->first_id - 1 : 0);
    buf_init(&l->in, FRAME_HEAD + FRAME_MAX);
    hello_write(link_queue_begin(&l->queue), o->proto);
    link_queue_commit(&l->queue);
    return l;
}

void link_free(struct link *l)
{
    if (l == NULL)
        return;
    link_questions_free(&l->questions);
    link_queue_free(&l->queue);
    buf_wipe(&l->in);
    free(l);
}

void link_ended(struct link *l, const char *why)
{
    if (l->state == LINK_DEAD)
        return;
    doom(l, "%s", why);
    bury(l);
}

bool link_is_ready(const struct link *l)
{
    return l->state == LINK_READY;
}

bool link_is_dead(const struct link *l)
{
    return l->state == LINK_DEAD;
}

/* Time. */

/* A clock that was set back takes the timers with it, so that none runs longer than it should. */
static void note_time(struct link *l, double now)
{
    if (now < l->now)
        for (struct link_question *q = l->questions.soonest; q != NULL; q = q->later)
            q->deadline -= l->now - now;
    l->now = now;
}

static void start_timer(struct link *l, struct link_question *q, double now)
{
    note_time(l, now);
    link_questions_start(&l->questions, q, now + (double)l->o.timeout_ms / 1000);
}

/* Nobody waits for its answer any more, which may still come. */
static void give_up(struct link *l, struct link_question *q)
{
    enum link_stage stage = (enum link_stage)q->stage;
    link_late_mark(&l->late, q->id, stage == LINK_READING ? LINK_SHOWN : stage);
}

static void expire(struct link *l)
{
    char why[48];
    const struct decider_verdict v = {.action = DECIDER_UNAVAILABLE, .why = why};

    snprintf(why, sizeof why, "no answer in %" PRIu32 " ms", l->o.timeout_ms);
    while (is_open(l)) {
        struct link_question *q = l->questions.soonest;
        if (q == NULL || q->deadline > l->now)
            return;
        give_up(l, q);
        finish(l, q, &v);
    }
}

double link_deadline(const struct link *l)
{
    if (l->state == LINK_DEAD)
        return 0;
    if (l->state == LINK_DOOMED)
        return DBL_MIN;
    const struct link_question *q = l->questions.soonest;
    return q != NULL ? q->deadline : 0;
}

void link_tick(struct link *l, double now)
{
    if (l->state == LINK_DEAD)
        return;
    note_time(l, now);
    expire(l);
    if (l->state == LINK_DOOMED)
        bury(l);
}

/* Input. */

static void take_hello(struct link *l, const uint8_t *p, size_t n)
{
    const char *why = NULL;
    struct hello h;

    if (!hello_read(&h, l->o.proto, p, n, &why)) {
        doom(l, "%s (protocol %u is spoken)", why, l->o.proto);
        return;
    }
    unsigned missing = l->o.level & ~h.asks;
    if (missing != 0) {
        doom(l, "bad hello (it does not ask for %ss)",
             (missing & DECIDER_CONNECTIONS) != 0 ? "connection" : "request");
    } else {
        l->asks = h.asks;
        l->state = LINK_READY;
        l->o.hello(l->o.ctx, &h);
    }
    hello_free(&h);
}

/* Why such a verdict may not come in this stage, or NULL. */
static const char *misplaced(enum link_stage stage, const struct decider_verdict *v)
{
    bool edits = v->set_count != 0 || v->removed_count != 0 || v->credential != NULL;

    if (stage == LINK_CONNECTION) {
        if (v->action == DECIDER_NEED_BODY)
            return "need_body for a connection";
        return edits ? "header edits or a credential for a connection" : NULL;
    }
    if (v->ttl_s != 0)
        return "ttl for a request";
    if (stage == LINK_READING && v->action != DECIDER_DENY)
        return "a verdict other than deny while the body was read";
    if (stage == LINK_SHOWN && v->action == DECIDER_NEED_BODY)
        return "a second need_body";
    return NULL;
}

static void deliver(struct link *l, struct link_question *q, const struct decider_verdict *v)
{
    if (v->action != DECIDER_NEED_BODY) {
        finish(l, q, v);
        return;
    }
    link_questions_stop(&l->questions, q);
    q->stage = LINK_READING;
    q->max = v->max;
    q->answer(q->ctx, v);
}

static void take_verdict(struct link *l, const uint8_t *p, size_t n)
{
    const char *why = NULL;
    struct verdict_message m;

    if (!verdict_read(&m, l->o.proto, p, n, &why)) {
        doom(l, "%s", why);
        return;
    }
    struct link_question *q = link_questions_find(&l->questions, m.id);
    enum link_stage stage = q != NULL ? (enum link_stage)q->stage : link_late_stage(&l->late, m.id);

    if (q != NULL && m.id > l->known) {
        doom(l, "verdict for id %" PRId64 ", which it cannot have seen", m.id);
    } else if (stage == LINK_NOT_ASKED) {
        if (!link_late_is_forgotten(&l->late, m.id))
            doom(l, "verdict for id %" PRId64 ", which nothing waits on", m.id);
    } else if ((why = misplaced(stage, &m.verdict)) != NULL) {
        doom(l, "id %" PRId64 ": %s", m.id, why);
    } else if (q != NULL) {
        deliver(l, q, &m.verdict);
    } else if (m.verdict.action != DECIDER_NEED_BODY) {
        link_late_mark(&l->late, m.id, LINK_NOT_ASKED);
    }
    verdict_free(&m);
}

/* Takes the frame that p[0..n) begins with; 0: it is not complete. */
static size_t take_frame(struct link *l, const uint8_t *p, size_t n)
{
    size_t length = 0;

    switch (frame_next(p, n, FRAME_MAX, &length)) {
    case FRAME_MORE:
        return 0;
    case FRAME_TOO_LARGE:
        doom(l, "oversized frame");
        return 0;
    case FRAME_OK:
        break;
    }
    if (l->state == LINK_HELLO)
        take_hello(l, p + FRAME_HEAD, length);
    else
        take_verdict(l, p + FRAME_HEAD, length);
    return FRAME_HEAD + length;
}

/* How many bytes the frame begun in `in` lacks, or, before its length is known, its head. */
static size_t lacking(const struct buf *in)
{
    const uint8_t *p = buf_data(in);
    size_t have = buf_len(in);
    if (have < FRAME_HEAD)
        return FRAME_HEAD - have;
    size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    return FRAME_HEAD + length - have;
}

/* Adds to the frame in `in`; returns how many bytes it took. */
static size_t complete_frame(struct link *l, const uint8_t *p, size_t n)
{
    size_t lack = lacking(&l->in);
    size_t part = n < lack ? n : lack;

    /* All of it at once: a frame with a credential leaves no pieces behind as the buffer grows. */
    uint8_t *to = buf_reserve(&l->in, lack);
    assert(to != NULL); /* a frame that does not fit was refused when its head was complete */
    memcpy(to, p, part);
    buf_commit(&l->in, part);
    if (take_frame(l, buf_data(&l->in), buf_len(&l->in)) != 0)
        buf_wipe(&l->in);
    return part;
}

void link_feed(struct link *l, const uint8_t *p, size_t n, double now)
{
    if (l->state == LINK_DEAD)
        return;
    note_time(l, now);
    l->known = l->late.newest;
    expire(l); /* an answer that is read after its time is late, whichever event came first */
    while (n != 0 && is_open(l)) {
        size_t took = buf_len(&l->in) == 0 ? take_frame(l, p, n) : 0;
        if (took == 0 && is_open(l))
            took = complete_frame(l, p, n);
        p += took;
        n -= took;
    }
    if (l->state == LINK_DOOMED)
        bury(l);
}

/* Output. */

const uint8_t *link_output(struct link *l, size_t *n)
{
    *n = 0;
    return is_open(l) ? link_queue_output(&l->queue, n) : NULL;
}

void link_written(struct link *l, size_t n)
{
    if (is_open(l))
        link_queue_written(&l->queue, n);
}

static void check_queue(struct link *l)
{
    if (l->queue.size > LINK_QUEUE_MAX)
        doom(l, "not reading: %zu bytes queued", l->queue.size);
}

/* Questions. */

/* The frame of the next id's question was appended. */
static struct decider_question *asked(struct link *l, enum link_stage stage, double now,
                                      decider_answer *answer, void *ctx)
{
    link_queue_commit(&l->queue);
    check_queue(l);
    if (l->state != LINK_READY)
        return NULL;
    struct link_question *q = link_questions_add(&l->questions, link_late_next_id(&l->late));
    link_late_given(&l->late);
    q->head.decider = l->o.decider;
    q->link = l;
    q->answer = answer;
    q->ctx = ctx;
    q->stage = (uint8_t)stage;
    start_timer(l, q, now);
    return &q->head;
}

/* The id for a question of this kind, 0: it cannot be asked. */
static int64_t id_to_ask(struct link *l, unsigned kind)
{
    if (l->state != LINK_READY || (l->asks & kind) == 0)
        return 0;
    int64_t id = link_late_next_id(&l->late);
    if (id == 0)
        doom(l, "question ids exhausted");
    return id;
}

struct decider_question *link_ask_connection(struct link *l, const struct decider_connection *c,
                                             double now, decider_answer *answer, void *ctx)
{
    int64_t id = id_to_ask(l, DECIDER_CONNECTIONS);
    if (id == 0 || connection_write(link_queue_begin(&l->queue), id, c) != NULL)
        return NULL;
    return asked(l, LINK_CONNECTION, now, answer, ctx);
}

struct decider_question *link_ask_request(struct link *l, const struct decider_request *r,
                                          double now, const char **refused, decider_answer *answer,
                                          void *ctx)
{
    *refused = NULL;
    int64_t id = id_to_ask(l, DECIDER_REQUESTS);
    if (id == 0)
        return NULL;
    *refused = request_write(link_queue_begin(&l->queue), id, r);
    if (*refused != NULL)
        return NULL;
    return asked(l, LINK_REQUEST, now, answer, ctx);
}

static struct link_question *own(struct decider_question *q)
{
    return (struct link_question *)q;
}

bool link_hold(struct decider_question *question, uint64_t length)
{
    struct link_question *q = own(question);
    struct link *l = q->link;

    assert(q->stage == LINK_READING && q->held == 0);
    uint32_t want = length < q->max ? (uint32_t)length : q->max;
    size_t queued = l->queue.size + body_base64_size(l->coming + want);
    if (want > LINK_BODIES_MAX - l->held || (want != 0 && queued > LINK_QUEUE_BODIES)) {
        link_forget(question);
        return false;
    }
    q->held = want;
    l->held += want;
    l->coming += want;
    return true;
}

void link_give_body(struct decider_question *question, struct decider_body *body, bool cut,
                    double now)
{
    struct link_question *q = own(question);
    struct link *l = q->link;

    size_t n = buf_len(&body->bytes);
    assert(q->stage == LINK_READING && n <= q->max);
    q->stage = LINK_SHOWN;
    l->coming -= q->held;
    start_timer(l, q, now);
    if (l->state != LINK_READY)
        return;
    body_head_write(link_queue_begin(&l->queue), q->id, n, cut);
    link_queue_commit(&l->queue);
    link_queue_body(&l->queue, body);
    body_tail_write(link_queue_begin(&l->queue), cut);
    link_queue_commit(&l->queue);
    check_queue(l);
}

void link_forget(struct decider_question *question)
{
    struct link_question *q = own(question);
    struct link *l = q->link;

    /* Its frame, if it still waits to be written, goes out all the same. */
    give_up(l, q);
    drop(l, q);
}

size_t link_pending(const struct link *l)
{
    return l->questions.count;
}

size_t link_bodies_held(const struct link *l)
{
    return l->held;
}

size_t link_queued(const struct link *l)
{
    return l->queue.size;
}
