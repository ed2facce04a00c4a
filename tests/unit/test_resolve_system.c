#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/resolve_fixture.h"

static void test_hosts_file_first(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.9.9.9 fd00::9"}, {0}};
    (void)state;

    start(rules);
    write_file(t.hosts, "# comment\n10.0.0.1 other.test OK.test # alias\n");
    assert_string_equal(resolve("ok.test"), "10.0.0.1");
    assert_int_equal(scripted_dns_seen(t.dns, NULL, 0), 0);
    write_file(t.hosts, "10.0.0.2 ok.test\nfd00::2 ok.test\n10.0.0.3 ok.test\n");
    assert_string_equal(resolve("ok.test"), "10.0.0.2 fd00::2 10.0.0.3");
    unlink(t.hosts);
    assert_non_null(strstr(resolve("ok.test"), "10.9.9.9"));
}

static void test_hosts_file_not_asked(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.9.9.9"}, {0}};
    (void)state;

    t.dns = scripted_dns_new(t.loop, rules);
    char *servers[] = {scripted_dns_address(t.dns), NULL};
    start_with(servers, false);
    write_file(t.hosts, "10.0.0.1 ok.test localhost\n");
    assert_string_equal(resolve("ok.test"), "10.9.9.9");
    assert_string_equal(resolve("localhost"), "127.0.0.1 ::1");
}

static void test_localhost_never_goes_to_dns(void **state)
{
    static const struct dns_rule rules[] = {{.name = "localhost", .text = "10.9.9.9"},
                                            {.name = "a.localhost", .text = "10.9.9.9"},
                                            {0}};
    (void)state;

    start(rules);
    assert_string_equal(resolve("localhost"), "127.0.0.1 ::1");
    assert_string_equal(resolve("a.localhost"), "127.0.0.1 ::1");
    write_file(t.hosts, "127.0.0.1 localhost\n127.0.0.2 a.localhost\n");
    assert_string_equal(resolve("LOCALHOST."), "127.0.0.1");
    assert_string_equal(resolve("a.localhost"), "127.0.0.2");
    t.limits.dns_addresses = 1;
    assert_string_equal(resolve("b.localhost"), "127.0.0.1");
    assert_int_equal(scripted_dns_seen(t.dns, NULL, 0), 0);
}

static void test_search_list(void **state)
{
    static const struct dns_rule rules[] = {{.name = "db.one.test", .rcode = RCODE_OK},
                                            {.name = "db.two.test", .text = "10.0.0.2"},
                                            {.name = "db", .text = "10.0.0.9"},
                                            {.name = "fail.one.test", .rcode = RCODE_SERVFAIL},
                                            {.name = "fail.two.test", .text = "10.0.0.4"},
                                            {.name = "a.b", .rcode = RCODE_SERVFAIL},
                                            {.name = "a.b.one.test", .text = "10.0.0.5"},
                                            {.name = "dead.one.test", .trick = TRICK_SILENT},
                                            {.name = "dead.two.test", .text = "10.0.0.6"},
                                            {.name = "dead", .text = "10.0.0.7"},
                                            {.name = "void.one.test", .alias = "nowhere.test"},
                                            {.name = "void.two.test", .text = "10.0.0.8"},
                                            {0}};
    static const struct {
        const char *conf, *name, *expected, *asked;
    } cases[] = {
        {"search one.test two.test\n", "db", "10.0.0.2", "db.one.test db.two.test"},
        {"domain two.test\n", "db", "10.0.0.2", "db.two.test"},
        {"search one.test\n", "db", "10.0.0.9", "db.one.test db"},
        {"search one.test two.test\noptions ndots:0\n", "db", "10.0.0.9", "db"},
        {"search .\n", "db", "10.0.0.9", "db"},
        {"search . two.test\n", "db", "10.0.0.9", "db"},
        {"search one.test\noptions no-tld-query\n", "db", "upstream-dns", "db.one.test"},
        {"search one.test two.test\n", "fail", "10.0.0.4", "fail.one.test fail.two.test"},
        {"search one.test\n", "a.b", "10.0.0.5", "a.b a.b.one.test"},
        {"search one.test\noptions ndots:2\n", "a.b", "10.0.0.5", "a.b.one.test"},
        {"search one.test\n", "x.y", "upstream-dns", "x.y x.y.one.test"},
        {"search one.test two.test\n", "dead", "10.0.0.7", "dead.one.test dead"},
        {"search one.test two.test\n", "void", "upstream-dns", "void.one.test"},
        {"search x y\nsearch two.test\n", "db", "10.0.0.2", "db.two.test"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        teardown(state);
        setup(state);
        t.limits.dns_tries = 1;
        start_resolv_conf(rules, cases[i].conf);
        const char *got = resolve(cases[i].name);
        const char *asked = scripted_dns_names(t.dns, QUERY_A);
        char once[256];
        /* A server's failure is tried again at the same server; names in a row count once. */
        size_t n = 0;
        const char *previous = "";
        char copy[1024], *save = NULL;
        snprintf(copy, sizeof(copy), "%s", asked);
        once[0] = '\0';
        for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
            if (strcmp(w, previous) != 0)
                n += (size_t)snprintf(once + n, sizeof(once) - n, "%s%s", n > 0 ? " " : "", w);
            previous = w;
        }
        if (strcmp(got, cases[i].expected) != 0 || strcmp(once, cases[i].asked) != 0)
            fail_msg("case %zu: got %s asking %s", i, got, once);
    }
}

static void test_changed_server_is_used(void **state)
{
    static const struct dns_rule dead[] = {{.name = "ok.test", .trick = TRICK_SILENT}, {0}};
    static const struct dns_rule good[] = {{.name = "ok.test", .text = "10.0.0.1"}, {0}};
    struct scripted_dns *old = scripted_dns_new(t.loop, dead);
    struct outcome waiting = {.calls = 0};
    char text[64];
    (void)state;

    snprintf(text, sizeof(text), "nameserver %s\n", scripted_dns_address(old));
    write_file(t.resolv, text);
    start_with(NULL, true);
    look_up(&waiting, "ok.test");
    run_for(0.02);
    t.dns = scripted_dns_new(t.loop, good);
    write_resolv_conf("");
    assert_string_equal(resolve("ok.test"), "10.0.0.1");
    /* The look-up from before is neither joined nor dropped. */
    assert_false(waiting.last);
    run_until(&waiting.last);
    assert_int_equal(waiting.err, ERR_UPSTREAM_TIMEOUT);
    scripted_dns_free(old);
}

static void test_missing_or_empty_resolv_conf_recovers(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.0.0.1"}, {0}};
    (void)state;

    t.dns = scripted_dns_new(t.loop, rules);
    start_with(NULL, true);
    /* Whatever answers on 127.0.0.1:53 here, .test is not a name it has. */
    assert_string_not_equal(resolve("ok.test"), "10.0.0.1");
    write_file(t.resolv, "");
    assert_string_not_equal(resolve("ok.test"), "10.0.0.1");
    write_resolv_conf("");
    assert_string_equal(resolve("ok.test"), "10.0.0.1");
}

static void test_options_of_resolv_conf(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "dead.test", .trick = TRICK_SILENT}, {.name = "ok.test", .text = "10.0.0.1"}, {0}};
    (void)state;

    start_resolv_conf(rules, "options attempts:1 use-vc\n");
    t.limits.dns_tries = 5;
    assert_string_equal(resolve("dead.test"), "upstream-timeout");
    assert_int_equal(scripted_dns_seen(t.dns, "dead.test", QUERY_A), 1);
    assert_string_equal(resolve("ok.test"), "10.0.0.1");
    assert_int_equal(scripted_dns_seen_tcp(t.dns), 4);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_hosts_file_first),
        T(test_hosts_file_not_asked),
        T(test_localhost_never_goes_to_dns),
        T(test_search_list),
        T(test_changed_server_is_used),
        T(test_missing_or_empty_resolv_conf_recovers),
        T(test_options_of_resolv_conf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
