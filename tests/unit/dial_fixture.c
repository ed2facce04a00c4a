#include "tests/unit/dial_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct fixture t;

static void sockaddr_of(const char *text, uint16_t port, struct sockaddr_storage *out, socklen_t *n)
{
    struct address a;

    assert_true(address_parse(text, strlen(text), false, &a));
    *n = address_to_sockaddr(&a, port, out);
}

/* Port 0 takes a free one. */
static int listen_at(const char *text, uint16_t port, int backlog)
{
    struct sockaddr_storage at;
    socklen_t n;
    int one = 1;

    sockaddr_of(text, port, &at, &n);
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, backlog) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void keep(int fd)
{
    assert_true(fd >= 0);
    t.extra[t.extra_count++] = fd;
}

void origin_at(const char *text)
{
    keep(listen_at(text, t.port, 16));
}

void hole_at(const char *text)
{
    struct sockaddr_storage at;
    socklen_t n;

    keep(listen_at(text, t.port, 0));
    sockaddr_of(text, t.port, &at, &n);
    for (size_t i = 0; i < HOLE_FILLERS; i++) {
        int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fd, (struct sockaddr *)&at, n);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        poll(&p, 1, i == 0 ? 1000 : 20);
        keep(fd);
    }
}

size_t accepted(int fd)
{
    size_t count = 0;

    for (int c = accept(fd, NULL, NULL); c >= 0; c = accept(fd, NULL, NULL), count++)
        close(c);
    return count;
}

static void on_guard(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)w;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void allow(const char *text)
{
    char entry[80];

    snprintf(entry, sizeof(entry), strchr(text, ':') != NULL ? "[%s]:%u" : "%s:%u", text, t.port);
    policy_allow(t.policy, entry);
}

int setup(void **state)
{
    struct sockaddr_in at;
    socklen_t n = sizeof(at);

    (void)state;
    memset(&t, 0, sizeof(t));
    t.loop = ev_loop_new(EVFLAG_AUTO);
    t.limits = limits_default;
    t.limits.dns_query_ms = 5000;
    t.limits.attempt_delay_ms = 30;
    t.origin = listen_at("127.0.0.5", 0, 64);
    getsockname(t.origin, (struct sockaddr *)&at, &n);
    t.port = ntohs(at.sin_port);
    t.policy = policy_new();
    policy_allow(t.policy, "ok.test");
    for (const char *const *a =
             (const char *const[]){"127.0.0.5", "127.0.0.6", "127.0.0.7", "::1", NULL};
         *a != NULL; a++)
        allow(*a);
    policy_seal(t.policy);
    t.dialer = (struct dialer){.loop = t.loop, .limits = &t.limits};
    t.dialer.interfaces = interfaces_new(t.loop);
    ev_init(&t.guard, on_guard);
    return 0;
}

int teardown(void **state)
{
    (void)state;
    resolver_free(t.dialer.resolver);
    interfaces_free(t.dialer.interfaces);
    policy_free(t.policy);
    if (t.dns != NULL)
        scripted_dns_free(t.dns);
    ev_loop_destroy(t.loop);
    close(t.origin);
    for (size_t i = 0; i < t.extra_count; i++) {
        if (t.extra[i] >= 0)
            close(t.extra[i]);
    }
    return 0;
}

void start(const struct dns_rule *rules)
{
    struct resolver_options options = {.limits = &t.limits};
    const char *error;

    t.dns = scripted_dns_new(t.loop, rules);
    char *servers[] = {scripted_dns_address(t.dns), NULL};
    options.servers = servers;
    t.dialer.resolver = resolver_new(t.loop, &options, &error);
    assert_non_null(t.dialer.resolver);
}

static void on_dialled(void *ctx, const struct dial_result *result)
{
    struct outcome *o = ctx;
    size_t n = 0;

    assert_false(o->done);
    o->done = true;
    o->err = result->err;
    o->fd = result->fd;
    assert_int_equal(result->fd >= 0, result->err == ERR_NONE);
    if (result->err == ERR_NONE)
        address_format(&result->address, o->address);
    o->denied_classes = result->denied_classes;
    o->denied[0] = '\0';
    for (size_t i = 0; i < result->denied_count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&result->denied[i], text);
        n += (size_t)snprintf(o->denied + n, sizeof(o->denied) - n, "%s%s=%u", i > 0 ? " " : "",
                              text, (unsigned)result->denied_class[i]);
    }
    if (o->cancels_itself)
        dial_cancel(o->dial);
    o->dial = NULL;
    if (o->cancels != NULL && o->cancels->dial != NULL) {
        dial_cancel(o->cancels->dial);
        o->cancels->dial = NULL;
    }
}

void dial(struct outcome *o, const char *name)
{
    *o = (struct outcome){.fd = -1, .cancels = o->cancels, .cancels_itself = o->cancels_itself};
    assert_int_equal(host_canonicalise(name, strlen(name), &t.host), HOST_OK);
    o->dial = dial_start(&t.dialer, t.policy, &t.host, t.port, on_dialled, o);
    assert_false(o->done);
}

void run_until(const bool *flag)
{
    ev_timer_set(&t.guard, 20., 0.);
    ev_timer_start(t.loop, &t.guard);
    ev_run(t.loop, EVRUN_NOWAIT); /* what was fed before waits for no event */
    while (!*flag && ev_is_active(&t.guard))
        ev_run(t.loop, EVRUN_ONCE);
    assert_true(*flag);
    ev_timer_stop(t.loop, &t.guard);
}

static void on_rest(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)revents;
    *(bool *)w->data = true;
}

void run_for(double seconds)
{
    bool over = false;
    ev_timer timer;

    ev_timer_init(&timer, on_rest, seconds, 0.);
    timer.data = &over;
    ev_now_update(t.loop);
    ev_timer_start(t.loop, &timer);
    run_until(&over);
}

const char *dialled(const char *name)
{
    static struct outcome o;

    memset(&o, 0, sizeof(o));
    dial(&o, name);
    run_until(&o.done);
    if (o.err != ERR_NONE)
        return err_info(o.err)->token;
    close(o.fd);
    return o.address;
}

size_t open_descriptors(void)
{
    size_t count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
