/* How a link ends, and who hears of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/unit/link_fixture.h"

#define HELLO_1 "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[]}"
#define ALLOW(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"allow\"}"

static void end_of_the_stream_kills(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    assert_true(script_ask(s, 0));
    script_say_bytes(s, "\0\0", 2);
    link_ended(s->link, "decider closed the stream");
    script_assert_dead(s, "decider closed the stream");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    assert_string_equal(s->played[0].why, "decider closed the stream");
    link_ended(s->link, "again");
    assert_int_equal(s->deaths, 1);
    assert_string_equal(s->why, "decider closed the stream");
    script_free(s);

    s = script_new(1, 0);
    link_ended(s->link, "no hello");
    script_assert_dead(s, "no hello");
    script_free(s);
}

static void freeing_answers_nothing(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    assert_true(script_ask(s, 0));
    link_free(s->link);
    assert_int_equal(s->played[0].answers, 0);
    assert_int_equal(s->deaths, 0);
    free(s);
    link_free(NULL);
}

static void ids_run_out(void **state)
{
    (void)state;
    struct script *s = script_new_at(1, 0, MESSAGE_ID_MAX - 1);
    script_say(s, HELLO_1);
    assert_true(script_ask(s, 0));
    assert_true(script_ask(s, 1));
    script_assert_alive(s);
    script_say(s, ALLOW("9007199254740990"));
    script_assert_final(s, 0, DECIDER_ALLOW);
    assert_true(script_ask(s, 2) == false);
    assert_null(s->played[2].refused);
    assert_false(link_is_ready(s->link));
    assert_int_equal(s->deaths, 0);
    assert_int_equal(s->played[1].answers, 0);
    double due = link_deadline(s->link);
    assert_true(due > 0 && due < s->now);
    assert_false(script_ask(s, 2));
    script_tick(s);
    script_assert_dead(s, "question ids exhausted");
    script_assert_final(s, 1, DECIDER_UNAVAILABLE);
    script_free(s);
}

static void doomed_link_reads_no_more(void **state)
{
    (void)state;
    struct script *s = script_new_at(1, 0, MESSAGE_ID_MAX);
    script_say(s, HELLO_1);
    assert_true(script_ask(s, 0));
    assert_false(script_ask(s, 1));
    script_say(s, ALLOW("9007199254740991"));
    script_assert_dead(s, "question ids exhausted");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    script_free(s);
}

static void first_reason_is_kept(void **state)
{
    (void)state;
    struct script *s = script_new_at(1, 0, MESSAGE_ID_MAX);
    script_say(s, HELLO_1);
    assert_true(script_ask(s, 0));
    assert_false(script_ask(s, 1));
    link_ended(s->link, "gone");
    script_assert_dead(s, "question ids exhausted");
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    script_free(s);
}

static void unread_questions_kill(void **state)
{
    (void)state;
    enum { SIZE = 1000000 };
    struct script *s = script_ready(1);
    char *target = mem_alloc(SIZE);
    size_t before = 0;
    char why[64];

    memset(target, 'a', SIZE);
    memcpy(target, "/?", 2);
    assert_true(script_ask(s, 1));
    while (script_ask_long(s, 0, target, SIZE)) {
        before = link_queued(s->link);
        assert_true(before <= LINK_QUEUE_MAX);
        script_forget(s, 0);
    }
    assert_true(before > LINK_QUEUE_MAX - SIZE - 200);
    assert_null(s->played[0].refused);
    assert_false(link_is_ready(s->link));
    assert_int_equal(s->deaths, 0);
    assert_int_equal(link_pending(s->link), 1);
    snprintf(why, sizeof why, "not reading: %zu bytes queued", link_queued(s->link));
    assert_true(link_queued(s->link) > LINK_QUEUE_MAX);
    size_t n;
    assert_null(link_output(s->link, &n));
    assert_true(link_deadline(s->link) > 0 && link_deadline(s->link) < s->now);
    script_tick(s);
    script_assert_dead(s, why);
    assert_int_equal(s->finals, 1);
    free(target);
    script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_of_the_stream_kills),
        cmocka_unit_test(freeing_answers_nothing),
        cmocka_unit_test(ids_run_out),
        cmocka_unit_test(doomed_link_reads_no_more),
        cmocka_unit_test(first_reason_is_kept),
        cmocka_unit_test(unread_questions_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
