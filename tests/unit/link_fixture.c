#include "tests/unit/link_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "decider/frame.h"

static void note(char *to, size_t size, const char *s)
{
    snprintf(to, size, "%s", s != NULL ? s : "(none)");
}

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct played *p = ctx;

    assert_non_null(p->q);
    p->answers++;
    p->action = v->action;
    p->status = v->status;
    p->max = v->max;
    p->ttl_s = v->ttl_s;
    p->set_count = v->set_count;
    p->removed_count = v->removed_count;
    if (v->set_count != 0) {
        note(p->first_set, sizeof p->first_set, v->set[0].name);
        note(p->first_value, sizeof p->first_value, v->set[0].values[0]);
    }
    if (v->removed_count != 0)
        note(p->first_removed, sizeof p->first_removed, v->removed[0]);
    note(p->class, sizeof p->class, v->credential_class);
    note(p->credential, sizeof p->credential, v->credential);
    note(p->reason, sizeof p->reason, v->reason);
    note(p->why, sizeof p->why, v->why);
    if (v->action != DECIDER_NEED_BODY) {
        p->q = NULL;
        p->finals++;
        p->order = ++p->script->finals;
    }
    if (p->then != NULL)
        p->then(p, v);
}

static void on_hello(void *ctx, const struct hello *h)
{
    struct script *s = ctx;

    s->hellos++;
    s->asks = h->asks;
    s->allowed_count = h->allowed_count;
    s->denied_count = h->denied_count;
    note(s->first_allowed, sizeof s->first_allowed, h->allowed_count != 0 ? h->allowed[0] : NULL);
    if (s->on_hello != NULL)
        s->on_hello(s);
}

static void on_dead(void *ctx, const char *why)
{
    struct script *s = ctx;

    assert_true(link_is_dead(s->link));
    assert_int_equal(link_pending(s->link), 0);
    s->deaths++;
    note(s->why, sizeof s->why, why);
    if (s->on_dead != NULL)
        s->on_dead(s);
}

struct script *script_new_at(unsigned proto, unsigned level, int64_t first_id)
{
    struct script *s = mem_alloc(sizeof *s);
    const struct link_options o = {
        .proto = proto,
        .level = level,
        .timeout_ms = SCRIPT_TIMEOUT_MS,
        .decider = &s->decider,
        .hello = on_hello,
        .dead = on_dead,
        .ctx = s,
        .first_id = first_id,
    };
    s->now = 1000;
    s->link = link_new(&o);
    return s;
}

struct script *script_new(unsigned proto, unsigned level)
{
    return script_new_at(proto, level, 0);
}

struct script *script_ready(unsigned proto)
{
    struct script *s = script_new(proto, 0);
    struct buf hello;

    buf_init(&hello, 1024);
    script_drain(s, &hello);
    buf_free(&hello);
    script_say(s, "{\"t\":\"hello\",\"proto\":%u,%s\"allowedDomains\":[],\"deniedDomains\":[]}",
               proto, proto == 2 ? "\"asks\":[\"connection\",\"request\"]," : "");
    assert_true(link_is_ready(s->link));
    return s;
}

void script_free(struct script *s)
{
    link_free(s->link);
    free(s);
}

static struct played *fresh(struct script *s, unsigned i)
{
    struct played *p = &s->played[i];
    void (*then)(struct played *, const struct decider_verdict *) = p->then;

    assert_true(i < SCRIPT_QUESTIONS && p->q == NULL);
    *p = (struct played){.script = s, .then = then};
    return p;
}

static bool was_asked(struct script *s, const struct played *p)
{
    if (p->q != NULL)
        assert_ptr_equal(p->q->decider, &s->decider);
    return p->q != NULL;
}

bool script_ask_long(struct script *s, unsigned i, const char *target, size_t n)
{
    const struct decider_request r = {
        .method = "GET",
        .method_len = 3,
        .host = "api.example.com",
        .port = 443,
        .target = target,
        .target_len = n,
    };
    struct played *p = fresh(s, i);

    p->refused = "never set";
    p->q = link_ask_request(s->link, &r, s->now, &p->refused, on_answer, p);
    return was_asked(s, p);
}

bool script_ask(struct script *s, unsigned i)
{
    return script_ask_long(s, i, "/", 1);
}

bool script_ask_connection(struct script *s, unsigned i)
{
    const struct decider_connection c = {
        .via = "socks", .host = "example.org", .port = 22, .client = "local"};
    struct played *p = fresh(s, i);

    p->q = link_ask_connection(s->link, &c, s->now, on_answer, p);
    return was_asked(s, p);
}

bool script_hold(struct script *s, unsigned i, uint64_t length)
{
    struct played *p = &s->played[i];

    if (link_hold(p->q, length))
        return true;
    p->q = NULL;
    return false;
}

void script_give(struct script *s, unsigned i, struct decider_body *body, bool cut)
{
    link_give_body(s->played[i].q, body, cut, s->now);
}

void script_give_text(struct script *s, unsigned i, const char *text, bool cut)
{
    struct decider_body *body = decider_body_new(strlen(text));

    buf_puts(&body->bytes, text);
    script_give(s, i, body, cut);
    decider_body_unref(body);
}

void script_forget(struct script *s, unsigned i)
{
    link_forget(s->played[i].q);
    s->played[i].q = NULL;
}

void script_say_bytes(struct script *s, const void *p, size_t n)
{
    /* A copy of just this size, so that reading past its end is noticed. */
    uint8_t *copy = mem_alloc(n);

    memcpy(copy, p, n);
    link_feed(s->link, copy, n, s->now);
    free(copy);
}

void script_say(struct script *s, const char *fmt, ...)
{
    struct buf b;
    va_list ap;

    buf_init(&b, FRAME_HEAD + 2 * FRAME_MAX);
    size_t begun = frame_begin(&b);
    va_start(ap, fmt);
    assert_true(buf_vprintf(&b, fmt, ap));
    va_end(ap);
    frame_end(&b, begun);
    script_say_bytes(s, buf_data(&b), buf_len(&b));
    buf_free(&b);
}

void script_tick(struct script *s)
{
    link_tick(s->link, s->now);
}

void script_pass(struct script *s, double seconds)
{
    s->now += seconds;
    script_tick(s);
}

void script_drain(struct script *s, struct buf *to)
{
    const uint8_t *p;
    size_t n;

    while ((p = link_output(s->link, &n)) != NULL) {
        assert_in_range(n, 1, 65536);
        assert_true(buf_append(to, p, n));
        link_written(s->link, n);
    }
    assert_int_equal(n, 0);
    assert_int_equal(link_queued(s->link), 0);
}

const char *script_next_frame(struct buf *drained, struct buf *frame)
{
    size_t n;

    buf_clear(frame);
    if (frame_next(buf_data(drained), buf_len(drained), 1U << 30, &n) != FRAME_OK)
        return NULL;
    assert_true(buf_append(frame, buf_data(drained) + FRAME_HEAD, n));
    buf_consume(drained, FRAME_HEAD + n);
    return buf_cstr(frame);
}

void script_assert_dead(const struct script *s, const char *why)
{
    size_t n;

    assert_true(link_is_dead(s->link));
    assert_false(link_is_ready(s->link));
    assert_int_equal(s->deaths, 1);
    assert_string_equal(s->why, why);
    assert_int_equal(link_pending(s->link), 0);
    assert_int_equal(link_bodies_held(s->link), 0);
    assert_int_equal(link_queued(s->link), 0);
    assert_null(link_output(s->link, &n));
    assert_true(link_deadline(s->link) == 0);
}

void script_assert_alive(const struct script *s)
{
    assert_true(link_is_ready(s->link));
    assert_false(link_is_dead(s->link));
    assert_int_equal(s->deaths, 0);
}

void script_assert_final(const struct script *s, unsigned i, enum decider_action action)
{
    assert_int_equal(s->played[i].finals, 1);
    assert_int_equal(s->played[i].action, action);
    assert_null(s->played[i].q);
}

void script_assert_open(const struct script *s, unsigned i)
{
    assert_int_equal(s->played[i].finals, 0);
    assert_non_null(s->played[i].q);
}
