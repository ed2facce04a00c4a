/*
 * A link against a plain model of its rules: every frame, tick and call has
 * just the effect that the model expects, in the same order; each question gets
 * one final answer or was forgotten; nothing comes after death; what is held and
 * queued is counted right and goes back to nothing.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decider/frame.h"
#include "decider/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IDS_MAX = 12000, BURST = 1500, NESTED_MAX = 8 };

/* What the model knows of an id; the order matters to is_pending(). */
enum phase { DONE, CONNECTION, REQUEST, READING, SHOWN, LATE_CONNECTION, LATE_REQUEST, LATE_SHOWN };

struct model {
    enum phase phase;
    struct decider_question *q;
    double deadline; /* in all pending phases but READING */
    uint32_t max, held;
    int64_t id;
};

static struct {
    const uint8_t *p; /* input not used yet */
    size_t n;
    struct link *link;
    unsigned proto, level;
    bool ready, dead, doomed; /* as the model has it */
    bool ending;              /* link_ended() is running */
    unsigned nested, deaths;
    double now;
    int64_t first, newest;
    int64_t known;       /* the newest when the bytes being read came */
    struct buf wire;     /* from the decider, not fed yet */
    struct buf expected; /* fed, and not yet judged by the model */
} m;
static struct model models[IDS_MAX];

static uint8_t next_byte(void)
{
    if (m.n == 0)
        return 0;
    m.n--;
    return *m.p++;
}

static size_t count(void)
{
    return (size_t)(m.newest - m.first + 1);
}

static bool is_pending(const struct model *x)
{
    return x->phase >= CONNECTION && x->phase <= SHOWN;
}

static struct model *any_pending(uint8_t back)
{
    for (size_t i = count(); i > 0; i--)
        if (is_pending(&models[i - 1]) && back-- % 8 == 0)
            return &models[i - 1];
    return NULL;
}

static void set_late(struct model *x)
{
    x->phase = x->phase == CONNECTION ? LATE_CONNECTION
               : x->phase == REQUEST  ? LATE_REQUEST
                                      : LATE_SHOWN;
    x->held = 0;
}

/* What one frame does. Dead: *hit is left alone. Delivered: *hit is the question. */
enum effect { DROPPED, DELIVERED, HELLO, DEATH };

static enum effect judge_verdict(const struct verdict_message *v, struct model **hit)
{
    const struct decider_verdict *d = &v->verdict;
    bool need_body = d->action == DECIDER_NEED_BODY;
    static struct model never;

    if (v->id > m.newest)
        return DEATH;
    never.phase = DONE;
    struct model *x = v->id < m.first ? &never : &models[v->id - m.first];
    if (is_pending(x) && v->id > m.known)
        return DEATH;
    if (!is_pending(x) && m.newest - v->id >= 4096)
        return DROPPED;
    bool edits = d->set_count != 0 || d->removed_count != 0 || d->credential != NULL;
    if (x->phase == DONE)
        return DEATH;
    if (x->phase == CONNECTION || x->phase == LATE_CONNECTION) {
        if (need_body || edits)
            return DEATH;
    } else if (d->ttl_s != 0 || (x->phase == READING && d->action != DECIDER_DENY) ||
               ((x->phase == SHOWN || x->phase == LATE_SHOWN) && need_body)) {
        return DEATH;
    }
    if (is_pending(x)) {
        *hit = x;
        return DELIVERED;
    }
    if (!need_body)
        x->phase = DONE;
    return DROPPED;
}

static enum effect judge_payload(const uint8_t *p, size_t n, struct model **hit,
                                 enum decider_action *action)
{
    const char *why;

    if (!m.ready) {
        struct hello h;
        if (!hello_read(&h, m.proto, p, n, &why))
            return DEATH;
        enum effect effect = (m.level & ~h.asks) != 0 ? DEATH : HELLO;
        hello_free(&h);
        return effect;
    }
    struct verdict_message v;
    if (!verdict_read(&v, m.proto, p, n, &why))
        return DEATH;
    enum effect effect = judge_verdict(&v, hit);
    *action = v.verdict.action;
    verdict_free(&v);
    return effect;
}

/* The next effect of the frames fed, other than being dropped; DROPPED: there is none. */
static enum effect next_effect(struct model **hit, enum decider_action *action)
{
    while (!m.dead) {
        const uint8_t *p = buf_data(&m.expected);
        size_t n = buf_len(&m.expected);
        if (n < 4)
            return DROPPED;
        size_t length = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
        if (length > 1048576)
            return DEATH;
        if (n - 4 < length)
            return DROPPED;
        enum effect effect = judge_payload(p + 4, length, hit, action);
        buf_consume(&m.expected, 4 + length);
        if (effect != DROPPED)
            return effect;
    }
    return DROPPED;
}

static void step(void);

/* Something is called from inside of a call back. */
static void nest(void)
{
    if (m.nested >= NESTED_MAX)
        return;
    m.nested++;
    for (unsigned steps = next_byte() % 4; steps > 0; steps--)
        step();
    m.nested--;
}

static void expect_timeout(const struct model *x)
{
    assert(x->phase != READING && x->deadline <= m.now);
    for (size_t i = 0; i < count(); i++) {
        const struct model *other = &models[i];
        assert(!is_pending(other) || other->phase == READING || other->deadline >= x->deadline);
    }
}

/* The link is dead already when it answers so: everything before was as expected. */
static void expect_death(const struct model *x)
{
    if (!m.dead) {
        struct model *hit = NULL;
        enum decider_action action;
        assert(m.ending || m.doomed || next_effect(&hit, &action) == DEATH);
        m.dead = true;
    }
    for (const struct model *other = models; other < x; other++)
        assert(!is_pending(other));
}

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct model *x = ctx;

    assert(is_pending(x) && m.deaths == 0);
    if (v->action == DECIDER_UNAVAILABLE && link_is_dead(m.link)) {
        expect_death(x);
        x->phase = DONE;
    } else if (v->action == DECIDER_UNAVAILABLE) {
        expect_timeout(x);
        set_late(x);
    } else {
        struct model *hit = NULL;
        enum decider_action action = DECIDER_UNAVAILABLE;
        assert(!m.dead && !m.doomed && next_effect(&hit, &action) == DELIVERED);
        assert(hit == x && action == v->action);
        x->phase = action == DECIDER_NEED_BODY ? READING : DONE;
        x->max = v->max;
    }
    if (x->phase != READING)
        x->held = 0;
    nest();
}

static void on_hello(void *ctx, const struct hello *h)
{
    struct model *hit = NULL;
    enum decider_action action;

    (void)ctx;
    assert(!m.ready && !m.dead && next_effect(&hit, &action) == HELLO);
    assert((m.level & ~h->asks) == 0);
    m.ready = true;
    nest();
}

static void on_dead(void *ctx, const char *why)
{
    (void)ctx;
    assert(*why != 0 && link_is_dead(m.link));
    expect_death(models + count());
    m.deaths++;
    assert(m.deaths == 1);
    nest();
}

/* The rest of what was fed had no effect, or one without an answer. */
static void settle(void)
{
    struct model *hit = NULL;
    enum decider_action action;

    if (link_is_dead(m.link)) {
        assert(m.dead && m.deaths == 1);
        return;
    }
    assert(!m.dead && !m.doomed && next_effect(&hit, &action) == DROPPED);
    for (size_t i = 0; i < count(); i++)
        assert(!is_pending(&models[i]) || models[i].phase == READING || models[i].deadline > m.now);
}

static void set_time(double now)
{
    if (now < m.now)
        for (size_t i = 0; i < count(); i++)
            models[i].deadline -= m.now - now;
    m.now = now;
}

/* Calls. */

static void was_asked(struct decider_question *q, enum phase phase)
{
    if (q == NULL) {
        if (link_is_ready(m.link) || m.dead || !m.ready)
            return;
        m.doomed = true;
        return;
    }
    assert(m.ready && !m.dead && !m.doomed);
    m.newest++;
    models[count() - 1] = (struct model){.phase = phase, .q = q, .deadline = m.now + 1};
    models[count() - 1].id = m.newest;
}

static void ask(uint8_t how)
{
    static const char targets[] = "/a?b\0/%00?x=\xc3\xa9\0\x80";
    if (count() >= IDS_MAX)
        return;
    struct model *next = &models[count()];
    const char *refused = NULL;
    if (how % 4 == 0) {
        const struct decider_connection c = {
            .via = "http", .host = "a.example", .port = 80, .client = "local"};
        was_asked(link_ask_connection(m.link, &c, m.now, on_answer, next), CONNECTION);
        return;
    }
    const char *target = targets + (how % 16 == 15 ? 14 : how % 2 == 0 ? 5 : 0);
    const struct decider_request r = {.method = "PUT",
                                      .method_len = 3,
                                      .host = "a.example",
                                      .port = 80,
                                      .target = target,
                                      .target_len = strlen(target)};
    struct decider_question *q = link_ask_request(m.link, &r, m.now, &refused, on_answer, next);
    if (refused != NULL) {
        assert(q == NULL && how % 16 == 15);
        return;
    }
    was_asked(q, REQUEST);
}

static void forget(struct model *x)
{
    link_forget(x->q);
    set_late(x);
}

static void burst(void)
{
    for (unsigned i = 0; i < BURST && count() < IDS_MAX && link_is_ready(m.link); i++) {
        size_t before = count();
        ask(1);
        if (count() > before)
            forget(&models[before]);
    }
}

static size_t all_held(void)
{
    size_t held = 0;
    for (size_t i = 0; i < count(); i++)
        held += models[i].held;
    return held;
}

static void hold(struct model *x, uint8_t how)
{
    uint64_t length = how < 200 ? how : how < 250 ? 33554432 : UINT64_MAX;
    uint32_t want = length < x->max ? (uint32_t)length : x->max;
    if (x->held != 0)
        return;
    bool fits = all_held() + want <= 67108864;
    assert(link_hold(x->q, length) == fits);
    if (fits)
        x->held = want;
    else
        set_late(x);
}

/* Bodies that all runs share: what they hold is not looked at. */
static struct decider_body *body_within(uint32_t max)
{
    static struct decider_body *bodies[4];
    static const uint32_t sizes[] = {33554432, 70000, 100, 0};
    size_t i = 0;
    while (sizes[i] > max)
        i++;
    if (bodies[i] == NULL) {
        bodies[i] = decider_body_new(sizes[i]);
        memset(buf_reserve(&bodies[i]->bytes, sizes[i]), 'b', sizes[i]);
        buf_commit(&bodies[i]->bytes, sizes[i]);
    }
    return bodies[i];
}

static void give(struct model *x, uint8_t how)
{
    bool ready = link_is_ready(m.link);
    link_give_body(x->q, body_within(x->max), how % 2 == 0, m.now);
    x->phase = SHOWN;
    x->deadline = m.now + 1;
    if (ready && !link_is_ready(m.link)) {
        assert(link_queued(m.link) > 123032918);
        m.doomed = true;
    }
}

static void write_some(size_t most)
{
    size_t n;
    size_t queued = link_queued(m.link);
    const uint8_t *p = link_output(m.link, &n);
    assert((p != NULL) == (n != 0) && n <= 65536);
    if (p == NULL)
        return;
    if (n > most)
        n = most;
    link_written(m.link, n);
    assert(link_queued(m.link) == queued - n);
}

/* Bytes of the decider. */

static void put_frame(const char *fmt, long long id)
{
    size_t begun = frame_begin(&m.wire);
    buf_printf(&m.wire, "{\"t\":\"verdict\",\"id\":%lld,\"action\":\"%s}", id, fmt);
    frame_end(&m.wire, begun);
}

static void put_verdict(void)
{
    static const char *const actions[] = {
        "allow\"",
        "deny\",\"status\":403",
        "need_body\",\"max\":33554432",
        "need_body\",\"max\":100",
        "allow\",\"ttl\":1",
        "allow\",\"setHeaders\":{\"x\":[\"1\"]}",
        "allow\",\"cred\":\"c\",\"credential\":\"s\"",
        "allow\",\"removeHeaders\":[\"x\"]",
        "deny\",\"status\":599,\"reason\":\"no\"",
        "deny\",\"status\":399",
        "allow\",\"max\":1",
        "none\"",
    };
    uint8_t which = next_byte();
    uint8_t what = next_byte();
    const struct model *x = any_pending(which);
    /* Mostly ids that wait, else those around the newest and the end of the window. */
    int64_t id = which < 192 && x != NULL ? x->id
                 : which < 224            ? m.newest + 1 - which % 32
                                          : m.newest - 4096 - 8 + which % 16;
    put_frame(actions[what < 224 ? what % 4 : what % (sizeof actions / sizeof actions[0])], id);
}

static void put_hello(uint8_t how)
{
    size_t begun = frame_begin(&m.wire);
    buf_printf(&m.wire,
               "{\"t\":\"hello\",\"proto\":%u,%s\"allowedDomains\":[],\"deniedDomains\":[]}",
               m.proto,
               m.proto == 1   ? ""
               : how % 4 == 0 ? "\"asks\":[\"request\"],"
                              : "\"asks\":[\"connection\",\"request\"],");
    frame_end(&m.wire, begun);
}

static void put_raw(void)
{
    size_t n = next_byte() % 64;
    size_t begun = buf_len(&m.wire);
    bool framed = next_byte() % 4 != 0;
    if (framed)
        begun = frame_begin(&m.wire);
    for (; n > 0; n--) {
        uint8_t c = next_byte();
        buf_append(&m.wire, &c, 1);
    }
    if (framed)
        frame_end(&m.wire, begun);
}

static void feed(size_t n)
{
    if (n > buf_len(&m.wire))
        n = buf_len(&m.wire);
    buf_append(&m.expected, buf_data(&m.wire), n);
    uint8_t *copy = mem_alloc(n + 1);
    if (n != 0)
        memcpy(copy, buf_data(&m.wire), n);
    buf_consume(&m.wire, n);
    m.known = m.newest;
    link_feed(m.link, copy, n, m.now);
    free(copy);
    settle();
}

/* What may not be done from inside of a call back. */
static void outer_step(uint8_t op)
{
    switch (op % 4) {
    case 0:
        feed(SIZE_MAX);
        break;
    case 1:
        feed(next_byte());
        break;
    case 2:
        set_time(m.now + next_byte() * 0.03125);
        link_tick(m.link, m.now);
        settle();
        break;
    default:
        if (next_byte() % 64 == 1) {
            m.ending = true;
            link_ended(m.link, "ended");
            settle();
        } else if (m.now > 100) {
            set_time(m.now - 50);
            link_tick(m.link, m.now);
            settle();
        }
    }
}

static void step(void)
{
    uint8_t op = next_byte();
    struct model *x = op % 16 >= 3 && op % 16 <= 7 ? any_pending(next_byte()) : NULL;

    switch (op % 16) {
    case 0:
    case 1:
        ask(next_byte());
        break;
    case 2:
        put_verdict();
        break;
    case 3:
        if (x != NULL)
            forget(x);
        break;
    case 4:
    case 5:
        if (x != NULL && x->phase == READING)
            hold(x, next_byte());
        break;
    case 6:
    case 7:
        if (x != NULL && x->phase == READING)
            give(x, op);
        break;
    case 8:
        write_some((size_t)next_byte() * 300);
        break;
    case 9:
        if (op >= 240)
            put_raw();
        else
            put_verdict();
        break;
    case 10:
        if (op == 250)
            burst();
        break;
    default:
        if (m.nested == 0)
            outer_step(op / 16);
        else
            put_verdict();
    }
}

static void check_counts(void)
{
    size_t pending = 0;
    for (size_t i = 0; i < count(); i++)
        pending += is_pending(&models[i]);
    assert(link_pending(m.link) == pending);
    assert(link_bodies_held(m.link) == all_held());
    assert(link_is_ready(m.link) == (m.ready && !m.doomed && !m.dead));
    double due = link_deadline(m.link);
    if (m.dead)
        assert(due == 0 && pending == 0 && link_queued(m.link) == 0);
    else if (m.doomed)
        assert(due > 0 && due < 1e-9);
}

static void begin(const uint8_t *data, size_t size)
{
    static struct decider decider;
    memset(&m, 0, sizeof m);
    m.p = data;
    m.n = size;
    uint8_t mode = next_byte();
    m.proto = 1 + mode % 2;
    m.level = m.proto == 2 ? mode / 2 % 4 : 0;
    m.now = 100;
    m.first = mode / 8 % 8 == 7 ? MESSAGE_ID_MAX - 6 : 1;
    m.newest = m.first - 1;
    buf_init(&m.wire, 1U << 24);
    buf_init(&m.expected, 1U << 24);
    const struct link_options o = {.proto = m.proto,
                                   .level = m.level,
                                   .timeout_ms = 1000,
                                   .decider = &decider,
                                   .hello = on_hello,
                                   .dead = on_dead,
                                   .first_id = m.first};
    m.link = link_new(&o);
    if (mode < 240)
        put_hello(mode / 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin(data, size);
    while (m.n > 0) {
        step();
        check_counts();
    }
    if (!m.dead) {
        m.ending = true;
        link_ended(m.link, "the end");
        settle();
    }
    check_counts();
    link_free(m.link);
    buf_free(&m.wire);
    buf_free(&m.expected);
    return 0;
}
