/* A link: its hello, questions and their answers, and violations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "decider/frame.h"
#include "tests/unit/link_fixture.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define HELLO_1 "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[]}"
#define HELLO_2(asks)                                   \
    "{\"t\":\"hello\",\"proto\":2,\"asks\":[" asks "]," \
    "\"allowedDomains\":[],\"deniedDomains\":[]}"
#define ALLOW(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"allow\"}"
#define DENY(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"deny\",\"status\":403}"
#define NEED_BODY(id) "{\"t\":\"verdict\",\"id\":" id ",\"action\":\"need_body\",\"max\":10}"
#define NOBODY_WAITS(id) "verdict for id " id ", which nothing waits on"

/* Hello. */

static void says_hello_first(void **state)
{
    (void)state;
    for (unsigned proto = 1; proto <= 2; proto++) {
        struct script *s = script_new(proto, 0);
        struct buf out, frame;
        char expected[32];

        snprintf(expected, sizeof expected, "{\"t\":\"hello\",\"proto\":%u}", proto);
        buf_init(&out, 1024);
        buf_init(&frame, 1024);
        assert_int_equal(link_queued(s->link), 27);
        script_drain(s, &out);
        assert_string_equal(script_next_frame(&out, &frame), expected);
        assert_null(script_next_frame(&out, &frame));
        assert_false(link_is_ready(s->link));
        assert_false(link_is_dead(s->link));
        assert_false(script_ask(s, 0));
        assert_null(s->played[0].refused);
        assert_false(script_ask_connection(s, 0));
        assert_true(link_deadline(s->link) == 0);
        buf_free(&out);
        buf_free(&frame);
        script_free(s);
    }
}

static void hello_makes_it_ready(void **state)
{
    (void)state;
    struct script *s = script_new(1, DECIDER_REQUESTS);
    script_say(s, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"a.example\",\"b.example\"],"
                  "\"deniedDomains\":[\"c.example\"]}");
    script_assert_alive(s);
    assert_int_equal(s->hellos, 1);
    assert_int_equal(s->asks, DECIDER_REQUESTS);
    assert_int_equal(s->allowed_count, 2);
    assert_int_equal(s->denied_count, 1);
    assert_string_equal(s->first_allowed, "a.example");
    assert_true(script_ask(s, 0));
    script_free(s);
}

static void asks_from_hello(struct script *s)
{
    assert_true(script_ask(s, 0));
}

static void may_be_asked_from_the_hello(void **state)
{
    (void)state;
    struct script *s = script_new(1, 0);
    s->on_hello = asks_from_hello;
    script_say(s, HELLO_1);
    script_say(s, ALLOW("1"));
    script_assert_final(s, 0, DECIDER_ALLOW);
    script_free(s);
}

static void is_asked_only_what_its_hello_says(void **state)
{
    (void)state;
    static const struct {
        unsigned proto;
        const char *hello;
        bool connections, requests;
    } cases[] = {
        {1, HELLO_1, false, true},
        {2, HELLO_2("\"connection\""), true, false},
        {2, HELLO_2("\"request\""), false, true},
        {2, HELLO_2("\"request\",\"connection\""), true, true},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_new(cases[i].proto, 0);
        script_say(s, "%s", cases[i].hello);
        script_assert_alive(s);
        assert_int_equal(script_ask_connection(s, 0), cases[i].connections);
        assert_int_equal(script_ask(s, 1), cases[i].requests);
        script_free(s);
    }
}

static void bad_hello_kills(void **state)
{
    (void)state;
    static const struct {
        unsigned proto, level;
        const char *first, *why;
    } cases[] = {
        {1, 0, HELLO_2("\"request\""), "bad hello: proto (protocol 1 is spoken)"},
        {2, 0, HELLO_1, "bad hello: proto (protocol 2 is spoken)"},
        {1, 0, ALLOW("1"), "bad hello: a field that hellos do not have (protocol 1 is spoken)"},
        {2, 0, "{\"t\":\"hello\",\"proto\":2}", "bad hello: asks (protocol 2 is spoken)"},
        {2, DECIDER_CONNECTIONS, HELLO_2("\"request\""),
         "bad hello (it does not ask for connections)"},
        {2, DECIDER_REQUESTS, HELLO_2("\"connection\""),
         "bad hello (it does not ask for requests)"},
        {2, DECIDER_REQUESTS | DECIDER_CONNECTIONS, HELLO_2("\"connection\""),
         "bad hello (it does not ask for requests)"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_new(cases[i].proto, cases[i].level);
        script_say(s, "%s", cases[i].first);
        script_assert_dead(s, cases[i].why);
        assert_int_equal(s->hellos, 0);
        script_say(s, HELLO_1);
        assert_int_equal(s->hellos, 0);
        script_free(s);
    }
    struct script *s = script_new(1, 0);
    script_say(s, "hello");
    assert_true(link_is_dead(s->link));
    assert_true(strstr(s->why, "(protocol 1 is spoken)") != NULL);
    script_free(s);
}

/* Answers. */

static void answers_carry_their_verdict(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    for (unsigned i = 0; i < 3; i++)
        assert_true(script_ask(s, i));
    script_say(s, "{\"t\":\"verdict\",\"id\":2,\"action\":\"deny\",\"status\":451,"
                  "\"reason\":\"not here\"}");
    script_assert_open(s, 0);
    script_say(s, "{\"t\":\"verdict\",\"id\":3,\"action\":\"allow\",\"setHeaders\":{\"x-a\":"
                  "[\"1\"]},\"removeHeaders\":[\"x-b\",\"x-c\"],\"cred\":\"c\","
                  "\"credential\":\"secret\"}");
    script_say(s, ALLOW("1"));

    script_assert_final(s, 1, DECIDER_DENY);
    assert_int_equal(s->played[1].status, 451);
    assert_string_equal(s->played[1].reason, "not here");
    script_assert_final(s, 2, DECIDER_ALLOW);
    assert_int_equal(s->played[2].set_count, 1);
    assert_string_equal(s->played[2].first_set, "x-a");
    assert_string_equal(s->played[2].first_value, "1");
    assert_int_equal(s->played[2].removed_count, 2);
    assert_string_equal(s->played[2].first_removed, "x-b");
    assert_string_equal(s->played[2].class, "c");
    assert_string_equal(s->played[2].credential, "secret");
    script_assert_final(s, 0, DECIDER_ALLOW);
    assert_int_equal(s->played[0].set_count, 0);
    assert_string_equal(s->played[0].credential, "(none)");
    assert_int_equal(link_pending(s->link), 0);
    assert_true(link_deadline(s->link) == 0);
    script_assert_alive(s);
    script_free(s);
}

static void connections_are_answered(void **state)
{
    (void)state;
    struct script *s = script_ready(2);
    for (unsigned i = 0; i < 3; i++)
        assert_true(script_ask_connection(s, i));
    assert_true(script_ask(s, 3));
    script_say(s, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"ttl\":60}");
    script_say(s, ALLOW("2"));
    script_say(s, DENY("3"));
    script_say(s, ALLOW("4"));
    script_assert_final(s, 0, DECIDER_ALLOW);
    assert_int_equal(s->played[0].ttl_s, 60);
    script_assert_final(s, 1, DECIDER_ALLOW);
    assert_int_equal(s->played[1].ttl_s, 0);
    script_assert_final(s, 2, DECIDER_DENY);
    script_assert_final(s, 3, DECIDER_ALLOW);
    script_assert_alive(s);
    script_free(s);
}

static void asks_three(struct script *s)
{
    for (unsigned i = 0; i < 3; i++)
        assert_true(script_ask(s, i));
}

static void say_in_pieces(struct script *s, const struct buf *all, size_t piece)
{
    for (size_t at = 0; at < buf_len(all); at += piece) {
        size_t left = buf_len(all) - at;
        script_say_bytes(s, buf_data(all) + at, left < piece ? left : piece);
    }
}

static void put_frame(struct buf *out, const char *payload)
{
    size_t begun = frame_begin(out);
    buf_puts(out, payload);
    frame_end(out, begun);
}

static void frames_arrive_in_any_pieces(void **state)
{
    (void)state;
    struct buf hello, verdicts;

    buf_init(&hello, 65536);
    buf_init(&verdicts, 65536);
    put_frame(&hello, HELLO_1);
    put_frame(&verdicts, ALLOW("2"));
    put_frame(&verdicts, DENY("1"));
    put_frame(&verdicts, NEED_BODY("3"));
    for (size_t piece = 1; piece <= buf_len(&verdicts); piece++) {
        struct script *s = script_new(1, 0);
        s->on_hello = asks_three;
        say_in_pieces(s, &hello, piece);
        say_in_pieces(s, &verdicts, piece);
        script_assert_alive(s);
        script_assert_final(s, 1, DECIDER_ALLOW);
        script_assert_final(s, 0, DECIDER_DENY);
        script_assert_open(s, 2);
        assert_int_equal(s->played[2].action, DECIDER_NEED_BODY);
        assert_int_equal(s->played[2].max, 10);
        script_free(s);
    }
    buf_free(&hello);
    buf_free(&verdicts);
}

/* What comes with the bytes that made a question be asked was not said about it. */
static void verdict_ahead_of_its_question_kills(void **state)
{
    (void)state;
    struct script *s = script_new(1, 0);
    struct buf all;

    buf_init(&all, 65536);
    put_frame(&all, HELLO_1);
    put_frame(&all, ALLOW("2"));
    s->on_hello = asks_three;
    say_in_pieces(s, &all, buf_len(&all));
    script_assert_dead(s, "verdict for id 2, which it cannot have seen");
    for (unsigned i = 0; i < 3; i++)
        script_assert_final(s, i, DECIDER_UNAVAILABLE);
    script_free(s);
    buf_free(&all);
}

/* The largest that may come, padded with blanks, in two pieces. */
static void largest_frame_is_read(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    uint8_t *frame = mem_alloc(FRAME_HEAD + FRAME_MAX);

    memset(frame, ' ', FRAME_HEAD + FRAME_MAX);
    memcpy(frame, "\0\x10\0\0", FRAME_HEAD);
    memcpy(frame + FRAME_HEAD, ALLOW("1"), strlen(ALLOW("1")));
    assert_true(script_ask(s, 0));
    script_say_bytes(s, frame, FRAME_MAX);
    script_assert_open(s, 0);
    script_say_bytes(s, frame + FRAME_MAX, FRAME_HEAD);
    script_assert_final(s, 0, DECIDER_ALLOW);
    script_assert_alive(s);
    free(frame);
    script_free(s);
}

static void questions_leave_in_order(void **state)
{
    (void)state;
    struct script *s = script_ready(2);
    struct buf out, frame;

    buf_init(&out, 65536);
    buf_init(&frame, 65536);
    assert_true(script_ask(s, 0));
    assert_true(script_ask_connection(s, 1));
    script_drain(s, &out);
    assert_true(script_ask(s, 2));
    script_drain(s, &out);
    assert_string_equal(script_next_frame(&out, &frame),
                        "{\"t\":\"req\",\"id\":1,\"method\":\"GET\",\"host\":\"api.example.com\","
                        "\"port\":443,\"path\":\"/\"}");
    assert_string_equal(script_next_frame(&out, &frame),
                        "{\"t\":\"conn\",\"id\":2,\"via\":\"socks\",\"host\":\"example.org\","
                        "\"port\":22,\"client\":\"local\"}");
    assert_non_null(strstr(script_next_frame(&out, &frame), "\"id\":3,"));
    assert_null(script_next_frame(&out, &frame));
    buf_free(&out);
    buf_free(&frame);
    script_free(s);
}

static void request_that_cannot_be_asked_uses_no_id(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    size_t n = 2 * FRAME_MAX;
    char *target = mem_alloc(n);

    memset(target, 'a', n);
    target[0] = '/';
    target[1] = '?';
    assert_false(script_ask_long(s, 0, target, n));
    assert_non_null(s->played[0].refused);
    assert_int_equal(link_queued(s->link), 0);
    assert_int_equal(link_pending(s->link), 0);
    assert_true(script_ask(s, 0));
    assert_null(s->played[0].refused);
    script_say(s, ALLOW("1"));
    script_assert_final(s, 0, DECIDER_ALLOW);
    free(target);
    script_free(s);
}

/* Violations. */

static void violation_kills_and_lets_nothing_out(void **state)
{
    (void)state;
    static const struct {
        unsigned proto;
        const char *frame, *why; /* NULL: any */
    } cases[] = {
        {1, ALLOW("3"), NOBODY_WAITS("3")},
        {1, DENY("3"), NOBODY_WAITS("3")},
        {1, NEED_BODY("3"), NOBODY_WAITS("3")},
        {1, ALLOW("9007199254740991"), NOBODY_WAITS("9007199254740991")},
        {1, ALLOW("0"), NULL},
        {1, ALLOW("-1"), NULL},
        {1, ALLOW("1.5"), NULL},
        {1, "", NULL},
        {1, "{}", NULL},
        {1, "[]", NULL},
        {1, ALLOW("1") "x", NULL},
        {1, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"id\":1}", NULL},
        {1, "{\"t\":\"verdict\",\"id\":1,\"action\":\"perhaps\"}", NULL},
        {1, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"ttl\":60}", NULL},
        {1, HELLO_1, NULL},
        {1, "{\"t\":\"body\",\"id\":1,\"data\":\"\"}", NULL},
        {1, "{\"t\":\"req\",\"id\":1}", NULL},
        {2, HELLO_2("\"request\""), NULL},
        {2, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\",\"ttl\":60}",
         "id 1: ttl for a request"},
        {2, NEED_BODY("2"), "id 2: need_body for a connection"},
        {2, "{\"t\":\"verdict\",\"id\":2,\"action\":\"allow\",\"setHeaders\":{\"x\":[\"1\"]}}",
         "id 2: header edits or a credential for a connection"},
        {2, "{\"t\":\"verdict\",\"id\":2,\"action\":\"allow\",\"removeHeaders\":[\"x\"]}",
         "id 2: header edits or a credential for a connection"},
        {2, "{\"t\":\"verdict\",\"id\":2,\"action\":\"allow\",\"cred\":\"c\",\"credential\":\"s\"}",
         "id 2: header edits or a credential for a connection"},
        {2, "{\"t\":\"verdict\",\"id\":2,\"action\":\"allow\",\"ttl\":0}", NULL},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct script *s = script_ready(cases[i].proto);
        assert_true(script_ask(s, 0));
        assert_true(cases[i].proto == 2 ? script_ask_connection(s, 1) : script_ask(s, 1));
        script_say(s, "%s", cases[i].frame);
        script_assert_dead(s, cases[i].why != NULL ? cases[i].why : s->why);
        for (unsigned q = 0; q < 2; q++) {
            script_assert_final(s, q, DECIDER_UNAVAILABLE);
            assert_string_equal(s->played[q].why, s->why);
            assert_int_equal(s->played[q].order, q + 1);
        }
        assert_false(script_ask(s, 2));
        assert_null(s->played[2].refused);
        script_say(s, ALLOW("1"));
        script_pass(s, 100);
        assert_int_equal(s->played[0].answers, 1);
        assert_int_equal(s->deaths, 1);
        script_free(s);
    }
}

static void second_verdict_kills(void **state)
{
    (void)state;
    static const char *const firsts[] = {ALLOW("1"), DENY("1")};
    static const char *const seconds[] = {ALLOW("1"), DENY("1"), NEED_BODY("1")};
    for (size_t i = 0; i < LENGTH(firsts); i++)
        for (size_t j = 0; j < LENGTH(seconds); j++) {
            struct script *s = script_ready(1);
            assert_true(script_ask(s, 0));
            assert_true(script_ask(s, 1));
            script_say(s, "%s", firsts[i]);
            script_assert_alive(s);
            script_say(s, "%s", seconds[j]);
            script_assert_dead(s, NOBODY_WAITS("1"));
            script_assert_final(s, 0, i == 0 ? DECIDER_ALLOW : DECIDER_DENY);
            script_assert_final(s, 1, DECIDER_UNAVAILABLE);
            script_free(s);
        }
}

static void oversized_frame_kills_at_its_head(void **state)
{
    (void)state;
    static const char *const heads[] = {"\0\x10\0\1", "\xff\xff\xff\xff", "HTTP"};
    for (size_t i = 0; i < LENGTH(heads); i++)
        for (size_t first = 0; first < 4; first++) {
            struct script *s = script_ready(1);
            assert_true(script_ask(s, 0));
            script_say_bytes(s, heads[i], first);
            script_assert_alive(s);
            script_say_bytes(s, heads[i] + first, 4 - first);
            script_assert_dead(s, "oversized frame");
            script_assert_final(s, 0, DECIDER_UNAVAILABLE);
            script_free(s);
        }
}

/* What follows a violation in the same bytes is not looked at. */
static void nothing_is_read_after_a_violation(void **state)
{
    (void)state;
    struct script *s = script_ready(1);
    struct buf b;

    assert_true(script_ask(s, 0));
    buf_init(&b, 4096);
    static const char *const payloads[] = {ALLOW("7"), ALLOW("1")};
    for (size_t i = 0; i < LENGTH(payloads); i++) {
        size_t begun = frame_begin(&b);
        buf_puts(&b, payloads[i]);
        frame_end(&b, begun);
    }
    script_say_bytes(s, buf_data(&b), buf_len(&b));
    script_assert_dead(s, NOBODY_WAITS("7"));
    script_assert_final(s, 0, DECIDER_UNAVAILABLE);
    buf_free(&b);
    script_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_hello_first),
        cmocka_unit_test(hello_makes_it_ready),
        cmocka_unit_test(may_be_asked_from_the_hello),
        cmocka_unit_test(is_asked_only_what_its_hello_says),
        cmocka_unit_test(bad_hello_kills),
        cmocka_unit_test(answers_carry_their_verdict),
        cmocka_unit_test(connections_are_answered),
        cmocka_unit_test(frames_arrive_in_any_pieces),
        cmocka_unit_test(verdict_ahead_of_its_question_kills),
        cmocka_unit_test(largest_frame_is_read),
        cmocka_unit_test(questions_leave_in_order),
        cmocka_unit_test(request_that_cannot_be_asked_uses_no_id),
        cmocka_unit_test(violation_kills_and_lets_nothing_out),
        cmocka_unit_test(second_verdict_kills),
        cmocka_unit_test(oversized_frame_kills_at_its_head),
        cmocka_unit_test(nothing_is_read_after_a_violation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
