/* The proxy as a part: it can go at any time, and its settings can change while it serves. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text.h"
#include "tests/unit/core_fixture.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define BYTES(s) (s), sizeof(s) - 1

enum { CLIENTS_MAX = 16 };

/* A request line to the origin and its Host field. */
static void request(int fd, const char *method, const char *scheme, const char *more)
{
    char text[512];
    int n =
        snprintf(text, sizeof text, "%s %s127.0.0.1:%u%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n",
                 method, scheme, (unsigned)t.origin_port, scheme[0] != '\0' ? "/" : "",
                 (unsigned)t.origin_port, more);
    say(fd, text, (size_t)n);
}

/* A SOCKS request to the origin. */
static void socks_request(int fd)
{
    uint8_t bytes[] = {
        5, 1, 0, 1, 127, 0, 0, 1, (uint8_t)(t.origin_port >> 8), (uint8_t)t.origin_port};
    say(fd, bytes, sizeof bytes);
}

/* An established CONNECT tunnel; the origin's end goes to *origin. */
static int tunnel(int *origin)
{
    int fd = connect_locally(t.port);
    request(fd, "CONNECT", "", "");
    hear(fd, "200 Connection Established\r\n\r\n");
    *origin = accept_one(t.origin);
    return fd;
}

/* Clients in every state a connection can have; how many. */
static size_t fill(int clients[CLIENTS_MAX], int origins[CLIENTS_MAX], size_t *origin_count)
{
    size_t n = 0, m = 0;

    clients[n++] = connect_locally(t.port); /* silent */
    clients[n] = connect_locally(t.port);
    say(clients[n++], BYTES("GET http://ha")); /* half a head */
    clients[n] = connect_locally(t.port);
    say(clients[n++], BYTES("\5")); /* half a greeting */
    clients[n++] = tunnel(&origins[m++]);
    int splicing = tunnel(&origins[m]);
    say(origins[m++], BYTES("not read by anybody"));
    clients[n++] = splicing;

    clients[n] = connect_locally(t.port); /* an answer is awaited */
    request(clients[n++], "GET", "http://", "");
    origins[m] = accept_one(t.origin);
    hear(origins[m++], "\r\n\r\n");
    clients[n] = connect_locally(t.port); /* half an answer is there, half an upload */
    request(clients[n++], "POST", "http://", "Content-Length: 10\r\n");
    origins[m] = accept_one(t.origin);
    hear(origins[m], "\r\n\r\n");
    say(origins[m++], BYTES("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
    clients[n] = connect_locally(t.port); /* kept, and an idle connection to the origin */
    request(clients[n++], "GET", "http://", "");
    origins[m] = accept_one(t.origin);
    hear(origins[m], "\r\n\r\n");
    say(origins[m++], BYTES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
    hear(clients[n - 1], "\r\n\r\nhi");
    clients[n] = connect_locally(t.port); /* refused, and not gone yet */
    say(clients[n++], BYTES("CONNECT no.test:443 HTTP/1.1\r\n\r\n"));
    clients[n] = connect_locally(t.port); /* a dial is under way */
    say(clients[n++], BYTES("CONNECT slow.test:443 HTTP/1.1\r\n\r\n"));
    clients[n] = connect_locally(t.port);
    say(clients[n++], BYTES("\5\1\0\5\1\0\3\11slow.test\1\273"));
    for (int i = 0; i < 10; i++)
        turn();
    *origin_count = m;
    return n;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

/* slow.test is asked of a server that never answers. */
static struct snapshot *with_a_slow_name(void)
{
    char text[160];
    struct snapshot *s;
    snprintf(text, sizeof text, ",\"proxy\":{\"dns\":{\"servers\":[\"192.0.2.1\"]}}");
    s = core_settings("", "", text);
    struct policy *p = policy_new();
    char origin[40];
    snprintf(origin, sizeof origin, "127.0.0.1:%u", (unsigned)t.origin_port);
    policy_allow(p, origin);
    policy_allow(p, "slow.test");
    policy_seal(p);
    policy_free(s->policy);
    s->policy = p;
    return s;
}

static void test_goes_at_any_time(void **state)
{
    int clients[CLIENTS_MAX], origins[CLIENTS_MAX];
    size_t m;

    (void)state;
    core_start(NULL, with_a_slow_name());
    size_t n = fill(clients, origins, &m);
    assert_int_equal(core_worker(t.core)->client_count, n);
    core_stop();
    char rest[4096];
    for (size_t i = 0; i < n; i++) {
        while (read(clients[i], rest, sizeof rest) > 0)
            ;
        assert_true(hear_end(clients[i]));
    }
    for (size_t i = 0; i < m; i++)
        assert_true(hear_end(origins[i]));
    assert_non_null(strstr(core_log(), "\"via\":\"connect\""));
    assert_non_null(strstr(core_log(), "\"close\":\"shutdown\""));
    close_all(clients, n);
    close_all(origins, m);
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    core_stop();
    ev_break(loop, EVBREAK_ALL);
}

/* Between two turns of the loop, events of its connections pending. */
static void test_goes_from_inside_the_loop(void **state)
{
    int clients[CLIENTS_MAX], origins[CLIENTS_MAX];
    size_t m;
    ev_timer timer;

    (void)state;
    core_start(NULL, with_a_slow_name());
    size_t n = fill(clients, origins, &m);
    for (size_t i = 0; i < m; i++)
        say(origins[i], BYTES("more"));
    close_all(clients, n / 2);
    ev_timer_init(&timer, on_time, 0., 0.);
    ev_set_priority(&timer, EV_MAXPRI);
    ev_timer_start(t.loop, &timer);
    ev_run(t.loop, 0);
    assert_null(t.core);
    turn();
    close_all(clients + n / 2, n - n / 2);
    close_all(origins, m);
}

static void test_goes_unused(void **state)
{
    (void)state;
    core_start(NULL, core_settings("", "", ""));
    core_stop();
    core_free(NULL);
}

static void test_cannot_start(void **state)
{
    struct buf error;
    struct core_options o = {.loop = t.loop, .log = "/nonexistent/log"};

    (void)state;
    buf_init(&error, 1024);
    o.snapshot = core_settings("", "", "");
    assert_null(core_new(&o, &error));
    assert_string_equal(buf_cstr(&error),
                        "decision log /nonexistent/log: No such file or directory");
    buf_clear(&error);
    o.log = NULL;
    o.snapshot = core_settings("", "", ",\"proxy\":{\"dns\":{\"servers\":[\"192.0.2.1:53\"]}}");
    free(o.snapshot->dns_servers[0]);
    o.snapshot->dns_servers[0] = strdup("nowhere");
    assert_null(core_new(&o, &error));
    assert_true(buf_len(&error) != 0);
    buf_free(&error);
}

static void test_new_settings(void **state)
{
    char origin[40];
    int end;

    (void)state;
    core_start(NULL, core_settings("", "", ""));
    int old = tunnel(&end);
    int kept = connect_locally(t.port);
    request(kept, "GET", "http://", "");
    int server = accept_one(t.origin);
    hear(server, "\r\n\r\n");
    int late = connect_locally(t.port);
    request(late, "GET", "http://", "");
    int late_server = accept_one(t.origin);
    hear(late_server, "\r\n\r\n");

    snprintf(origin, sizeof origin, "\"127.0.0.1:%u\"", (unsigned)t.origin_port);
    core_replace_snapshot(t.core, core_settings(origin, ",\"requireHostMatch\":true", ""));
    assert_false(core_worker(t.core)->snapshot->require_host_match);

    /* What is under way goes on; the next request of the same connection is judged anew. */
    say(end, BYTES("still here"));
    hear(old, "still here");
    say(server, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
    hear(kept, "\r\n\r\nhi");
    request(kept, "GET", "http://", "");
    hear(kept, "403 Forbidden");
    int fresh = connect_locally(t.port);
    request(fresh, "CONNECT", "", "");
    hear(fresh, "403 host is on the deny list");
    assert_int_equal(violation_store_total(t.violations), 2);

    core_replace_snapshot(t.core, core_settings("", "", ""));
    say(late_server, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho"));
    hear(late, "\r\n\r\nho");
    int again_end;
    int again = tunnel(&again_end);
    close_all((int[]){old, end, kept, server, late, late_server, fresh, again, again_end}, 9);
}

static const struct core_options in_a_box = {
    .token = TOKEN, .token_optional = true, .attribution = "ls"};

static void test_clients_without_credentials(void **state)
{
    (void)state;
    core_start(&in_a_box, core_settings("", "", ""));
    int end;
    close(tunnel(&end));
    close(end);

    int fd = connect_locally(t.port);
    say(fd, BYTES("\5\1\0"));
    hear_bytes(fd, BYTES("\5\0"));
    socks_request(fd);
    hear_bytes(fd, BYTES("\5\0\0\1\0\0\0\0\0\0"));
    close(accept_one(t.origin));
    close(fd);

    fd = connect_locally(t.port);
    say(fd, BYTES("\5\2\0\2"));
    hear_bytes(fd, BYTES("\5\2"));
    say(fd, BYTES("\1\4root\0"));
    hear_bytes(fd, BYTES("\1\0"));
    socks_request(fd);
    hear_bytes(fd, BYTES("\5\0\0\1\0\0\0\0\0\0"));
    close(accept_one(t.origin));
    close(fd);

    for (int i = 0; i < 5; i++)
        turn();
    core_stop();
    const char *log = core_log();
    for (int i = 0; i < 3; i++) {
        log = strstr(log, "\"user\":\"ls\"");
        assert_non_null(log);
        log++;
    }
}

static void test_wrong_credentials(void **state)
{
    (void)state;
    core_start(&in_a_box, core_settings("", "", ""));
    int fd = connect_locally(t.port);
    request(fd, "GET", "http://", "Proxy-Authorization: Basic c3J0Ondyb25n\r\n");
    hear(fd, "407 Proxy Authentication Required");
    request(fd, "CONNECT", "", "Proxy-Authorization: Bearer x\r\n");
    hear(fd, "407 Proxy Authentication Required");
    close(fd);
    fd = connect_locally(t.port);
    say(fd, BYTES("\5\1\2"));
    hear_bytes(fd, BYTES("\5\2"));
    say(fd, BYTES("\1\3srt\5wrong"));
    hear_bytes(fd, BYTES("\1\1"));
    assert_true(hear_end(fd));
    close(fd);
    assert_int_equal(violation_store_total(t.violations), 0);
}

/* A client without a token has no shorter time in a box, and a key it presents counts. */
static void test_in_a_box(void **state)
{
    (void)state;
    core_start(&in_a_box,
               core_settings("", "", ",\"proxy\":{\"timeouts\":{\"socksUnauthenticatedMs\":10}}"));
    int fd = connect_locally(t.port);
    say(fd, BYTES("\5\1\0"));
    hear_bytes(fd, BYTES("\5\0"));
    for (int i = 0; i < 10; i++)
        turn();
    socks_request(fd);
    hear_bytes(fd, BYTES("\5\0\0\1"));
    close(accept_one(t.origin));
    close(fd);

    fd = connect_locally(t.port);
    struct buf line;
    buf_init(&line, 1024);
    buf_puts(&line, "Proxy-Authorization: Basic ");
    text_base64(&line, BYTES("srt.bWFrZQ==:" TOKEN));
    buf_puts(&line, "\r\n");
    request(fd, "CONNECT", "", buf_cstr(&line));
    buf_free(&line);
    hear(fd, "200 Connection Established");
    close(accept_one(t.origin));
    close(fd);
    for (int i = 0; i < 5; i++)
        turn();
    core_stop();
    assert_non_null(strstr(core_log(), "\"user\":\"make\""));
}

/* At the limit of connections accepting rests, and goes on when one ends. */
static void test_limit_of_connections(void **state)
{
    int end;

    (void)state;
    core_start(NULL, core_settings("", "", ",\"proxy\":{\"limits\":{\"connections\":1}}"));
    int first = tunnel(&end);
    int second = connect_locally(t.port);
    request(second, "CONNECT", "", "");
    for (int i = 0; i < 10; i++)
        turn();
    assert_int_equal(core_worker(t.core)->client_count, 1);
    close(first);
    close(end);
    hear(second, "200 Connection Established");
    close(accept_one(t.origin));
    close(second);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_goes_at_any_time),     TEST(test_goes_from_inside_the_loop),
        TEST(test_goes_unused),          TEST(test_cannot_start),
        TEST(test_new_settings),         TEST(test_clients_without_credentials),
        TEST(test_wrong_credentials),    TEST(test_in_a_box),
        TEST(test_limit_of_connections),
    };
#undef TEST
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
