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

static size_t count_words(const char *s)
{
    size_t count = *s != '\0';

    for (; *s != '\0'; s++)
        count += *s == ' ';
    return count;
}

static void test_answers(void **state)
{
    static const struct {
        const char *what;
        struct dns_rule rules[3];
        const char *expected;
    } cases[] = {
        {"only A", {{.name = "ok.test", .text = "10.0.0.1 10.0.0.2"}}, "10.0.0.1 10.0.0.2"},
        {"only AAAA", {{.name = "ok.test", .text = "fd00::1"}}, "fd00::1"},
        {"no data", {{.name = "ok.test"}}, "upstream-dns"},
        {"no name", {{0}}, "upstream-dns"},
        {"SERVFAIL", {{.name = "ok.test", .rcode = RCODE_SERVFAIL}}, "upstream-dns"},
        {"REFUSED", {{.name = "ok.test", .rcode = RCODE_REFUSED}}, "upstream-dns"},
        {"odd code", {{.name = "ok.test", .rcode = 9}}, "upstream-dns"},
        {"silent", {{.name = "ok.test", .trick = TRICK_SILENT}}, "upstream-timeout"},
        {"silent once",
         {{.name = "ok.test", .trick = TRICK_SILENT, .times = 2},
          {.name = "ok.test", .text = "10.0.0.1"}},
         "10.0.0.1"},
        {"A, AAAA does not exist",
         {{.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1"}},
         "10.0.0.1"},
        {"A, AAAA fails",
         {{.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1"},
          {.name = "ok.test", .type = QUERY_AAAA, .rcode = RCODE_SERVFAIL}},
         "10.0.0.1"},
        {"A, AAAA never answered",
         {{.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1"},
          {.name = "ok.test", .type = QUERY_AAAA, .trick = TRICK_SILENT}},
         "10.0.0.1"},
        {"AAAA, A never answered",
         {{.name = "ok.test", .type = QUERY_AAAA, .text = "fd00::1"},
          {.name = "ok.test", .type = QUERY_A, .trick = TRICK_SILENT}},
         "fd00::1"},
        {"mapped AAAA", {{.name = "ok.test", .text = "::ffff:10.0.0.9"}}, "10.0.0.9"},
        {"truncated",
         {{.name = "ok.test", .text = "10.0.0.1", .trick = TRICK_TRUNCATED}},
         "10.0.0.1"},
        {"alias", {{.name = "ok.test", .alias = "real.test", .text = "10.0.0.1"}}, "10.0.0.1"},
        {"alias in other case",
         {{.name = "ok.test", .alias = "Real.TEST", .text = "10.0.0.1"}},
         "10.0.0.1"},
        {"alias behind",
         {{.name = "ok.test", .alias = "real.test", .text = "10.0.0.1", .trick = TRICK_ALIAS_LAST}},
         "10.0.0.1"},
        {"alias to nothing", {{.name = "ok.test", .alias = "real.test"}}, "upstream-dns"},
        {"alias to itself", {{.name = "ok.test", .alias = "ok.test"}}, "upstream-dns"},
        {"wrong identifier",
         {{.name = "ok.test", .text = "10.0.0.1", .trick = TRICK_WRONG_ID}},
         "upstream-timeout"},
        {"wrong question",
         {{.name = "ok.test", .text = "10.0.0.1", .trick = TRICK_WRONG_QUESTION}},
         "upstream-timeout"},
        {"wrong owner",
         {{.name = "ok.test", .text = "10.0.0.1", .trick = TRICK_WRONG_OWNER}},
         "upstream-dns"},
        {"garbage", {{.name = "ok.test", .trick = TRICK_GARBAGE}}, "upstream-dns"},
        {"cut short",
         {{.name = "ok.test", .text = "10.0.0.1 fd00::1", .trick = TRICK_SHORT}},
         "upstream-dns"},
        {"query echoed",
         {{.name = "ok.test", .text = "10.0.0.1 fd00::1", .trick = TRICK_NOT_A_RESPONSE}},
         "upstream-dns"},
        {"empty datagram first",
         {{.name = "ok.test", .text = "10.0.0.1", .trick = TRICK_EMPTY_FIRST}},
         "10.0.0.1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        teardown(state);
        setup(state);
        start(cases[i].rules);
        const char *got = resolve("ok.test");
        if (strcmp(got, cases[i].expected) != 0)
            fail_msg("%s: got %s, not %s", cases[i].what, got, cases[i].expected);
    }
}

static void test_both_families(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.0.0.1 fd00::1"}, {0}};
    (void)state;

    start(rules);
    const char *got = resolve("ok.test");
    assert_true(strcmp(got, "fd00::1 10.0.0.1") == 0 || strcmp(got, "10.0.0.1 fd00::1") == 0);
    assert_int_equal(scripted_dns_seen(t.dns, NULL, 0), 2);
}

static void test_slow_family_does_not_hold_back_the_other(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1"},
        {.name = "ok.test", .type = QUERY_AAAA, .text = "fd00::1", .delay = 0.05},
        {0}};
    struct outcome o = {.calls = 0};
    (void)state;

    start(rules);
    look_up(&o, "ok.test");
    run_until(&o.last);
    assert_string_equal(o.text, "10.0.0.1|fd00::1");
    assert_int_equal(o.err, ERR_NONE);
}

static void test_many_addresses_are_cut_and_both_families_kept(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "a.test", .type = QUERY_A, .numbers = "1000"},
        {.name = "b.test", .type = QUERY_AAAA, .numbers = "900"},
        {.name = "b.test", .type = QUERY_A, .text = "10.0.0.1", .delay = 0.02},
        {0}};
    (void)state;

    start(rules);
    t.limits.dns_query_ms = 1000;
    assert_int_equal(count_words(resolve("a.test")), t.limits.dns_addresses - 1);
    assert_true(scripted_dns_seen_tcp(t.dns) > 0);
    const char *got = resolve("b.test");
    assert_int_equal(count_words(got), t.limits.dns_addresses);
    assert_non_null(strstr(got, "10.0.0.1"));
}

static void test_every_lookup_asks_again(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .text = "93.184.216.34", .times = 2},
        {.name = "ok.test", .text = "169.254.169.254"},
        {0}};
    (void)state;

    start(rules);
    assert_string_equal(resolve("ok.test"), "93.184.216.34");
    assert_string_equal(resolve("ok.test"), "169.254.169.254");
}

static void test_equal_lookups_share_one_query(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.0.0.1"}, {0}};
    static struct outcome o[8];
    (void)state;

    start(rules);
    memset(o, 0, sizeof(o));
    for (size_t i = 0; i < 8; i++)
        look_up(&o[i], "ok.test");
    lookup_cancel(o[3].lookup);
    run_until(&o[7].last);
    run_for(0.01);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(o[i].last, i != 3);
        assert_true(i == 3 || strncmp(o[i].text, "10.0.0.1", 8) == 0 || o[i].text[0] == '|');
    }
    assert_int_equal(o[3].calls, 0);
    assert_int_equal(scripted_dns_seen(t.dns, "ok.test", QUERY_A), 1);
    assert_int_equal(scripted_dns_seen(t.dns, "ok.test", QUERY_AAAA), 1);
}

static void start_other(struct outcome *o)
{
    if (o->other->lookup == NULL && o->other->calls == 0)
        look_up(o->other, o->name);
}

static void test_no_joining_once_an_address_is_in(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1", .times = 1},
        {.name = "ok.test", .type = QUERY_A, .text = "10.0.0.2"},
        {.name = "ok.test", .type = QUERY_AAAA, .delay = 0.02},
        {0}};
    static struct outcome first, second;
    (void)state;

    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    first.then = start_other;
    first.other = &second;
    start(rules);
    look_up(&first, "ok.test");
    run_until(&second.last);
    assert_string_equal(first.text, "10.0.0.1|");
    assert_string_equal(second.text, "10.0.0.2|");
}

static void test_new_lookup_from_a_failure(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .rcode = RCODE_NXDOMAIN, .times = 2},
        {.name = "ok.test", .text = "10.0.0.1"},
        {0}};
    static struct outcome first, second;
    (void)state;

    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    first.then = start_other;
    first.other = &second;
    start(rules);
    look_up(&first, "ok.test");
    run_until(&second.last);
    assert_int_equal(first.err, ERR_UPSTREAM_DNS);
    assert_int_equal(second.err, ERR_NONE);
}

static void cancel_other(struct outcome *o)
{
    if (o->other->lookup != NULL) {
        lookup_cancel(o->other->lookup);
        o->other->lookup = NULL;
    }
}

static void cancel_self(struct outcome *o)
{
    if (o->lookup != NULL) {
        lookup_cancel(o->lookup);
        o->lookup = NULL;
    }
}

static void test_cancel_from_call_backs(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "10.0.0.1"},
        {.name = "ok.test", .type = QUERY_AAAA, .text = "fd00::1", .delay = 0.02},
        {0}};
    static struct outcome o[4];
    (void)state;

    start(rules);
    /* The first cancels the second, which has not been called yet; the third cancels itself. */
    memset(o, 0, sizeof(o));
    o[0].then = cancel_other;
    o[0].other = &o[1];
    o[2].then = cancel_self;
    for (size_t i = 0; i < 4; i++)
        look_up(&o[i], "ok.test");
    run_until(&o[3].last);
    assert_string_equal(o[0].text, "10.0.0.1|fd00::1");
    assert_int_equal(o[1].calls, 0);
    assert_string_equal(o[2].text, "10.0.0.1");
    assert_string_equal(o[3].text, "10.0.0.1|fd00::1");
    /* The last one cancels the first, which has been called already. */
    memset(o, 0, sizeof(o));
    o[1].then = cancel_other;
    o[1].other = &o[0];
    look_up(&o[0], "ok.test");
    look_up(&o[1], "ok.test");
    run_until(&o[1].last);
    assert_string_equal(o[0].text, "10.0.0.1");
    assert_false(o[0].last);
}

static void test_all_cancelled(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "10.0.0.1", .delay = 0.01},
                                            {.name = "dead.test", .trick = TRICK_SILENT},
                                            {0}};
    struct outcome a = {.calls = 0}, b = {.calls = 0}, c = {.calls = 0};
    (void)state;

    start(rules);
    look_up(&a, "ok.test");
    look_up(&b, "dead.test");
    lookup_cancel(a.lookup);
    lookup_cancel(b.lookup);
    /* A query nobody waits for any more can be joined. */
    look_up(&c, "ok.test");
    run_until(&c.last);
    run_for(0.4);
    assert_int_equal(a.calls + b.calls, 0);
    assert_int_equal(scripted_dns_seen(t.dns, "ok.test", QUERY_A), 1);
}

static void test_free_with_everything_pending(void **state)
{
    static const struct dns_rule rules[] = {{.name = "dead.test", .trick = TRICK_SILENT}, {0}};
    struct outcome a = {.calls = 0}, b = {.calls = 0}, c = {.calls = 0}, d = {.calls = 0};
    (void)state;

    start(rules);
    write_file(t.hosts, "10.0.0.7 seven.test\n");
    look_up(&a, "dead.test");
    look_up(&b, "seven.test");
    look_up(&c, "dead.test");
    ev_run(t.loop, EVRUN_NOWAIT);
    look_up(&d, "localhost");
    resolver_free(t.resolver);
    t.resolver = NULL;
    run_for(0.01);
    assert_int_equal(a.calls + c.calls + d.calls, 0);
    assert_int_equal(b.calls, 1); /* the hosts file's, in the turn above */
}

static void test_next_server(void **state)
{
    static const struct dns_rule refuses[] = {{.name = "ok.test", .rcode = RCODE_REFUSED}, {0}};
    static const struct dns_rule silent[] = {{.name = "ok.test", .trick = TRICK_SILENT}, {0}};
    static const struct dns_rule good[] = {{.name = "ok.test", .text = "10.0.0.1"}, {0}};
    const struct dns_rule *bad[] = {refuses, silent};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct scripted_dns *first = scripted_dns_new(t.loop, bad[i]);
        t.dns = scripted_dns_new(t.loop, good);
        char *servers[] = {scripted_dns_address(first), scripted_dns_address(t.dns), NULL};
        start_with(servers, true);
        assert_string_equal(resolve("ok.test"), "10.0.0.1");
        assert_true(scripted_dns_seen(first, "ok.test", 0) > 0);
        resolver_free(t.resolver);
        t.resolver = NULL;
        scripted_dns_free(first);
        scripted_dns_free(t.dns);
        t.dns = NULL;
    }
}

static void test_nobody_listens(void **state)
{
    static const struct dns_rule rules[] = {{0}};
    char address[32];
    (void)state;

    t.dns = scripted_dns_new(t.loop, rules);
    snprintf(address, sizeof(address), "%s", scripted_dns_address(t.dns));
    scripted_dns_free(t.dns);
    t.dns = NULL;
    char *servers[] = {address, NULL};
    start_with(servers, true);
    assert_string_equal(resolve("ok.test"), "upstream-dns");
}

static void test_many_names_at_once(void **state)
{
    enum { NAMES = 100 };
    static struct outcome o[NAMES];
    static char names[NAMES][24];
    static struct dns_rule rules[] = {{0}};
    (void)state;

    start(rules);
    t.limits.dns_query_ms = 2000;
    memset(o, 0, sizeof(o));
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), "n%zu.test", i);
        look_up(&o[i], names[i]);
    }
    for (size_t i = 0; i < NAMES; i++) {
        run_until(&o[i].last);
        assert_int_equal(o[i].err, ERR_UPSTREAM_DNS);
    }
}

static void test_too_long_for_dns(void **state)
{
    static const struct dns_rule rules[] = {{0}};
    char name[HOST_MAX + 1];
    (void)state;

    start(rules);
    memset(name, 'a', 70);
    memcpy(name + 70, ".test", 6);
    assert_string_equal(resolve(name), "upstream-dns");
    memset(name, 0, sizeof(name));
    for (size_t i = 0; i < HOST_MAX; i++)
        name[i] = i % 2 == 0 ? 'a' : '.';
    assert_string_equal(resolve(name), "upstream-dns");
    assert_int_equal(scripted_dns_seen(t.dns, NULL, 0), 0);
}

static void test_servers_that_do_not_parse(void **state)
{
    static char good[][16] = {"127.0.0.1", "127.0.0.1:5353", "::1",
                              "[::1]",     "[::1]:53",       "fe80::1%lo"};
    static char bad[][16] = {"",      "x",         "127.0.0.1:", "127.0.0.1:0",   "127.0.0.1:65536",
                             "[::1",  "[::1]:",    "[::1]53",    "[127.0.0.1]:5", "127.0.0.1:53x",
                             "1.2.3", "127.0.0.1 "};
    struct resolver_options options = {.limits = &t.limits};
    const char *error;
    (void)state;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char *servers[] = {good[i], NULL};
        options.servers = servers;
        struct resolver *r = resolver_new(t.loop, &options, &error);
        assert_non_null(r);
        assert_null(error);
        resolver_free(r);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *servers[] = {good[0], bad[i], NULL};
        options.servers = servers;
        assert_null(resolver_new(t.loop, &options, &error));
        assert_non_null(error);
    }
    char *none[] = {NULL};
    options.servers = none;
    assert_null(resolver_new(t.loop, &options, &error));
    assert_non_null(error);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_answers),
        T(test_both_families),
        T(test_slow_family_does_not_hold_back_the_other),
        T(test_many_addresses_are_cut_and_both_families_kept),
        T(test_every_lookup_asks_again),
        T(test_equal_lookups_share_one_query),
        T(test_no_joining_once_an_address_is_in),
        T(test_new_lookup_from_a_failure),
        T(test_cancel_from_call_backs),
        T(test_all_cancelled),
        T(test_free_with_everything_pending),
        T(test_next_server),
        T(test_nobody_listens),
        T(test_many_names_at_once),
        T(test_too_long_for_dns),
        T(test_servers_that_do_not_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
