/* Answers that come after nobody waits for them any more, and how long that is remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decider/link_late.h"
#include "tests/unit/link_fixture.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ALLOW "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\"}"
#define DENY "{\"t\":\"verdict\",\"id\":1,\"action\":\"deny\",\"status\":403}"
#define NEED_BODY "{\"t\":\"verdict\",\"id\":1,\"action\":\"need_body\",\"max\":67108864}"
#define NEED_BODY_10 "{\"t\":\"verdict\",\"id\":1,\"action\":\"need_body\",\"max\":10}"
#define NOBODY_WAITS "verdict for id 1, which nothing waits on"

/* Ways for question 0, of id 1, to become late. */

static void times_out(struct script *s)
{
    assert_true(script_ask(s, 0));
    script_pass(s, 5);
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
}

static void is_forgotten(struct script *s)
{
    assert_true(script_ask(s, 0));
    script_forget(s, 0);
}

static void asks_for_body(struct script *s)
{
    assert_true(script_ask(s, 0));
    script_say(s, NEED_BODY_10);
    script_assert_open(s, 0);
}

static void is_forgotten_when_body_was_asked_for(struct script *s)
{
    asks_for_body(s);
    script_forget(s, 0);
}

static void is_forgotten_while_body_is_read(struct script *s)
{
    asks_for_body(s);
    assert_true(script_hold(s, 0, 5));
    script_forget(s, 0);
}

static void is_refused_for_the_budget(struct script *s)
{
    static const char need_all[] =
        "{\"t\":\"verdict\",\"id\":%u,\"action\":\"need_body\",\"max\":33554432}";
    asks_for_body(s);
    for (unsigned i = 1; i <= 2; i++) {
        assert_true(script_ask(s, i));
        script_say(s, need_all, i + 1);
        assert_true(script_hold(s, i, UINT64_MAX));
    }
    assert_false(script_hold(s, 0, 1));
}

static void times_out_after_body(struct script *s)
{
    asks_for_body(s);
    assert_true(script_hold(s, 0, 5));
    script_give_text(s, 0, "x", false);
    script_pass(s, 5);
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
}

static void is_forgotten_after_body(struct script *s)
{
    asks_for_body(s);
    assert_true(script_hold(s, 0, 5));
    script_give_text(s, 0, "x", false);
    script_forget(s, 0);
}

static const struct {
    void (*way)(struct script *s);
    bool asked_for_body;
} ways[] = {
    {times_out, false},
    {is_forgotten, false},
    {is_forgotten_when_body_was_asked_for, true},
    {is_forgotten_while_body_is_read, true},
    {is_refused_for_the_budget, true},
    {times_out_after_body, true},
    {is_forgotten_after_body, true},
};

static void late_verdict_is_dropped_once(void **state)
{
    (void)state;
    static const char *const verdicts[] = {ALLOW, DENY};
    static const char *const seconds[] = {ALLOW, DENY, NEED_BODY_10};
    for (size_t w = 0; w < LENGTH(ways); w++)
        for (size_t i = 0; i < LENGTH(verdicts); i++)
            for (size_t j = 0; j < LENGTH(seconds); j++) {
                struct script *s = script_ready(1);
                ways[w].way(s);
                unsigned answers = s->played[0].answers;
                script_say(s, "%s", verdicts[i]);
                script_assert_alive(s);
                script_say(s, "%s", seconds[j]);
                script_assert_dead(s, NOBODY_WAITS);
                assert_int_equal(s->played[0].answers, answers);
                script_free(s);
            }
}

static void late_need_body(void **state)
{
    (void)state;
    for (size_t w = 0; w < LENGTH(ways); w++) {
        struct script *s = script_ready(1);
        ways[w].way(s);
        unsigned answers = s->played[0].answers;
        script_say(s, NEED_BODY_10);
        if (ways[w].asked_for_body) {
            script_assert_dead(s, "id 1: a second need_body");
        } else {
            /* It stays late: each is dropped, and one verdict too. */
            script_say(s, NEED_BODY_10);
            script_say(s, ALLOW);
            script_assert_alive(s);
            script_say(s, ALLOW);
            script_assert_dead(s, NOBODY_WAITS);
        }
        assert_int_equal(s->played[0].answers, answers);
        script_free(s);
    }
}

/* Late or not, such a verdict may not come for such a question. */
static void late_verdicts_have_to_fit(void **state)
{
    (void)state;
    static const struct {
        bool connection;
        const char *verdict, *why; /* NULL: it fits */
    } cases[] = {
        {true, ALLOW, NULL},
        {true, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"ttl\":5}", NULL},
        {true, DENY, NULL},
        {true, NEED_BODY_10, "id 1: need_body for a connection"},
        {true, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"removeHeaders\":[\"x\"]}",
         "id 1: header edits or a credential for a connection"},
        {false, NEED_BODY_10, NULL},
        {false, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"removeHeaders\":[\"x\"]}",
         NULL},
        {false, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"ttl\":5}",
         "id 1: ttl for a request"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_ready(2);
        assert_true(cases[i].connection ? script_ask_connection(s, 0) : script_ask(s, 0));
        script_forget(s, 0);
        script_say(s, "%s", cases[i].verdict);
        if (cases[i].why == NULL)
            script_assert_alive(s);
        else
            script_assert_dead(s, cases[i].why);
        assert_int_equal(s->played[0].answers, 0);
        script_free(s);
    }
}

/* Asks and forgets n questions. */
static void go_on(struct script *s, unsigned n)
{
    struct buf out;

    buf_init(&out, 1U << 20);
    for (unsigned i = 0; i < n; i++) {
        assert_true(script_ask(s, 15));
        script_forget(s, 15);
        script_drain(s, &out);
        buf_clear(&out);
    }
    buf_free(&out);
}

static void window_ends(void **state)
{
    (void)state;
    static const char *const verdicts[] = {ALLOW, DENY, NEED_BODY_10};
    for (size_t i = 0; i < LENGTH(verdicts); i++) {
        /* Answered: in the window a second verdict is a violation, past it it is dropped. */
        struct script *s = script_ready(1);
        assert_true(script_ask(s, 0));
        script_say(s, DENY);
        go_on(s, LINK_LATE_WINDOW);
        script_say(s, "%s", verdicts[i]);
        script_say(s, "%s", verdicts[i]);
        script_assert_alive(s);
        script_free(s);

        s = script_ready(1);
        assert_true(script_ask(s, 0));
        script_say(s, DENY);
        go_on(s, LINK_LATE_WINDOW - 1);
        script_say(s, "%s", verdicts[i]);
        script_assert_dead(s, NOBODY_WAITS);
        script_free(s);

        /* Late: its mark holds as long as the window, and means nothing past it. */
        s = script_ready(1);
        is_forgotten_after_body(s);
        go_on(s, LINK_LATE_WINDOW - 1);
        script_say(s, "%s", verdicts[i]);
        if (i == 2)
            script_assert_dead(s, "id 1: a second need_body");
        else
            script_assert_alive(s);
        script_free(s);

        s = script_ready(1);
        is_forgotten_after_body(s);
        go_on(s, LINK_LATE_WINDOW);
        script_say(s, "%s", verdicts[i]);
        script_say(s, "%s", verdicts[i]);
        script_assert_alive(s);
        script_free(s);
    }
}

static void malformed_is_never_dropped(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    is_forgotten(s);
    go_on(s, LINK_LATE_WINDOW);
    script_say(s, NEED_BODY); /* more than may be asked for */
    assert_true(link_is_dead(s->link));
    script_free(s);
}

/* A body can take longer to read than the window lasts: the question still waits. */
static void pending_below_the_window_is_answered(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    asks_for_body(s);
    assert_true(script_hold(s, 0, 5));
    go_on(s, LINK_LATE_WINDOW + 10);
    script_give_text(s, 0, "x", false);
    script_say(s, ALLOW);
    script_assert_final(s, 0, DECIDER_ALLOW);
    script_say(s, ALLOW);
    script_assert_alive(s);
    script_free(s);

    s = script_ready(1);
    asks_for_body(s);
    go_on(s, LINK_LATE_WINDOW + 10);
    script_forget(s, 0);
    script_say(s, NEED_BODY_10);
    script_assert_alive(s);
    script_free(s);
}

static void marks_take_the_place_of_older_ones(void **state)
{
    (void)state;
    struct link_late late;

    link_late_init(&late, MESSAGE_ID_MAX - 2 * LINK_LATE_WINDOW);
    int64_t first = link_late_next_id(&late);
    for (int64_t id = first; id < first + LINK_LATE_WINDOW; id++) {
        assert_int_equal(link_late_next_id(&late), id);
        assert_int_equal(link_late_stage(&late, id), LINK_NOT_ASKED);
        link_late_given(&late);
        link_late_mark(&late, id, id % 2 == 0 ? LINK_REQUEST : LINK_SHOWN);
    }
    for (int64_t id = first + LINK_LATE_WINDOW; link_late_next_id(&late) != 0; id++) {
        assert_int_equal(link_late_next_id(&late), id);
        assert_int_equal(link_late_stage(&late, id - LINK_LATE_WINDOW),
                         id % 2 == 0 ? LINK_REQUEST : LINK_SHOWN);
        assert_false(link_late_is_forgotten(&late, id - LINK_LATE_WINDOW));
        link_late_given(&late);
        assert_int_equal(link_late_stage(&late, id), LINK_NOT_ASKED);
        assert_int_equal(link_late_stage(&late, id - LINK_LATE_WINDOW), LINK_NOT_ASKED);
        assert_true(link_late_is_forgotten(&late, id - LINK_LATE_WINDOW));
        link_late_mark(&late, id - LINK_LATE_WINDOW, LINK_SHOWN);
        assert_int_equal(link_late_stage(&late, id), LINK_NOT_ASKED);
    }
    assert_int_equal(late.newest, MESSAGE_ID_MAX);
    assert_false(link_late_is_forgotten(&late, MESSAGE_ID_MAX));
    assert_int_equal(link_late_stage(&late, INT64_MAX), LINK_NOT_ASKED);
    assert_false(link_late_is_forgotten(&late, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_verdict_is_dropped_once),
        cmocka_unit_test(late_need_body),
        cmocka_unit_test(late_verdicts_have_to_fit),
        cmocka_unit_test(window_ends),
        cmocka_unit_test(malformed_is_never_dropped),
        cmocka_unit_test(pending_below_the_window_is_answered),
        cmocka_unit_test(marks_take_the_place_of_older_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
