/* Bodies over a link: when they may be asked for, how much is held, how they leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "tests/unit/link_fixture.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ALLOW "{\"t\":\"verdict\",\"id\":%u,\"action\":\"allow\"}"
#define DENY "{\"t\":\"verdict\",\"id\":%u,\"action\":\"deny\",\"status\":403}"
#define NEED_BODY "{\"t\":\"verdict\",\"id\":%u,\"action\":\"need_body\",\"max\":%u}"

/* Asks question i, which gets id i + 1, and lets the decider ask for its body. */
static void ask_for_body(struct script *s, unsigned i, unsigned max)
{
    assert_true(script_ask(s, i));
    script_say(s, NEED_BODY, i + 1, max);
    script_assert_open(s, i);
    assert_int_equal(s->played[i].answers, 1);
    assert_int_equal(s->played[i].action, DECIDER_NEED_BODY);
    assert_int_equal(s->played[i].max, max);
}

static struct decider_body *body_of(size_t n)
{
    struct decider_body *body = decider_body_new(n);
    uint8_t *p = buf_reserve(&body->bytes, n);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 7 + i / 251);
    buf_commit(&body->bytes, n);
    return body;
}

static void body_is_shown_and_judged(void **state)
{
    (void)state;
    static const struct {
        const char *verdict;
        enum decider_action action;
    } cases[] = {{ALLOW, DECIDER_ALLOW}, {DENY, DECIDER_DENY}};
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_ready(1);
        struct buf out, frame;

        buf_init(&out, 4096);
        buf_init(&frame, 4096);
        ask_for_body(s, 0, 100);
        assert_true(script_hold(s, 0, 5));
        assert_int_equal(link_bodies_held(s->link), 5);
        script_give_text(s, 0, "hello", false);
        script_drain(s, &out);
        assert_non_null(script_next_frame(&out, &frame));
        assert_string_equal(script_next_frame(&out, &frame),
                            "{\"t\":\"body\",\"id\":1,\"data\":\"aGVsbG8=\"}");
        assert_int_equal(link_bodies_held(s->link), 5);
        script_say(s, i == 0 ? ALLOW : DENY, 1U);
        script_assert_final(s, 0, cases[i].action);
        assert_int_equal(s->played[0].answers, 2);
        assert_int_equal(link_bodies_held(s->link), 0);
        script_assert_alive(s);
        buf_free(&out);
        buf_free(&frame);
        script_free(s);
    }
}

static void empty_and_cut_bodies(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    struct buf out, frame;

    buf_init(&out, 4096);
    buf_init(&frame, 4096);
    ask_for_body(s, 0, 3);
    ask_for_body(s, 1, 3);
    script_drain(s, &out);
    buf_clear(&out);
    assert_true(script_hold(s, 0, 0));
    script_give_text(s, 0, "", false);
    assert_true(script_hold(s, 1, UINT64_MAX));
    script_give_text(s, 1, "abc", true);
    script_drain(s, &out);
    assert_string_equal(script_next_frame(&out, &frame), "{\"t\":\"body\",\"id\":1,\"data\":\"\"}");
    assert_string_equal(script_next_frame(&out, &frame),
                        "{\"t\":\"body\",\"id\":2,\"data\":\"YWJj\",\"cut\":true}");
    buf_free(&out);
    buf_free(&frame);
    script_free(s);
}

/* Takes the output in pieces of odd sizes. */
static void drain_slowly(struct script *s, struct buf *to)
{
    const uint8_t *p;
    size_t n;
    size_t step = 1;

    while ((p = link_output(s->link, &n)) != NULL) {
        size_t before = link_queued(s->link);
        size_t part = step % 70001 < n ? step % 70001 : n;
        assert_in_range(n, 1, 65536);
        assert_true(buf_append(to, p, part));
        link_written(s->link, part);
        assert_int_equal(link_queued(s->link), before - part);
        step = step * 3 + 1;
    }
    assert_int_equal(link_queued(s->link), 0);
}

static void bodies_of_all_sizes_leave_as_base64(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,     2,     3,     12287, 12288, 12289,  49151,
                                   49152, 49153, 98303, 98304, 98305, 500000, 33554432};
    struct buf out, frame, expected;

    buf_init(&out, 1U << 27);
    buf_init(&frame, 1U << 27);
    buf_init(&expected, 1U << 27);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        struct script *s = script_ready(1);
        struct decider_body *body = body_of(sizes[i]);

        ask_for_body(s, 0, DECIDER_BODY_MAX);
        assert_true(script_hold(s, 0, sizes[i]));
        script_drain(s, &out);
        buf_clear(&out);
        script_give(s, 0, body, i % 2 == 0);
        assert_true(script_ask(s, 1));
        size_t queued = link_queued(s->link);
        drain_slowly(s, &out);
        assert_int_equal(buf_len(&out), queued);

        buf_clear(&expected);
        buf_puts(&expected, "{\"t\":\"body\",\"id\":1,\"data\":\"");
        text_base64(&expected, buf_data(&body->bytes), sizes[i]);
        buf_puts(&expected, i % 2 == 0 ? "\",\"cut\":true}" : "\"}");
        const char *got = script_next_frame(&out, &frame);
        assert_non_null(got);
        assert_int_equal(buf_len(&frame), buf_len(&expected));
        assert_memory_equal(got, buf_data(&expected), buf_len(&expected));
        assert_non_null(strstr(script_next_frame(&out, &frame), "\"id\":2,"));
        assert_int_equal(buf_len(&out), 0);
        assert_int_equal(body->refs, 1);
        decider_body_unref(body);
        script_free(s);
    }
    buf_free(&out);
    buf_free(&frame);
    buf_free(&expected);
}

/* The queue has a body for itself, and one copy of it: its own reference. */
static void queued_body_outlives_its_question(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    struct decider_body *body = body_of(1000000);
    struct buf out;

    ask_for_body(s, 0, 1000000);
    assert_true(script_hold(s, 0, 2000000));
    assert_int_equal(link_bodies_held(s->link), 1000000);
    script_give(s, 0, body, true);
    assert_int_equal(body->refs, 2);
    script_forget(s, 0);
    assert_int_equal(link_bodies_held(s->link), 0);
    assert_true(link_queued(s->link) > 1000000);
    decider_body_unref(body);
    buf_init(&out, 1U << 21);
    script_drain(s, &out);
    assert_true(buf_len(&out) > 1333336);
    buf_free(&out);
    script_free(s);
}

static void death_drops_queued_bodies(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    struct decider_body *body = body_of(1000000);
    size_t n;

    ask_for_body(s, 0, 1000000);
    assert_true(script_hold(s, 0, 1000000));
    script_give(s, 0, body, false);
    assert_non_null(link_output(s->link, &n));
    link_written(s->link, n);
    assert_non_null(link_output(s->link, &n));
    link_written(s->link, 1);
    link_ended(s->link, "gone");
    script_assert_dead(s, "gone");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    assert_int_equal(body->refs, 1);
    decider_body_unref(body);
    script_free(s);
}

static void no_timer_runs_while_it_is_read(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    ask_for_body(s, 0, 100);
    assert_true(link_deadline(s->link) == 0);
    script_pass(s, 1000);
    script_assert_open(s, 0);
    assert_true(script_hold(s, 0, 10));
    script_pass(s, 1000);
    script_assert_open(s, 0);
    assert_true(script_ask(s, 1));
    script_pass(s, 1);
    /* Its time starts anew, and it is now behind the question that was asked later. */
    script_give_text(s, 0, "x", false);
    assert_true(link_deadline(s->link) == s->now + 4);
    script_pass(s, 4);
    script_assert_open(s, 0);
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    script_pass(s, 1);
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    assert_string_equal(s->played[0].why, "no answer in 5000 ms");
    assert_int_equal(link_bodies_held(s->link), 0);
    script_assert_alive(s);
    script_free(s);
}

static void death_answers_in_order_of_ids(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    ask_for_body(s, 0, 100);
    assert_true(script_ask(s, 1));
    ask_for_body(s, 2, 100);
    assert_true(script_ask(s, 3));
    assert_true(script_hold(s, 0, 1));
    script_give_text(s, 0, "x", false);
    link_ended(s->link, "gone");
    for (unsigned i = 0; i < 4; i++) {
        script_assert_final(s, i, DECIDER_UNAVAILABLE);
        assert_int_equal(s->played[i].order, i + 1);
    }
    script_free(s);
}

static void deny_ends_it_while_it_is_read(void **state)
{
    (void)state;
    for (unsigned held = 0; held < 2; held++) {
        struct script *s = script_ready(1);
        ask_for_body(s, 0, 100);
        if (held)
            assert_true(script_hold(s, 0, UINT64_MAX));
        script_say(s, DENY, 1U);
        script_assert_final(s, 0, DECIDER_DENY);
        assert_int_equal(link_bodies_held(s->link), 0);
        script_assert_alive(s);
        script_free(s);
    }
}

static void nothing_but_deny_while_it_is_read(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct script *s = script_ready(1);
        ask_for_body(s, 0, 100);
        if (i >= 2)
            assert_true(script_hold(s, 0, 1));
        if (i % 2 == 0)
            script_say(s, ALLOW, 1U);
        else
            script_say(s, NEED_BODY, 1U, 5U);
        script_assert_dead(s, "id 1: a verdict other than deny while the body was read");
        script_assert_final(s, 0, DECIDER_UNAVAILABLE);
        script_free(s);
    }
}

static void body_is_asked_for_once(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    ask_for_body(s, 0, 100);
    assert_true(script_hold(s, 0, 1));
    script_give_text(s, 0, "x", false);
    script_say(s, NEED_BODY, 1U, 100U);
    script_assert_dead(s, "id 1: a second need_body");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    script_free(s);
}

static void budget_is_counted_at_the_smaller_size(void **state)
{
    (void)state;
    enum { MAX = 33554432 };
    static const struct {
        uint64_t length;
        size_t held;
    } cases[] = {
        {0, 0}, {1, 1}, {1000, 1000}, {1001, 1000}, {UINT64_MAX, 1000}, {UINT64_C(1) << 32, 1000},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_ready(1);
        ask_for_body(s, 0, 1000);
        assert_true(script_hold(s, 0, cases[i].length));
        assert_int_equal(link_bodies_held(s->link), cases[i].held);
        script_forget(s, 0);
        assert_int_equal(link_bodies_held(s->link), 0);
        script_free(s);
    }

    struct script *s = script_ready(1);
    for (unsigned i = 0; i < 6; i++)
        ask_for_body(s, i, MAX);
    assert_true(script_hold(s, 0, UINT64_MAX));
    assert_true(script_hold(s, 1, MAX - 1));
    assert_int_equal(link_bodies_held(s->link), LINK_BODIES_MAX - 1);
    assert_false(script_hold(s, 2, 2));
    assert_int_equal(link_bodies_held(s->link), LINK_BODIES_MAX - 1);
    assert_int_equal(link_pending(s->link), 5);
    assert_true(script_hold(s, 3, 1));
    assert_int_equal(link_bodies_held(s->link), LINK_BODIES_MAX);
    assert_true(script_hold(s, 4, 0));
    script_say(s, DENY, 1U);
    assert_int_equal(link_bodies_held(s->link), MAX);
    assert_true(script_hold(s, 5, MAX));
    assert_int_equal(s->played[2].finals, 0);
    script_assert_alive(s);
    link_ended(s->link, "gone");
    script_assert_dead(s, "gone");
    script_free(s);
}

/* Bodies that nobody waits for any more stay in the queue until the decider takes them: what
 * clients that left have sent must not end the link. */
static void unread_bodies_leave_no_room_for_more(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    struct decider_body *body = body_of(DECIDER_BODY_MAX);

    for (unsigned i = 0; i < 2; i++) {
        ask_for_body(s, i, DECIDER_BODY_MAX);
        assert_true(script_hold(s, i, UINT64_MAX));
        script_give(s, i, body, false);
        script_forget(s, i);
    }
    assert_int_equal(link_bodies_held(s->link), 0);
    assert_int_equal(body->refs, 3);
    ask_for_body(s, 2, DECIDER_BODY_MAX);
    assert_false(script_hold(s, 2, UINT64_MAX));
    ask_for_body(s, 3, 1 << 20);
    assert_true(script_hold(s, 3, UINT64_MAX));
    script_assert_alive(s);
    size_t n;
    while (link_output(s->link, &n) != NULL)
        link_written(s->link, n);
    assert_int_equal(body->refs, 1);
    ask_for_body(s, 4, DECIDER_BODY_MAX);
    assert_true(script_hold(s, 4, UINT64_MAX));
    script_forget(s, 3);
    script_forget(s, 4);
    decider_body_unref(body);
    script_free(s);
}

static void then_gives(struct played *p, const struct decider_verdict *v)
{
    struct script *s = p->script;
    unsigned i = (unsigned)(p - s->played);
    if (v->action != DECIDER_NEED_BODY)
        return;
    if (script_hold(s, i, 3))
        script_give_text(s, i, "abc", false);
}

static void then_forgets(struct played *p, const struct decider_verdict *v)
{
    struct script *s = p->script;
    (void)v;
    script_forget(s, (unsigned)(p - s->played));
}

static void body_is_given_from_inside_of_the_answer(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    s->played[0].then = then_gives;
    ask_for_body(s, 0, 10);
    assert_int_equal(link_bodies_held(s->link), 3);
    assert_true(link_deadline(s->link) == s->now + 5);
    script_say(s, ALLOW, 1U);
    script_assert_final(s, 0, DECIDER_ALLOW);
    script_free(s);

    s = script_ready(1);
    s->played[0].then = then_forgets;
    assert_true(script_ask(s, 0));
    script_say(s, NEED_BODY, 1U, 10U);
    assert_int_equal(link_pending(s->link), 0);
    script_say(s, DENY, 1U);
    assert_int_equal(s->played[0].answers, 1);
    script_assert_alive(s);
    script_free(s);
}

/* It was doomed meanwhile: nothing is sent, and the question is answered with the others. */
static void body_is_given_to_a_doomed_link(void **state)
{
    (void)state;
    struct script *s = script_new_at(1, 0, MESSAGE_ID_MAX);
    script_say(s, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[]}");
    assert_true(script_ask(s, 0));
    script_say(s, "{\"t\":\"verdict\",\"id\":9007199254740991,\"action\":\"need_body\",\"max\":9}");
    assert_true(script_hold(s, 0, 9));
    assert_false(script_ask(s, 1));
    size_t queued = link_queued(s->link);
    script_give_text(s, 0, "x", false);
    assert_int_equal(link_queued(s->link), queued);
    script_assert_open(s, 0);
    script_tick(s);
    script_assert_dead(s, "question ids exhausted");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_is_shown_and_judged),
        cmocka_unit_test(empty_and_cut_bodies),
        cmocka_unit_test(bodies_of_all_sizes_leave_as_base64),
        cmocka_unit_test(queued_body_outlives_its_question),
        cmocka_unit_test(death_drops_queued_bodies),
        cmocka_unit_test(no_timer_runs_while_it_is_read),
        cmocka_unit_test(death_answers_in_order_of_ids),
        cmocka_unit_test(deny_ends_it_while_it_is_read),
        cmocka_unit_test(nothing_but_deny_while_it_is_read),
        cmocka_unit_test(body_is_asked_for_once),
        cmocka_unit_test(budget_is_counted_at_the_smaller_size),
        cmocka_unit_test(unread_bodies_leave_no_room_for_more),
        cmocka_unit_test(body_is_given_from_inside_of_the_answer),
        cmocka_unit_test(body_is_given_to_a_doomed_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
