/* Time on a link, and many questions at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/link_fixture.h"

#define ALLOW(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"allow\"}"

static void no_answer_in_time(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    assert_true(script_ask(s, 0));
    assert_true(link_deadline(s->link) == 1005);
    script_pass(s, 2);
    assert_true(script_ask(s, 1));
    assert_true(link_deadline(s->link) == 1005);
    script_pass(s, 2.5);
    script_assert_open(s, 0);
    script_pass(s, 0.5);
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    assert_string_equal(s->played[0].why, "no answer in 5000 ms");
    script_assert_open(s, 1);
    assert_true(link_deadline(s->link) == 1007);
    script_pass(s, 3);
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    assert_true(link_deadline(s->link) == 0);
    assert_int_equal(link_pending(s->link), 0);
    script_assert_alive(s);
    script_free(s);
}

static void timers_of_the_others_go_on(void **state)
{
    (void)state;
    /* Of three questions asked a second apart, one is answered, then one more is asked. */
    for (unsigned answered = 0; answered < 3; answered++) {
        struct script *s = script_ready(1);
        for (unsigned i = 0; i < 3; i++) {
            assert_true(script_ask(s, i));
            script_pass(s, 1);
        }
        script_say(s, "{\"t\":\"verdict\",\"id\":%u,\"action\":\"allow\"}", answered + 1);
        assert_true(script_ask(s, 3));
        assert_true(link_deadline(s->link) == (answered == 0 ? 1006 : 1005));
        script_pass(s, 1);
        for (unsigned i = 0; i < 4; i++) {
            script_pass(s, 1);
            if (i != answered)
                script_assert_final(s, i, DECIDER_UNAVAILABLE);
            for (unsigned later = i + 1; later < 4; later++)
                if (later != answered)
                    script_assert_open(s, later);
        }
        assert_true(link_deadline(s->link) == 0);
        script_assert_alive(s);
        script_free(s);
    }
}

/* The verdict was there first, but its time was over when it was read. */
static void verdict_read_after_its_time_is_late(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    assert_true(script_ask(s, 0));
    assert_true(script_ask(s, 1));
    s->now += 4;
    script_say(s, ALLOW("1"));
    script_assert_final(s, 0, DECIDER_ALLOW);
    s->now += 1;
    script_say(s, ALLOW("2"));
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    script_assert_alive(s);
    script_free(s);
}

static void clock_set_back_stretches_no_timer(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    assert_true(script_ask(s, 0));
    script_pass(s, 1);
    s->now -= 900;
    assert_true(script_ask(s, 1));
    assert_true(link_deadline(s->link) == s->now + 4);
    script_pass(s, 4);
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    script_assert_open(s, 1);
    script_pass(s, 1);
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    script_free(s);
}

enum { MANY = 10000 };

struct many {
    unsigned allowed, unavailable;
};

static void count_answer(void *ctx, const struct decider_verdict *v)
{
    struct many *m = ctx;
    if (v->action == DECIDER_ALLOW)
        m->allowed++;
    if (v->action == DECIDER_UNAVAILABLE)
        m->unavailable++;
}

static void ten_thousand_are_pending(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    const struct decider_request r = {.method = "GET",
                                      .method_len = 3,
                                      .host = "a.example",
                                      .port = 443,
                                      .target = "/",
                                      .target_len = 1};
    struct many m = {0};
    struct buf out;

    buf_init(&out, SIZE_MAX / 4);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            const char *refused;
            assert_non_null(link_ask_request(s->link, &r, s->now, &refused, count_answer, &m));
        }
        assert_int_equal(link_pending(s->link), MANY);
        script_drain(s, &out);
        buf_clear(&out);
        /* Every other one, the newest first: some are far below the window, but still awaited. */
        for (unsigned i = MANY; i > 0; i -= 2)
            script_say(s, "{\"t\":\"verdict\",\"id\":%u,\"action\":\"allow\"}", round * MANY + i);
        assert_int_equal(link_pending(s->link), MANY / 2);
        script_pass(s, 5);
        assert_int_equal(link_pending(s->link), 0);
    }
    assert_int_equal(m.allowed, MANY);
    assert_int_equal(m.unavailable, MANY);
    script_assert_alive(s);
    buf_free(&out);
    script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_answer_in_time),
        cmocka_unit_test(timers_of_the_others_go_on),
        cmocka_unit_test(verdict_read_after_its_time_is_late),
        cmocka_unit_test(clock_set_back_stretches_no_timer),
        cmocka_unit_test(ten_thousand_are_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
