/* Remote deciders at a Unix socket; their end is played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/remote_fixture.h"

/* A socket in a directory of its own, not bound yet. */
struct place {
    char directory[40], path[60];
    int listening;
};

static void make_place(struct place *p)
{
    *p = (struct place){.directory = "/tmp/test-remote-XXXXXX", .listening = -1};
    assert_non_null(mkdtemp(p->directory));
    snprintf(p->path, sizeof p->path, "%s/decider", p->directory);
    t.o.unix_path = p->path;
}

static void listen_there(struct place *p)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    memcpy(at.sun_path, p->path, strlen(p->path));
    p->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(p->listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(p->listening, 1), 0);
}

static int accept_there(const struct place *p)
{
    double until = seconds_now() + 10;
    int fd;

    while ((fd = accept4(p->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) {
        assert_true(seconds_now() < until);
        run_for(0.01);
    }
    return fd;
}

static void leave_place(struct place *p)
{
    close(p->listening);
    unlink(p->path);
    rmdir(p->directory);
}

static void test_unix(void **state)
{
    struct place p;

    (void)state;
    make_place(&p);
    begin();
    assert_int_equal(t.away, 0); /* not from inside */
    run_until(&t.away, 2);
    assert_false(t.final);
    assert_non_null(strstr(t.why, "cannot connect to /tmp/test-remote-"));
    assert_non_null(strstr(t.why, ": No such file or directory"));
    assert_null(ask_request(0));
    listen_there(&p);
    for (unsigned round = 0; round < 2; round++) {
        unsigned away = t.away;
        int peer = accept_there(&p);
        play_hello(peer, peer);
        assert_non_null(ask_request(round));
        receive(peer);
        if (round == 0) {
            close(peer);
            run_until(&t.away, away + 1);
            assert_told(0, DECIDER_UNAVAILABLE);
            assert_null(ask_request(2));
            assert_int_equal(t.d->asks, DECIDER_REQUESTS);
        } else {
            /* The ids of a new link are its own. */
            send_allow(peer, 1);
            run_until(&t.told[1].answers, 1);
            assert_told(1, DECIDER_ALLOW);
            close(peer);
        }
    }
    leave_place(&p);
}

static void test_unix_without_hello(void **state)
{
    struct place p;

    (void)state;
    make_place(&p);
    listen_there(&p);
    t.o.hello_ms = 300;
    begin();
    int first = accept_there(&p);
    run_until(&t.away, 1);
    assert_string_equal(t.why, "no hello within 300 ms");
    receive(first);
    char byte;
    assert_int_equal(read(first, &byte, 1), 0);
    int second = accept_there(&p);
    play_hello(second, second);
    run_for(0.4); /* the time for it is not running any more */
    assert_int_equal(t.away, 1);
    close(first);
    close(second);
    leave_place(&p);
}

static void test_unix_path_refused(void **state)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

    (void)state;
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = 0;
    t.o.unix_path = path;
    assert_null(remote_new(&t.o, &t.error));
    assert_string_equal(buf_cstr(&t.error), "the path of the decider's socket is too long");
    buf_clear(&t.error);
    t.o.unix_path = "";
    assert_null(remote_new(&t.o, &t.error));
    assert_string_equal(buf_cstr(&t.error), "the path of the decider's socket is empty");
    path[sizeof path - 2] = 0;
    t.o.unix_path = path;
    begin();
    run_until(&t.away, 1);
}

#define REMOTE_TEST(f) cmocka_unit_test_setup_teardown(f, remote_setup, remote_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        REMOTE_TEST(test_unix),
        REMOTE_TEST(test_unix_without_hello),
        REMOTE_TEST(test_unix_path_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
