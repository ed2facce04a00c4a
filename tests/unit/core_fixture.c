#include "tests/unit/core_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/settings/load.h"

enum { PATIENCE = 2000, TURN_MS = 5 };

struct core_fixture t;

static struct sockaddr_in local(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

int listen_locally(uint16_t *port)
{
    struct sockaddr_in at = local(0);
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

int connect_locally(uint16_t port)
{
    struct sockaddr_in at = local(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

int core_setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    t.loop = ev_loop_new(EVFLAG_AUTO);
    t.violations = violation_store_new();
    t.origin = listen_locally(&t.origin_port);
    snprintf(t.directory, sizeof t.directory, "/tmp/test_core.XXXXXX");
    if (mkdtemp(t.directory) == NULL)
        return -1;
    snprintf(t.log, sizeof t.log, "%s/log", t.directory);
    return 0;
}

void core_stop(void)
{
    if (t.acceptor != NULL)
        acceptor_free(t.acceptor);
    t.acceptor = NULL;
    core_free(t.core);
    t.core = NULL;
}

int core_teardown(void **state)
{
    (void)state;
    core_stop();
    violation_store_free(t.violations);
    ev_loop_destroy(t.loop);
    close(t.origin);
    unlink(t.log);
    return rmdir(t.directory);
}

struct snapshot *core_settings(const char *denied, const char *network, const char *rest)
{
    struct buf text, warnings, error;
    buf_init(&text, 4096);
    buf_init(&warnings, 4096);
    buf_init(&error, 4096);
    buf_printf(&text,
               "{\"network\":{\"allowedDomains\":[\"127.0.0.1:%u\"],\"deniedDomains\":[%s]%s}%s}",
               (unsigned)t.origin_port, denied, network, rest);
    json_t *document = settings_parse(buf_chars(&text), buf_len(&text), &error);
    assert_non_null(document);
    struct snapshot *s = snapshot_build(document, SETTINGS_GATEWAY, false, &warnings, &error);
    assert_non_null(s);
    json_decref(document);
    buf_free(&text);
    buf_free(&warnings);
    buf_free(&error);
    return s;
}

void core_start(const struct core_options *given, struct snapshot *snapshot)
{
    struct core_options o = given != NULL ? *given : (struct core_options){0};
    struct listen_spec spec;
    struct buf error;
    o.loop = t.loop;
    o.snapshot = snapshot;
    o.log = t.log;
    o.violations = t.violations;
    buf_init(&error, 4096);
    t.core = core_new(&o, &error);
    assert_non_null(t.core);
    assert_true(listen_parse("127.0.0.1:0", &spec, &error));
    struct listener *l = listener_open(&spec, 0, &error);
    assert_non_null(l);
    t.port = l->port;
    t.acceptor = acceptor_new(core_worker(t.core), l);
    buf_free(&error);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)timer;
    (void)revents;
}

void turn(void)
{
    ev_timer timer;
    ev_now_update(t.loop);
    ev_timer_init(&timer, on_timer, TURN_MS / 1e3, 0.);
    ev_timer_start(t.loop, &timer);
    ev_run(t.loop, EVRUN_ONCE);
    ev_timer_stop(t.loop, &timer);
}

void say(int fd, const void *p, size_t n)
{
    assert_int_equal(send(fd, p, n, MSG_NOSIGNAL), n);
}

void hear_bytes(int fd, const void *p, size_t n)
{
    char got[8192];
    size_t len = 0;
    for (int i = 0; i < PATIENCE && len < sizeof got; i++) {
        ssize_t more = recv(fd, got + len, sizeof got - len, 0);
        len += more > 0 ? (size_t)more : 0;
        if (memmem(got, len, p, n) != NULL)
            return;
        if (more == 0 || (more < 0 && errno != EAGAIN))
            break;
        turn();
    }
    fail_msg("\"%.*s\" instead of \"%.*s\"", (int)len, got, (int)n, (const char *)p);
}

void hear(int fd, const char *text)
{
    hear_bytes(fd, text, strlen(text));
}

bool hear_end(int fd)
{
    char byte;
    for (int i = 0; i < PATIENCE; i++) {
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n > 0)
            return false;
        if (n == 0 || errno != EAGAIN)
            return true;
        turn();
    }
    fail_msg("the connection stays open");
    return false;
}

int accept_one(int fd)
{
    for (int i = 0; i < PATIENCE; i++) {
        int got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0)
            return got;
        turn();
    }
    fail_msg("nobody connects");
    return -1;
}

const char *core_log(void)
{
    static char text[16384];
    int fd = open(t.log, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return text;
}
