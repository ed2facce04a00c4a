/* Calls of a link from inside of its answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/link_fixture.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define HELLO_1 "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[]}"
#define ALLOW(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"allow\"}"
#define DENY(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"deny\",\"status\":403}"

static void asks_three(struct script *s)
{
    for (unsigned i = 0; i < 3; i++)
        assert_true(script_ask(s, i));
}

static void then_asks_next(struct played *p, const struct decider_verdict *v)
{
    (void)v;
    struct script *s = p->script;
    unsigned next = (unsigned)(p - s->played) + 1;
    if (next < 4)
        assert_int_equal(script_ask(s, next), link_is_ready(s->link));
}

static void answer_asks(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    for (unsigned i = 0; i < 4; i++)
        s->played[i].then = then_asks_next;
    assert_true(script_ask(s, 0));
    script_say(s, ALLOW("1"));
    script_pass(s, 5);
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    script_assert_open(s, 2);
    script_say(s, DENY("3"));
    script_assert_open(s, 3);
    script_assert_alive(s);
    script_free(s);

    s = script_ready(1);
    s->played[0].then = then_asks_next;
    assert_true(script_ask(s, 0));
    link_ended(s->link, "gone");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    assert_null(s->played[1].q);
    assert_int_equal(s->deaths, 1);
    script_free(s);
}

static void then_forgets_others(struct played *p, const struct decider_verdict *v)
{
    (void)v;
    for (unsigned i = 0; i < SCRIPT_QUESTIONS; i++)
        if (p->script->played[i].q != NULL)
            script_forget(p->script, i);
}

static void by_verdict(struct script *s)
{
    script_say(s, ALLOW("1"));
}
static void by_time(struct script *s)
{
    script_pass(s, 5);
}
static void by_end(struct script *s)
{
    link_ended(s->link, "gone");
}
static void by_violation(struct script *s)
{
    script_say(s, "{}");
}

static void answer_forgets_others(void **state)
{
    (void)state;
    static void (*const ways[])(struct script *) = {by_verdict, by_time, by_end, by_violation};
    for (size_t i = 0; i < LENGTH(ways); i++) {
        struct script *s = script_ready(1);
        s->played[0].then = then_forgets_others;
        asks_three(s);
        ways[i](s);
        assert_int_equal(s->played[0].finals, 1);
        assert_int_equal(s->played[1].answers, 0);
        assert_int_equal(s->played[2].answers, 0);
        assert_int_equal(link_pending(s->link), 0);
        assert_int_equal(s->deaths, i >= 2);
        script_free(s);
    }
}

static void then_exhausts(struct played *p, const struct decider_verdict *v)
{
    (void)v;
    assert_false(script_ask(p->script, 5));
    assert_int_equal(p->script->deaths, 0);
}

/* Doomed from inside of an answer: carried out before the call from outside returns. */
static void answer_dooms(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct script *s = script_new_at(1, 0, MESSAGE_ID_MAX - 1);
        script_say(s, HELLO_1);
        s->played[0].then = then_exhausts;
        assert_true(script_ask(s, 0));
        assert_true(script_ask(s, 1));
        if (i == 0)
            script_say(s, ALLOW("9007199254740990"));
        else
            script_pass(s, 5);
        script_assert_final(s, 0, i == 0 ? DECIDER_ALLOW : DECIDER_UNAVAILABLE);
        script_assert_final(s, 1, DECIDER_UNAVAILABLE);
        assert_string_equal(s->played[1].why, "question ids exhausted");
        script_assert_dead(s, "question ids exhausted");
        script_free(s);
    }
}

static void asks_when_dead(struct script *s)
{
    assert_false(script_ask(s, 0));
}

static void dead_link_is_asked_nothing(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    s->on_dead = asks_when_dead;
    link_ended(s->link, "gone");
    script_assert_dead(s, "gone");
    script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_asks),
        cmocka_unit_test(answer_forgets_others),
        cmocka_unit_test(answer_dooms),
        cmocka_unit_test(dead_link_is_asked_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
