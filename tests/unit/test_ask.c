/* Questions to a person: which one is shown, whom an answer is for, and when none comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ev.h>

#include "base/buf.h"
#include "launcher/ask.h"

enum { CLIENTS = 8, TEXT_MAX = 1 << 20 };

/* Somebody who asks. */
struct client {
    struct decider_question *question; /* NULL: not asked, or answered */
    int answers;
    enum decider_action action;
    uint32_t ttl_s;
    uint16_t status;
    char reason[1100]; /* "-": none */
    struct client *asks_then, *forgets_then;
};

struct fixture {
    struct ev_loop *loop;
    struct decider *decider;
    struct client clients[CLIENTS];
    struct buf shown; /* since the last look */
    int begun, ended, prompts, quits;
    bool background;
};

static struct fixture f;

static bool on_begin(void *ctx)
{
    assert_ptr_equal(ctx, &f);
    if (f.background)
        return false;
    assert_int_equal(f.begun, f.ended);
    f.begun++;
    return true;
}

static void on_show(void *ctx, const char *text, size_t n)
{
    assert_ptr_equal(ctx, &f);
    assert_int_equal(f.begun, f.ended + 1);
    assert_true(n != 0 && buf_append(&f.shown, text, n));
}

static void on_prompt(void *ctx, const char *text, size_t n)
{
    on_show(ctx, text, n);
    f.prompts++;
}

static void on_quit(void *ctx)
{
    assert_ptr_equal(ctx, &f);
    for (int i = 0; i < CLIENTS; i++) /* nobody goes on by a refusal before */
        assert_true(f.clients[i].question == NULL || f.clients[i].answers == 0);
    f.quits++;
}

static void on_end(void *ctx)
{
    assert_ptr_equal(ctx, &f);
    f.ended++;
    assert_int_equal(f.begun, f.ended);
}

static void ask(struct client *c, const char *host, uint16_t port);

static void on_answer(void *ctx, const struct decider_verdict *v)
{
    struct client *c = ctx;
    c->question = NULL;
    c->answers++;
    c->action = v->action;
    c->ttl_s = v->ttl_s;
    c->status = v->status;
    snprintf(c->reason, sizeof c->reason, "%s", v->reason != NULL ? v->reason : "-");
    if (c->asks_then != NULL)
        ask(c->asks_then, "later.test", 443);
    if (c->forgets_then != NULL && c->forgets_then->question != NULL) {
        decider_forget(c->forgets_then->question);
        c->forgets_then->question = NULL;
    }
}

static void ask_as(struct client *c, const char *host, uint16_t port, const char *user)
{
    const struct decider_connection connection = {.via = "connect",
                                                  .host = host,
                                                  .port = port,
                                                  .client = "local",
                                                  .user = user,
                                                  .user_len = user != NULL ? strlen(user) : 0};
    int before = c->answers;
    c->question = decider_ask_connection(f.decider, &connection, on_answer, c);
    assert_int_equal(c->answers, before); /* never from inside */
}

static void ask(struct client *c, const char *host, uint16_t port)
{
    ask_as(c, host, port, NULL);
    assert_non_null(c->question);
}

/* Lets what is due happen. */
static void turn(void)
{
    for (int i = 0; i < 3; i++)
        ev_run(f.loop, EVRUN_NOWAIT);
}

static void type(const char *line)
{
    ask_line(f.decider, line, strlen(line));
    turn();
}

/* What was shown since the last look holds the text, or, NULL, there was nothing. */
static void assert_shown(const char *text)
{
    if (text == NULL)
        assert_string_equal(buf_cstr(&f.shown), "");
    else if (strstr(buf_cstr(&f.shown), text) == NULL)
        fail_msg("'%s' is not in '%s'", text, buf_cstr(&f.shown));
    buf_clear(&f.shown);
}

static void assert_denied(const struct client *c, const char *reason, uint32_t ttl_s)
{
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->action, DECIDER_DENY);
    assert_int_equal(c->status, 403);
    assert_string_equal(c->reason, reason);
    assert_true(c->ttl_s == ttl_s);
}

static void assert_allowed(const struct client *c, uint32_t ttl_s)
{
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->action, DECIDER_ALLOW);
    assert_true(c->ttl_s == ttl_s);
}

static int set_up_with(unsigned timeout_s)
{
    memset(&f, 0, sizeof f);
    f.loop = ev_loop_new(0);
    buf_init(&f.shown, TEXT_MAX);
    const struct ask_options options = {.loop = f.loop,
                                        .timeout_s = timeout_s,
                                        .command = "make all",
                                        .screen = {.begin = on_begin,
                                                   .show = on_show,
                                                   .prompt = on_prompt,
                                                   .end = on_end,
                                                   .ctx = &f},
                                        .quit = on_quit};
    f.decider = ask_new(&options);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return set_up_with(100);
}

static int set_up_short(void **state)
{
    (void)state;
    return set_up_with(1);
}

static int tear_down(void **state)
{
    (void)state;
    ask_free(f.decider);
    assert_int_equal(f.begun, f.ended);
    buf_free(&f.shown);
    ev_loop_destroy(f.loop);
    return 0;
}

static void test_answers(void **state)
{
    static const struct {
        const char *line, *reason; /* reason: NULL for a yes */
        uint32_t ttl_s;
    } rows[] = {
        {"o", NULL, 0},
        {"r", NULL, (uint32_t)DECIDER_TTL_RUN},
        {"d", "-", 0},
        {"d no mirrors", "no mirrors", 0},
        {"n", "-", (uint32_t)DECIDER_TTL_RUN},
        {"n no mirrors", "no mirrors", (uint32_t)DECIDER_TTL_RUN},
    };
    (void)state;

    assert_int_equal(f.decider->asks, DECIDER_CONNECTIONS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client *c = &f.clients[0];
        char host[] = "a0.test";
        *c = (struct client){0};
        host[1] = (char)('0' + i);
        ask(c, host, 443);
        assert_shown(NULL); /* not from inside the call */
        turn();
        assert_shown(host);
        type(rows[i].line);
        if (rows[i].reason == NULL)
            assert_allowed(c, rows[i].ttl_s);
        else
            assert_denied(c, rows[i].reason, rows[i].ttl_s);
    }
}

static void test_one_answer_for_all_that_are_open(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        ask(&f.clients[i], "a.test", 443);
    ask(&f.clients[4], "a.test", 80);
    turn();
    ask(&f.clients[5], "b.test", 443);
    ask(&f.clients[6], "a.test", 443); /* before the answer: it holds for this one too */
    turn();
    assert_int_equal(f.begun, 1);
    type("o");
    for (int i = 0; i < 7; i++)
        assert_int_equal(f.clients[i].answers, i < 4 || i == 6);
    assert_shown("a.test:80 ");
    ask(&f.clients[7], "a.test", 443); /* once was once */
    type("d");
    assert_denied(&f.clients[4], "-", 0);
    assert_shown("b.test:443 ");
    type("d");
    assert_shown("a.test:443 ");
    type("d");
    assert_denied(&f.clients[7], "-", 0);
}

static void test_an_answer_for_the_run_holds_for_every_user(void **state)
{
    (void)state;
    ask_as(&f.clients[0], "a.test", 443, "srt.YQ==");
    turn();
    type("n enough");
    assert_shown("a.test:443");
    ask_as(&f.clients[1], "a.test", 443, "srt.Yg==");
    turn();
    assert_denied(&f.clients[1], "enough", (uint32_t)DECIDER_TTL_RUN);
    assert_shown(NULL);
    ask_as(&f.clients[2], "a.test", 80, "srt.Yg==");
    turn();
    assert_shown("a.test:80");
    type("r");
    ask_as(&f.clients[3], "a.test", 80, NULL);
    turn();
    assert_allowed(&f.clients[3], (uint32_t)DECIDER_TTL_RUN);
    assert_int_equal(f.begun, 2);
}

static void test_what_is_no_answer_is_asked_again(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    turn();
    assert_shown("May it be reached?");
    type("");
    assert_shown("a.test:443 ");
    type("yes");
    assert_shown("a.test:443 ");
    assert_int_equal(f.clients[0].answers, 0);
    type("o ");
    assert_allowed(&f.clients[0], 0);

    ask(&f.clients[1], "b.test", 443);
    turn();
    for (int i = 0; i < ASK_TRIES; i++) {
        assert_int_equal(f.clients[1].answers, 0);
        type("allow");
    }
    assert_denied(&f.clients[1], "no clear answer was given", 0);
    type("o"); /* nobody asked */
    assert_int_equal(f.clients[1].answers, 1);
}

static void test_a_line_without_a_question_is_nothing(void **state)
{
    (void)state;
    type("r");
    ask(&f.clients[0], "a.test", 443);
    ask_line(f.decider, "r", 1); /* not shown yet */
    assert_int_equal(f.clients[0].answers, 0);
    turn();
    assert_shown("a.test:443 ");
}

static void test_forgotten(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "a.test", 443);
    ask(&f.clients[2], "b.test", 443);
    ask(&f.clients[3], "c.test", 443);
    turn();
    decider_forget(f.clients[0].question);
    turn();
    assert_int_equal(f.ended, 0); /* somebody else waits for it */
    decider_forget(f.clients[2].question);
    turn();
    assert_shown("a.test:443 ");
    decider_forget(f.clients[1].question);
    assert_shown("(no longer needed)");
    turn();
    assert_shown("c.test:443 ");
    type("o");
    assert_allowed(&f.clients[3], 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(f.clients[i].answers, 0);
    turn();
    assert_int_equal(f.begun, 2);
}

static void test_asking_and_forgetting_from_inside_an_answer(void **state)
{
    (void)state;
    f.clients[0].asks_then = &f.clients[5];
    f.clients[0].forgets_then = &f.clients[2];
    f.clients[1].forgets_then = &f.clients[4];
    for (int i = 0; i < 4; i++)
        ask(&f.clients[i], "a.test", 443);
    ask(&f.clients[4], "b.test", 443);
    turn();
    type("o");
    assert_allowed(&f.clients[0], 0);
    assert_allowed(&f.clients[1], 0);
    assert_int_equal(f.clients[2].answers, 0);
    assert_allowed(&f.clients[3], 0);
    assert_int_equal(f.clients[4].answers, 0);
    assert_shown("later.test:443 ");
    type("d");
    assert_denied(&f.clients[5], "-", 0);
}

static void test_nobody_answers(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "b.test", 443);
    turn();
    assert_shown("a.test:443 ");
    while (f.clients[0].answers == 0 || f.clients[1].answers == 0)
        ev_run(f.loop, EVRUN_ONCE);
    /* The second one's time ran while it was waiting its turn. */
    assert_denied(&f.clients[0], "nobody answered in 1 s", 0);
    assert_denied(&f.clients[1], "nobody answered in 1 s", 0);
    assert_shown("nobody answered");
    turn();
    assert_int_equal(f.begun, f.ended);
}

static void test_in_the_background(void **state)
{
    (void)state;
    f.background = true;
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "b.test", 443);
    turn();
    assert_int_equal(f.clients[0].action, DECIDER_DENY);
    assert_non_null(strstr(f.clients[0].reason, "foreground"));
    assert_int_equal(f.clients[1].action, DECIDER_DENY);
    assert_shown(NULL);
    f.background = false;
    ask(&f.clients[2], "a.test", 443);
    turn();
    assert_shown("a.test:443 ");
}

static void test_refusing_all(void **state)
{
    (void)state;
    ask_refuse_all(f.decider, NULL);
    assert_false(ask_is_shown(f.decider));
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "b.test", 443);
    turn();
    f.clients[1].asks_then = &f.clients[2];
    assert_true(ask_is_shown(f.decider));
    ask_refuse_all(f.decider, NULL);
    assert_denied(&f.clients[0], "-", 0);
    assert_denied(&f.clients[1], "-", 0);
    assert_shown("(denied)");
    turn();
    assert_shown("later.test:443 ");
    ask_refuse_all(f.decider, "gone");
    assert_denied(&f.clients[2], "gone", 0);
    assert_false(ask_is_shown(f.decider));
}

static void test_the_queue_is_bounded(void **state)
{
    static struct client many[ASK_OPEN_MAX + 1];
    (void)state;

    memset(many, 0, sizeof many);
    for (int i = 0; i < ASK_OPEN_MAX; i++)
        ask(&many[i], "a.test", 443);
    ask(&many[ASK_OPEN_MAX], "a.test", 443);
    ask(&f.clients[0], "a.test", 443);
    decider_forget(f.clients[0].question);
    turn();
    assert_denied(&many[ASK_OPEN_MAX], "too many questions are open", 0);
    assert_int_equal(f.clients[0].answers, 0);
    assert_shown("waiting: 1000 connections, 1000 of them for this answer");
    type("d");
    for (int i = 0; i < ASK_OPEN_MAX; i++)
        assert_denied(&many[i], "-", 0);
    memset(&many[ASK_OPEN_MAX], 0, sizeof many[0]);
    ask(&many[ASK_OPEN_MAX], "a.test", 443);
    turn();
    type("o");
    assert_allowed(&many[ASK_OPEN_MAX], 0);
}

static void test_quitting(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "b.test", 443);
    turn();
    assert_shown("asked by: make all\n");
    f.clients[1].asks_then = &f.clients[2];
    type("q or not");
    assert_int_equal(f.quits, 0);
    type("q");
    assert_int_equal(f.quits, 1);
    for (int i = 0; i < 3; i++)
        assert_denied(&f.clients[i], "the run was ended at a question", 0);
    assert_int_equal(f.begun, 1);
    assert_int_equal(f.ended, 1);
    ask(&f.clients[3], "a.test", 443); /* nobody is asked any more */
    ask(&f.clients[4], "a.test", 443);
    ask_stop(f.decider);
    turn();
    assert_int_equal(f.clients[3].answers, 0);
}

static void test_one_prompt_for_each_try(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    turn();
    assert_int_equal(f.prompts, 1);
    type("what");
    assert_int_equal(f.prompts, 2);
    assert_shown("a.test:443 (connect) - o, r, d, n or q? ");
    decider_forget(f.clients[0].question);
    assert_int_equal(f.prompts, 2);
}

static void test_stopped(void **state)
{
    (void)state;
    ask(&f.clients[0], "a.test", 443);
    ask(&f.clients[1], "b.test", 443);
    turn();
    ask_stop(f.decider);
    assert_int_equal(f.ended, 1);
    ask_as(&f.clients[2], "c.test", 443, NULL);
    assert_null(f.clients[2].question);
    decider_forget(f.clients[0].question);
    turn();
    type("o");
    assert_int_equal(f.begun, 1);
    assert_int_equal(f.clients[1].answers, 0);
}

static void test_requests_are_not_asked_about(void **state)
{
    const struct decider_request request = {.method = "GET",
                                            .method_len = 3,
                                            .host = "a.test",
                                            .port = 443,
                                            .target = "/",
                                            .target_len = 1};
    const char *refused = "x";
    (void)state;

    assert_null(decider_ask_request(f.decider, &request, &refused, on_answer, &f.clients[0]));
    assert_null(refused);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_answers),
        TEST(test_one_answer_for_all_that_are_open),
        TEST(test_an_answer_for_the_run_holds_for_every_user),
        TEST(test_what_is_no_answer_is_asked_again),
        TEST(test_a_line_without_a_question_is_nothing),
        TEST(test_forgotten),
        TEST(test_asking_and_forgetting_from_inside_an_answer),
        cmocka_unit_test_setup_teardown(test_nobody_answers, set_up_short, tear_down),
        TEST(test_in_the_background),
        TEST(test_refusing_all),
        TEST(test_the_queue_is_bounded),
        TEST(test_quitting),
        TEST(test_one_prompt_for_each_try),
        TEST(test_stopped),
        TEST(test_requests_are_not_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
