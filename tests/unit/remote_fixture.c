#include "tests/unit/remote_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { GUARD_S = 20 };

struct fixture t;

static void on_guard(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void on_ready(void *ctx, const struct hello *hello)
{
    assert_ptr_equal(ctx, &t);
    t.ready++;
    t.hello_asks = hello->asks;
    snprintf(t.hello_allowed, sizeof t.hello_allowed, "%s",
             hello->allowed_count != 0 ? hello->allowed[0] : "");
}

static void on_away(void *ctx, const char *why, bool final)
{
    assert_ptr_equal(ctx, &t);
    assert_false(t.final);
    t.away++;
    t.final = final;
    snprintf(t.why, sizeof t.why, "%s", why);
    ev_break(t.loop, EVBREAK_ONE); /* it may come where the loop is about to wait */
}

int remote_setup(void **state)
{
    (void)state;
    /* As core_prepare_process() does. */
    signal(SIGPIPE, SIG_IGN);
    memset(&t, 0, sizeof t);
    t.loop = ev_loop_new(EVFLAG_AUTO);
    buf_init(&t.error, 512);
    ev_timer_init(&t.guard, on_guard, 0, 0);
    t.o = (struct remote_options){.loop = t.loop,
                                  .proto = 1,
                                  .timeout_ms = 5000,
                                  .fd_in = -1,
                                  .fd_out = -1,
                                  .ready = on_ready,
                                  .away = on_away,
                                  .ctx = &t};
    return 0;
}

int remote_teardown(void **state)
{
    (void)state;
    remote_free(t.d);
    buf_free(&t.error);
    ev_loop_destroy(t.loop);
    errno = 0;
    return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : -1;
}

void begin(void)
{
    t.d = remote_new(&t.o, &t.error);
    if (t.d == NULL)
        fail_msg("%s", buf_cstr(&t.error));
}

static void start_guard(double seconds)
{
    ev_timer_stop(t.loop, &t.guard);
    ev_now_update(t.loop);
    ev_timer_set(&t.guard, seconds, 0);
    ev_timer_start(t.loop, &t.guard);
}

void run_until(const unsigned *counter, unsigned value)
{
    start_guard(GUARD_S);
    while (*counter < value && ev_is_active(&t.guard))
        ev_run(t.loop, EVRUN_ONCE);
    if (*counter < value)
        fail_msg("only %u of %u in time; ready %u, away %u: %s", *counter, value, t.ready, t.away,
                 t.why);
    ev_timer_stop(t.loop, &t.guard);
}

void run_for(double seconds)
{
    start_guard(seconds);
    while (ev_is_active(&t.guard))
        ev_run(t.loop, EVRUN_ONCE);
}

void turn(void)
{
    ev_run(t.loop, EVRUN_NOWAIT);
}

double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void note_answer(void *ctx, const struct decider_verdict *v)
{
    struct told *told = ctx;
    const char *text = v->action == DECIDER_UNAVAILABLE ? v->why : v->reason;

    told->answers++;
    told->action = v->action;
    told->status = v->status;
    told->at = seconds_now();
    snprintf(told->text, sizeof told->text, "%s", text != NULL ? text : "");
    ev_break(t.loop, EVBREAK_ONE);
}

struct decider_question *ask_request(unsigned n)
{
    static const struct decider_field host = {
        .name = "Host", .name_len = 4, .value = "ok.test", .value_len = 7};
    static const struct decider_request r = {.method = "GET",
                                             .method_len = 3,
                                             .host = "ok.test",
                                             .port = 443,
                                             .target = "/",
                                             .target_len = 1,
                                             .fields = &host,
                                             .field_count = 1};
    static const char *refused;
    struct decider_question *q = decider_ask_request(t.d, &r, &refused, note_answer, &t.told[n]);

    assert_null(refused);
    return q;
}

struct decider_question *ask_connection(unsigned n)
{
    static const struct decider_connection c = {
        .via = "connect", .host = "ok.test", .port = 443, .client = "local"};

    return decider_ask_connection(t.d, &c, note_answer, &t.told[n]);
}

void assert_told(unsigned n, enum decider_action action)
{
    assert_int_equal(t.told[n].answers, 1);
    assert_int_equal(t.told[n].action, action);
}

void send_text(int fd, const char *text)
{
    size_t n = strlen(text);
    const uint8_t head[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, text, n), n);
}

/* n bytes; the loop runs while there are none. */
static void receive_bytes(int fd, char *p, size_t n)
{
    double until = seconds_now() + GUARD_S;

    while (n != 0) {
        ssize_t got = read(fd, p, n);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
            continue;
        }
        assert_true(got < 0 && errno == EAGAIN && seconds_now() < until);
        turn();
    }
}

void send_allow(int fd, unsigned id)
{
    char text[80];

    snprintf(text, sizeof text, "{\"t\":\"verdict\",\"id\":%u,\"action\":\"allow\"}", id);
    send_text(fd, text);
}

const char *receive(int fd)
{
    static char text[65536];
    char head[4];

    receive_bytes(fd, head, sizeof head);
    size_t n = (size_t)(uint8_t)head[2] << 8 | (uint8_t)head[3];
    assert_true(head[0] == 0 && head[1] == 0 && n < sizeof text);
    receive_bytes(fd, text, n);
    text[n] = 0;
    return text;
}

void play_hello(int in, int out)
{
    unsigned before = t.ready;

    assert_string_equal(receive(in), "{\"t\":\"hello\",\"proto\":1}");
    send_text(out, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"ok.test\"],"
                   "\"deniedDomains\":[]}");
    run_until(&t.ready, before + 1);
}
