/* Bytes out of a box to a proxy of somebody else's: nothing is looked at, nothing is lost. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/forwarder.h"
#include "tests/unit/core_fixture.h"

#define BYTES(s) (s), sizeof(s) - 1

enum { LARGE = 4 * 1024 * 1024 };

static struct forwarder *forwarder;
static uint16_t port; /* of its listener */

static int set_up(void **state)
{
    core_setup(state);
    core_start(NULL, core_settings("", "", ",\"proxy\":{\"limits\":{\"connections\":4}}"));
    int fd = listen_locally(&port);
    forwarder = forwarder_new(core_worker(t.core), fd, t.origin_port);
    return forwarder != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    forwarder_free(forwarder);
    return core_teardown(state);
}

static void test_bytes_as_they_are(void **state)
{
    (void)state;
    int client = connect_locally(port);
    say(client, BYTES("\5\0\377CONNECT not.looked.at"));
    int server = accept_one(t.origin);
    hear_bytes(server, BYTES("\5\0\377CONNECT not.looked.at"));
    say(server, BYTES("\0anything"));
    hear_bytes(client, BYTES("\0anything"));
    close(client);
    assert_true(hear_end(server));
    close(server);
    for (int i = 0; i < 5; i++)
        turn();
    assert_int_equal(core_worker(t.core)->client_count, 0);
    assert_string_equal(core_log(), "");
}

static void test_half_close(void **state)
{
    (void)state;
    int client = connect_locally(port);
    say(client, BYTES("question"));
    assert_int_equal(shutdown(client, SHUT_WR), 0);
    int server = accept_one(t.origin);
    hear(server, "question");
    assert_true(hear_end(server));
    say(server, BYTES("answer"));
    hear(client, "answer");
    close(server);
    assert_true(hear_end(client));
    close(client);
}

/* Faster than its reader, both ways. */
static void test_much(void **state)
{
    uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
    size_t sent = 0, got = 0;

    (void)state;
    assert_true(out != NULL && in != NULL);
    for (size_t i = 0; i < LARGE; i++)
        out[i] = (uint8_t)(i * 31 >> 3);
    int client = connect_locally(port);
    int server = accept_one(t.origin);
    for (int i = 0; got < LARGE && i < 100000; i++) {
        ssize_t n = sent < LARGE ? send(client, out + sent, LARGE - sent, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        n = recv(server, in + got, LARGE - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        turn();
    }
    assert_int_equal(got, LARGE);
    assert_memory_equal(in, out, LARGE);
    close(client);
    close(server);
    free(out);
    free(in);
}

/* Nobody there: a client sees a reset, not an empty answer. */
static void test_nobody_there(void **state)
{
    char byte;
    ssize_t n = -1;

    (void)state;
    close(t.origin);
    int client = connect_locally(port);
    say(client, BYTES("GET / HTTP/1.1\r\n\r\n"));
    for (int i = 0; i < 1000; i++) {
        turn();
        n = recv(client, &byte, 1, MSG_DONTWAIT);
        if (n >= 0 || errno != EAGAIN)
            break;
    }
    assert_int_equal(n, -1);
    assert_int_equal(errno, ECONNRESET);
    close(client);
    t.origin = listen_locally(&t.origin_port);
}

/* They count with the proxy's own clients, and give their places back. */
static void test_limit_of_connections(void **state)
{
    int clients[6], servers[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        clients[i] = connect_locally(port);
    for (int i = 0; i < 4; i++)
        servers[i] = accept_one(t.origin);
    for (int i = 0; i < 10; i++)
        turn();
    assert_int_equal(core_worker(t.core)->client_count, 4);
    assert_int_equal(accept(t.origin, NULL, NULL), -1);
    for (int i = 0; i < 4; i++) {
        close(clients[i]);
        close(servers[i]);
    }
    for (int i = 4; i < 6; i++) {
        servers[i] = accept_one(t.origin);
        close(servers[i]);
        close(clients[i]);
    }
}

/* With a connection that flows, one that is being opened, and one in the queue. */
static void test_goes_at_any_time(void **state)
{
    (void)state;
    int flowing = connect_locally(port);
    int server = accept_one(t.origin);
    int opening = connect_locally(port);
    while (core_worker(t.core)->client_count < 2)
        ev_run(t.loop, EVRUN_NOWAIT);
    int queued = connect_locally(port);
    forwarder_free(forwarder);
    forwarder = NULL;
    assert_true(hear_end(flowing));
    assert_true(hear_end(server));
    assert_true(hear_end(opening));
    assert_true(hear_end(queued));
    assert_int_equal(core_worker(t.core)->client_count, 0);
    close(flowing);
    close(server);
    close(opening);
    close(queued);
}

static void test_not_a_listener(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_null(forwarder_new(core_worker(t.core), pair[0], 1));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(close(pair[0]), 0);
    close(pair[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_as_they_are),    TEST(test_half_close),     TEST(test_much),
        TEST(test_nobody_there),         TEST(test_not_a_listener), TEST(test_goes_at_any_time),
        TEST(test_limit_of_connections),
    };
#undef TEST
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
