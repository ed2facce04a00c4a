/* Remote deciders over inherited descriptors; their end is played here. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/remote_fixture.h"

/* The other end of the decider's socket, which is up. */
static int begin_on_socket(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    t.o.fd_in = t.o.fd_out = pair[0];
    begin();
    return pair[1];
}

/* The same on pipes: in is what the decider reads. */
static void begin_on_pipes(int flags, int *in, int *out)
{
    int there[2], back[2];

    assert_int_equal(pipe2(there, O_CLOEXEC | flags), 0);
    assert_int_equal(pipe2(back, O_CLOEXEC), 0);
    assert_int_equal(fcntl(there[0], F_SETFL, O_NONBLOCK | flags), 0);
    t.o.fd_in = back[0];
    t.o.fd_out = there[1];
    *in = there[0];
    *out = back[1];
    begin();
}

static void test_socket(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    assert_int_equal(t.ready, 0);
    assert_null(ask_request(0));
    play_hello(peer, peer);
    assert_int_equal(t.d->asks, DECIDER_REQUESTS);
    assert_string_equal(t.hello_allowed, "ok.test");
    assert_non_null(ask_request(0));
    assert_null(ask_connection(1)); /* not what it asked for */
    assert_string_equal(
        receive(peer),
        "{\"t\":\"req\",\"id\":1,\"method\":\"GET\",\"host\":\"ok.test\",\"port\":443,"
        "\"hostHeader\":\"ok.test\",\"path\":\"/\"}");
    send_allow(peer, 1);
    run_until(&t.told[0].answers, 1);
    assert_told(0, DECIDER_ALLOW);
    assert_int_equal(t.told[1].answers, 0);
    assert_int_equal(t.away, 0);
    close(peer);
}

static void test_pipes(void **state)
{
    int in, out;

    (void)state;
    begin_on_pipes(0, &in, &out);
    assert_int_equal(fcntl(t.o.fd_in, F_GETFD) & fcntl(t.o.fd_out, F_GETFD), FD_CLOEXEC);
    assert_true((fcntl(t.o.fd_in, F_GETFL) & fcntl(t.o.fd_out, F_GETFL) & O_NONBLOCK) != 0);
    play_hello(in, out);
    for (unsigned i = 0; i < 3; i++) {
        assert_non_null(ask_request(i));
        receive(in);
        send_allow(out, i + 1);
        run_until(&t.told[i].answers, 1);
        assert_told(i, DECIDER_ALLOW);
    }
    close(in);
    close(out);
}

static void test_two_sockets(void **state)
{
    int there[2], back[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, there), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, back), 0);
    assert_int_equal(fcntl(there[1], F_SETFL, O_NONBLOCK), 0);
    t.o.fd_out = there[0];
    t.o.fd_in = back[0];
    begin();
    play_hello(there[1], back[1]);
    close(there[1]);
    close(back[1]);
}

static void test_level(void **state)
{
    int peer;

    (void)state;
    t.o.proto = 2;
    t.o.level = DECIDER_CONNECTIONS;
    peer = begin_on_socket();
    assert_int_equal(t.d->asks, DECIDER_CONNECTIONS);
    assert_string_equal(receive(peer), "{\"t\":\"hello\",\"proto\":2}");
    send_text(peer, "{\"t\":\"hello\",\"proto\":2,\"asks\":[\"connection\",\"request\"],"
                    "\"allowedDomains\":[],\"deniedDomains\":[]}");
    run_until(&t.ready, 1);
    assert_int_equal(t.d->asks, DECIDER_CONNECTIONS);
    assert_int_equal(t.hello_asks, DECIDER_CONNECTIONS | DECIDER_REQUESTS);
    assert_non_null(ask_connection(0));
    assert_string_equal(receive(peer), "{\"t\":\"conn\",\"id\":1,\"via\":\"connect\",\"host\":"
                                       "\"ok.test\",\"port\":443,\"client\":\"local\"}");
    close(peer);
}

static void test_level_not_met(void **state)
{
    int peer;

    (void)state;
    t.o.proto = 2;
    t.o.level = DECIDER_REQUESTS;
    peer = begin_on_socket();
    receive(peer);
    send_text(peer, "{\"t\":\"hello\",\"proto\":2,\"asks\":[\"connection\"],"
                    "\"allowedDomains\":[],\"deniedDomains\":[]}");
    run_until(&t.away, 1);
    assert_int_equal(t.ready, 0);
    assert_true(t.final);
    close(peer);
}

static void assert_refused(int in, int out, const char *what)
{
    t.o.fd_in = in;
    t.o.fd_out = out;
    t.d = remote_new(&t.o, &t.error);
    assert_null(t.d);
    assert_non_null(strstr(buf_cstr(&t.error), what));
    buf_clear(&t.error);
}

static void test_descriptors_refused(void **state)
{
    char path[] = "/tmp/test-remote-XXXXXX";
    int ends[2], closed[2], file = mkostemp(path, O_CLOEXEC);
    int datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)state;
    assert_true(file >= 0 && datagrams >= 0 && null >= 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(closed, O_CLOEXEC), 0);
    close(closed[0]);
    close(closed[1]);
    assert_refused(closed[0], closed[0], "Bad file descriptor");
    assert_refused(ends[0], closed[0], "Bad file descriptor");
    assert_refused(file, file, "neither a stream socket nor a pipe");
    assert_refused(ends[0], file, "neither a stream socket nor a pipe");
    assert_refused(null, null, "neither a stream socket nor a pipe");
    assert_refused(datagrams, datagrams, "not a stream socket");
    assert_refused(listening, listening, "a listening socket");
    assert_refused(ends[1], ends[0], "cannot be read from");
    assert_refused(ends[0], ends[0], "a pipe, which has one direction only");
    int also_reading = dup(ends[0]);
    assert_refused(ends[0], also_reading, "cannot be written to");
    /* They stay the caller's. */
    assert_int_equal(close(also_reading) | close(ends[0]) | close(ends[1]), 0);
    close(datagrams);
    close(listening);
    close(null);
    close(file);
    unlink(path);
}

static void test_end_of_stream(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(ask_request(i));
    for (unsigned i = 0; i < 3; i++)
        receive(peer);
    close(peer);
    run_until(&t.away, 1);
    for (unsigned i = 0; i < 3; i++)
        assert_told(i, DECIDER_UNAVAILABLE);
    assert_true(t.final);
    assert_string_equal(t.why, "its stream ended");
    assert_string_equal(t.told[0].text, t.why);
    assert_null(ask_request(3));
    assert_int_equal(t.d->asks, DECIDER_REQUESTS);
    /* And for ever. */
    run_for(0.3);
    assert_int_equal(t.away, 1);
}

static void test_end_before_hello(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    close(peer);
    run_until(&t.away, 1);
    assert_true(t.final);
    assert_int_equal(t.ready, 0);
}

static void test_end_inside_frame(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    assert_non_null(ask_request(0));
    receive(peer);
    assert_int_equal(write(peer, "\0\0\0\50{\"t\":\"verdict\",\"id\":1,\"act", 27), 27);
    turn();
    assert_int_equal(t.told[0].answers, 0);
    close(peer);
    run_until(&t.away, 1);
    assert_told(0, DECIDER_UNAVAILABLE);
}

/* It still could say something, but hears no more. */
static void test_write_error(void **state)
{
    int in, out;

    (void)state;
    begin_on_pipes(0, &in, &out);
    play_hello(in, out);
    close(in);
    turn();
    assert_int_equal(t.away, 0);
    assert_non_null(ask_request(0));
    run_until(&t.away, 1);
    assert_told(0, DECIDER_UNAVAILABLE);
    assert_true(t.final);
    assert_string_equal(t.why, "writing to it failed: Broken pipe");
    close(out);
}

static void test_violation(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    assert_non_null(ask_request(0));
    receive(peer);
    send_text(peer, "{\"t\":\"verdict\",\"id\":1,\"action\":null}");
    run_until(&t.away, 1);
    assert_told(0, DECIDER_UNAVAILABLE);
    assert_string_equal(t.told[0].text, t.why);
    /* The stream is ours no more. */
    char byte;
    assert_int_equal(read(peer, &byte, 1), 0);
    close(peer);
}

static void test_verdict_timeout(void **state)
{
    int peer;

    (void)state;
    t.o.timeout_ms = 100;
    peer = begin_on_socket();
    play_hello(peer, peer);
    double first = seconds_now();
    assert_non_null(ask_request(0));
    run_for(0.06);
    double second = seconds_now();
    assert_non_null(ask_request(1));
    run_until(&t.told[0].answers, 1);
    run_until(&t.told[1].answers, 1);
    assert_told(0, DECIDER_UNAVAILABLE);
    assert_told(1, DECIDER_UNAVAILABLE);
    assert_true(t.told[0].at - first >= 0.1 && t.told[0].at - first < 2);
    assert_true(t.told[1].at - second >= 0.1 && t.told[1].at - second < 2);
    /* Late is not wrong, and the next question has all of its time. */
    send_allow(peer, 1);
    run_for(0.05);
    double third = seconds_now();
    assert_non_null(ask_request(2));
    run_until(&t.told[2].answers, 1);
    assert_true(t.told[2].at - third >= 0.1);
    assert_int_equal(t.away, 0);
    assert_int_equal(t.told[0].answers, 1);
    close(peer);
}

/* A pipe in packet mode shows where writes begin and end. */
static void test_one_turn_is_one_write(void **state)
{
    enum { QUESTIONS = 40 };
    int in, out;
    char packet[8192];

    (void)state;
    begin_on_pipes(O_DIRECT, &in, &out);
    turn();
    assert_true(read(in, packet, sizeof packet) > 4);
    send_text(out, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"ok.test\"],"
                   "\"deniedDomains\":[]}");
    run_until(&t.ready, 1);
    for (unsigned i = 0; i < QUESTIONS; i++)
        assert_non_null(ask_request(i));
    turn();
    /* The kernel cuts a packet at PIPE_BUF. */
    int packets = 0, bytes = 0;
    for (ssize_t n; (n = read(in, packet, sizeof packet)) > 0; packets++)
        bytes += (int)n;
    assert_true(bytes > QUESTIONS * 80);
    assert_int_equal(packets, (bytes + 4095) / 4096);
    close(in);
    close(out);
}

/* What is more than a share waits for the next turn. */
static void test_talkative(void **state)
{
    enum { SIZE = 500000 };
    int in, out, left = 0;
    char *text = malloc(SIZE + 1);

    (void)state;
    assert_non_null(text);
    begin_on_pipes(0, &in, &out);
    assert_true(fcntl(out, F_SETPIPE_SZ, 1 << 20) >= SIZE);
    play_hello(in, out);
    assert_non_null(ask_request(0));
    receive(in);
    int n = snprintf(text, SIZE, "{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\"}");
    memset(text + n, ' ', SIZE - (size_t)n);
    text[SIZE] = 0;
    send_text(out, text);
    for (int took = 0; took < SIZE + 4 - 65536; took += 65536) {
        turn();
        assert_int_equal(ioctl(t.o.fd_in, FIONREAD, &left), 0);
        assert_int_equal(left, SIZE + 4 - took - 65536);
        assert_int_equal(t.told[0].answers, 0);
    }
    turn();
    assert_told(0, DECIDER_ALLOW);
    free(text);
    close(in);
    close(out);
}

/* Questions pile up while it does not read, and all are answered once it does. */
static void test_pile(void **state)
{
    enum { QUESTIONS = 4000 };
    int in, out;

    (void)state;
    t.o.timeout_ms = 600000;
    begin_on_pipes(0, &in, &out);
    play_hello(in, out);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        assert_non_null(ask_request(i));
        if (i % 100 == 0)
            turn();
    }
    run_for(0.02);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        char id[24];
        snprintf(id, sizeof id, "\"id\":%u,", i + 1);
        assert_non_null(strstr(receive(in), id));
        send_allow(out, i + 1);
        if (i % 100 == 0)
            turn();
    }
    run_until(&t.told[QUESTIONS - 1].answers, 1);
    for (unsigned i = 0; i < QUESTIONS; i++)
        assert_told(i, DECIDER_ALLOW);
    assert_int_equal(t.away, 0);
    close(in);
    close(out);
}

static struct decider_question *ask_large(unsigned n)
{
    static char value[60000];
    static const struct decider_field fields[] = {
        {.name = "X", .name_len = 1, .value = value, .value_len = sizeof value}};
    static const struct decider_request r = {.method = "GET",
                                             .method_len = 3,
                                             .host = "ok.test",
                                             .port = 443,
                                             .target = "/",
                                             .target_len = 1,
                                             .fields = fields,
                                             .field_count = 1};
    static const char *refused;

    memset(value, 'v', sizeof value);
    return decider_ask_request(t.d, &r, &refused, note_answer, &t.told[n]);
}

/* One that never reads is given up in the end. */
static void test_not_reading(void **state)
{
    int peer;
    unsigned asked = 0;

    (void)state;
    t.o.timeout_ms = 600000;
    peer = begin_on_socket();
    play_hello(peer, peer);
    while (asked < ANSWERS_MAX && ask_large(asked) != NULL) {
        asked++;
        turn();
    }
    assert_in_range(asked, 122683392 / 61000, 122683392 / 60000 + 8);
    assert_int_equal(t.told[0].answers, 0);
    run_until(&t.away, 1);
    for (unsigned i = 0; i < asked; i++)
        assert_told(i, DECIDER_UNAVAILABLE);
    assert_non_null(strstr(t.why, "not reading: "));
    close(peer);
}

static void test_free_with_open_questions(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    for (unsigned i = 0; i < 1000; i++)
        assert_non_null(ask_request(i));
    turn();
    remote_free(t.d);
    t.d = NULL;
    run_for(0.02);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(t.told[i].answers, 0);
    assert_int_equal(t.away, 0);
    close(peer);
}

static void test_forgotten_question(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    struct decider_question *q = ask_request(0);
    assert_non_null(q);
    assert_ptr_equal(q->decider, t.d);
    receive(peer);
    decider_forget(q);
    send_allow(peer, 1);
    assert_non_null(ask_request(1));
    receive(peer);
    send_allow(peer, 2);
    run_until(&t.told[1].answers, 1);
    assert_int_equal(t.told[0].answers, 0);
    assert_int_equal(t.away, 0);
    close(peer);
}

static void test_body(void **state)
{
    int peer = begin_on_socket();

    (void)state;
    play_hello(peer, peer);
    struct decider_question *q = ask_request(0);
    receive(peer);
    send_text(peer, "{\"t\":\"verdict\",\"id\":1,\"action\":\"need_body\",\"max\":10}");
    run_until(&t.told[0].answers, 1);
    assert_int_equal(t.told[0].action, DECIDER_NEED_BODY);
    assert_true(decider_hold(q, 5));
    struct decider_body *body = decider_body_new(10);
    assert_true(buf_puts(&body->bytes, "hello"));
    decider_give_body(q, body, false);
    decider_body_unref(body);
    assert_string_equal(receive(peer), "{\"t\":\"body\",\"id\":1,\"data\":\"aGVsbG8=\"}");
    send_allow(peer, 1);
    run_until(&t.told[0].answers, 2);
    assert_int_equal(t.told[0].action, DECIDER_ALLOW);
    close(peer);
}

#define REMOTE_TEST(f) cmocka_unit_test_setup_teardown(f, remote_setup, remote_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        REMOTE_TEST(test_socket),
        REMOTE_TEST(test_pipes),
        REMOTE_TEST(test_two_sockets),
        REMOTE_TEST(test_level),
        REMOTE_TEST(test_level_not_met),
        REMOTE_TEST(test_descriptors_refused),
        REMOTE_TEST(test_end_of_stream),
        REMOTE_TEST(test_end_before_hello),
        REMOTE_TEST(test_end_inside_frame),
        REMOTE_TEST(test_write_error),
        REMOTE_TEST(test_violation),
        REMOTE_TEST(test_verdict_timeout),
        REMOTE_TEST(test_one_turn_is_one_write),
        REMOTE_TEST(test_talkative),
        REMOTE_TEST(test_pile),
        REMOTE_TEST(test_not_reading),
        REMOTE_TEST(test_free_with_open_questions),
        REMOTE_TEST(test_forgotten_question),
        REMOTE_TEST(test_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
