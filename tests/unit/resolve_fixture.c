#include "tests/unit/resolve_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture t;

static void on_guard(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)w;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
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
    ev_timer_start(t.loop, &timer);
    run_until(&over);
}

void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

int setup(void **state)
{
    (void)state;
    memset(&t, 0, sizeof(t));
    t.loop = ev_loop_new(EVFLAG_AUTO);
    t.limits = limits_default;
    t.limits.dns_query_ms = 100;
    t.limits.dns_tries = 2;
    snprintf(t.directory, sizeof(t.directory), "/tmp/resolve.XXXXXX");
    assert_non_null(mkdtemp(t.directory));
    snprintf(t.hosts, sizeof(t.hosts), "%s/hosts", t.directory);
    snprintf(t.resolv, sizeof(t.resolv), "%s/resolv.conf", t.directory);
    ev_init(&t.guard, on_guard);
    return 0;
}

int teardown(void **state)
{
    (void)state;
    resolver_free(t.resolver);
    if (t.dns != NULL)
        scripted_dns_free(t.dns);
    ev_loop_destroy(t.loop);
    unlink(t.hosts);
    unlink(t.resolv);
    rmdir(t.directory);
    return 0;
}

void start_with(char **servers, bool use_hosts)
{
    struct resolver_options options = {.servers = servers,
                                       .use_hosts = use_hosts,
                                       .limits = &t.limits,
                                       .hosts_file = t.hosts,
                                       .resolv_conf = t.resolv};
    const char *error;

    t.resolver = resolver_new(t.loop, &options, &error);
    assert_non_null(t.resolver);
    assert_null(error);
}

void start(const struct dns_rule *rules)
{
    t.dns = scripted_dns_new(t.loop, rules);
    char *servers[] = {scripted_dns_address(t.dns), NULL};
    start_with(servers, true);
}

void write_resolv_conf(const char *lines)
{
    char text[1024];

    snprintf(text, sizeof(text), "%snameserver %s\n", lines, scripted_dns_address(t.dns));
    write_file(t.resolv, text);
}

void start_resolv_conf(const struct dns_rule *rules, const char *lines)
{
    t.dns = scripted_dns_new(t.loop, rules);
    write_resolv_conf(lines);
    start_with(NULL, true);
}

static void on_addresses(void *ctx, const struct address *addresses, size_t count, bool last,
                         enum err err)
{
    struct outcome *o = ctx;
    size_t n = strlen(o->text);

    assert_false(o->last);
    if (o->calls++ > 0)
        n += (size_t)snprintf(o->text + n, sizeof(o->text) - n, "|");
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&addresses[i], text);
        n += (size_t)snprintf(o->text + n, sizeof(o->text) - n, "%s%s", i > 0 ? " " : "", text);
    }
    assert_true(n < sizeof(o->text));
    if (!last)
        assert_int_equal(err, ERR_NONE);
    o->last = last;
    o->err = err;
    if (last)
        o->lookup = NULL;
    if (o->then != NULL)
        o->then(o);
}

void look_up(struct outcome *o, const char *name)
{
    struct host host;

    assert_int_equal(host_canonicalise(name, strlen(name), &host), HOST_OK);
    assert_false(host.is_address);
    o->name = name;
    o->lookup = resolver_lookup(t.resolver, &host, on_addresses, o);
    assert_int_equal(o->calls, 0);
}

const char *resolve(const char *name)
{
    static struct outcome o;

    memset(&o, 0, sizeof(o));
    look_up(&o, name);
    run_until(&o.last);
    if (o.err != ERR_NONE) {
        assert_string_equal(o.text, "");
        return err_info(o.err)->token;
    }
    for (char *p = o.text; *p != '\0'; p++) {
        if (*p == '|')
            *p = ' ';
    }
    while (o.text[0] == ' ')
        memmove(o.text, o.text + 1, strlen(o.text));
    while (o.text[0] != '\0' && o.text[strlen(o.text) - 1] == ' ')
        o.text[strlen(o.text) - 1] = '\0';
    return o.text;
}
