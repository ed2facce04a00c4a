#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/dial_fixture.h"

static void test_literal(void **state)
{
    struct outcome o = {.fd = -1};
    int value = 0;
    socklen_t n = sizeof(value);
    (void)state;

    dial(&o, "127.0.0.5");
    run_until(&o.done);
    assert_int_equal(o.err, ERR_NONE);
    assert_string_equal(o.address, "127.0.0.5");
    assert_true((fcntl(o.fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(o.fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(getsockopt(o.fd, IPPROTO_TCP, TCP_NODELAY, &value, &n), 0);
    assert_int_not_equal(value, 0);
    assert_int_equal(accepted(t.origin), 1);
    close(o.fd);
    /* Not judged: this one is no address a name may lead to. */
    origin_at("127.0.0.1");
    assert_string_equal(dialled("127.0.0.1"), "127.0.0.1");
    assert_string_equal(dialled("127.0.0.9"), "upstream-refused");
}

static void test_literal_without_a_way(void **state)
{
    (void)state;
    /* A link-local address without a zone fails inside connect(). */
    assert_string_equal(dialled("fe80::1"), "upstream-unreachable");
}

static void test_names(void **state)
{
    static const struct {
        const char *what;
        struct dns_rule rules[3];
        const char *hole, *expected;
    } cases[] = {
        {"only A", {{.name = "ok.test", .text = "127.0.0.5"}}, NULL, "127.0.0.5"},
        {"only AAAA", {{.name = "ok.test", .text = "::1"}}, NULL, "::1"},
        {"AAAA refused",
         {{.name = "ok.test", .text = "fd00::dead:1 127.0.0.5"}},
         NULL,
         "127.0.0.5"},
        {"A black hole, AAAA fine",
         {{.name = "ok.test", .text = "127.0.0.6 ::1"}},
         "127.0.0.6",
         "::1"},
        {"black hole first",
         {{.name = "ok.test", .text = "127.0.0.6 127.0.0.5"}},
         "127.0.0.6",
         "127.0.0.5"},
        {"the seventh of eight",
         {{.name = "ok.test",
           .text = "127.0.0.6 127.0.0.7 127.0.0.6 127.0.0.7 127.0.0.6 127.0.0.7 127.0.0.5 "
                   "127.0.0.6"}},
         NULL,
         "127.0.0.5"},
        {"AAAA never answered",
         {{.name = "ok.test", .type = QUERY_A, .text = "127.0.0.5"},
          {.name = "ok.test", .trick = TRICK_SILENT}},
         NULL,
         "127.0.0.5"},
        {"A never answered",
         {{.name = "ok.test", .type = QUERY_AAAA, .text = "::1"},
          {.name = "ok.test", .trick = TRICK_SILENT}},
         NULL,
         "::1"},
        {"AAAA late and needed",
         {{.name = "ok.test", .type = QUERY_A, .text = "127.0.0.6"},
          {.name = "ok.test", .type = QUERY_AAAA, .text = "::1", .delay = 0.2}},
         "127.0.0.6",
         "::1"},
        {"AAAA late and needed, A refused",
         {{.name = "ok.test", .type = QUERY_A, .text = "127.0.0.6"},
          {.name = "ok.test", .type = QUERY_AAAA, .text = "::1", .delay = 0.2}},
         NULL,
         "::1"},
        {"denied and fine",
         {{.name = "ok.test", .text = "127.0.0.1 127.0.0.5"}},
         NULL,
         "127.0.0.5"},
        {"denied A, late AAAA",
         {{.name = "ok.test", .type = QUERY_A, .text = "127.0.0.1"},
          {.name = "ok.test", .type = QUERY_AAAA, .text = "::1", .delay = 0.1}},
         NULL,
         "::1"},
        {"denied A, no AAAA", {{.name = "ok.test", .text = "127.0.0.1"}}, NULL, "address"},
        {"refused", {{.name = "ok.test", .text = "127.0.0.6 127.0.0.7"}}, NULL, "upstream-refused"},
        {"denied and refused",
         {{.name = "ok.test", .text = "127.0.0.1 127.0.0.7"}},
         NULL,
         "upstream-refused"},
        {"no such name", {{0}}, NULL, "upstream-dns"},
        {"no address", {{.name = "ok.test"}}, NULL, "upstream-dns"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        teardown(state);
        setup(state);
        origin_at("::1");
        if (cases[i].hole != NULL)
            hole_at(cases[i].hole);
        start(cases[i].rules);
        size_t before = open_descriptors();
        const char *got = dialled("ok.test");
        if (strcmp(got, cases[i].expected) != 0)
            fail_msg("%s: got %s, not %s", cases[i].what, got, cases[i].expected);
        resolver_free(t.dialer.resolver);
        t.dialer.resolver = NULL;
        assert_in_range(open_descriptors(), before - 1, before);
    }
}

static void test_black_hole_in_one_family(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "::1 127.0.0.5"}, {0}};
    (void)state;

    hole_at("::1");
    start(rules);
    assert_string_equal(dialled("ok.test"), "127.0.0.5");
}

static void test_aaaa_within_the_delay_goes_first(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "127.0.0.5"},
        {.name = "ok.test", .type = QUERY_AAAA, .text = "::1", .delay = 0.02},
        {0}};
    (void)state;

    origin_at("::1");
    t.limits.resolution_delay_ms = 5000;
    start(rules);
    assert_string_equal(dialled("ok.test"), "::1");
    assert_int_equal(accepted(t.origin), 0);
}

static void test_denied_addresses_are_not_dialled(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "127.0.0.1 169.254.169.254 127.0.0.1"},
        {.name = "ok.test", .type = QUERY_AAAA, .text = "64:ff9b::7f00:1 ::"},
        {0}};
    struct outcome o = {.fd = -1};
    (void)state;

    origin_at("127.0.0.1");
    start(rules);
    dial(&o, "ok.test");
    run_until(&o.done);
    assert_int_equal(o.err, ERR_ADDRESS);
    assert_int_equal(o.denied_classes,
                     1u << ADDRESS_LOOPBACK | 1u << ADDRESS_LINK_LOCAL | 1u << ADDRESS_UNSPECIFIED);
    assert_non_null(strstr(o.denied, "169.254.169.254=4"));
    assert_non_null(strstr(o.denied, "64:ff9b::7f00:1=2"));
    assert_int_equal(accepted(t.extra[0]), 0);
}

static void test_every_dial_is_judged_anew(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "127.0.0.5", .times = 2},
                                            {.name = "ok.test", .text = "169.254.169.254"},
                                            {0}};
    (void)state;

    start(rules);
    assert_string_equal(dialled("ok.test"), "127.0.0.5");
    assert_string_equal(dialled("ok.test"), "address");
}

static void test_an_attempt_outlives_the_start_of_the_next(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "127.0.0.6 127.0.0.7"},
                                            {0}};
    struct outcome o = {.fd = -1};
    (void)state;

    hole_at("127.0.0.6");
    hole_at("127.0.0.7");
    start(rules);
    dial(&o, "ok.test");
    run_for(0.2);
    assert_false(o.done);
    /* Room for the first: its next SYN, a second after the first, is answered. */
    for (size_t i = 1; i <= HOLE_FILLERS; i++) {
        close(t.extra[i]);
        t.extra[i] = -1;
    }
    accepted(t.extra[0]);
    run_until(&o.done);
    assert_int_equal(o.err, ERR_NONE);
    assert_string_equal(o.address, "127.0.0.6");
    close(o.fd);
}

static void test_deadline(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .text = "127.0.0.6"},
        {.name = "half.test", .type = QUERY_A, .text = "127.0.0.1"},
        {.name = "half.test", .trick = TRICK_SILENT},
        {.name = "mixed.test", .text = "127.0.0.6 127.0.0.7"},
        {.name = "dead.test", .trick = TRICK_SILENT},
        {0}};
    size_t before;
    (void)state;

    hole_at("127.0.0.6");
    start(rules);
    t.limits.dial_ms = 150;
    before = open_descriptors();
    assert_string_equal(dialled("127.0.0.6"), "upstream-timeout");
    assert_string_equal(dialled("ok.test"), "upstream-timeout");
    assert_int_equal(open_descriptors(), before);
    /* A refusal says more than a silence. */
    assert_string_equal(dialled("mixed.test"), "upstream-refused");
    /* Nothing in, or nothing but a denied address. */
    assert_string_equal(dialled("dead.test"), "upstream-dns");
    assert_string_equal(dialled("half.test"), "address");
}

static void test_dead_servers(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .trick = TRICK_SILENT}, {0}};
    (void)state;

    t.limits.dns_query_ms = 20;
    start(rules);
    assert_string_equal(dialled("ok.test"), "upstream-dns");
}

static void test_attempts_are_bounded(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .text = "127.0.0.6 127.0.0.7 127.0.0.5"}, {0}};
    (void)state;

    start(rules);
    t.limits.dial_attempts = 2;
    assert_string_equal(dialled("ok.test"), "upstream-refused");
    t.limits.dial_attempts = 3;
    assert_string_equal(dialled("ok.test"), "127.0.0.5");
}

static void test_losers_are_closed(void **state)
{
    static const struct dns_rule rules[] = {{.name = "ok.test", .text = "127.0.0.6 127.0.0.5"},
                                            {0}};
    struct outcome o = {.fd = -1};
    (void)state;

    hole_at("127.0.0.6");
    start(rules);
    dial(&o, "ok.test");
    run_until(&o.done);
    assert_string_equal(o.address, "127.0.0.5");
    close(o.fd);
    size_t open = open_descriptors();
    resolver_free(t.dialer.resolver);
    t.dialer.resolver = NULL;
    /* What is left belongs to the test. */
    assert_int_equal(open_descriptors(), open);
}

static void test_out_of_descriptors(void **state)
{
    struct rlimit old, low;
    struct outcome o = {.fd = -1};
    (void)state;

    run_for(0.001);
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &low);
    dial(&o, "127.0.0.5");
    run_until(&o.done);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(o.err, ERR_OVERLOADED);
}

static void test_cancel_in_every_state(void **state)
{
    static const struct dns_rule rules[] = {
        {.name = "ok.test", .type = QUERY_A, .text = "127.0.0.6 127.0.0.7"},
        {.name = "ok.test", .trick = TRICK_SILENT},
        {0}};
    static const double after[] = {0, 0.02, 0.05, 0.09, 0.2};
    struct outcome o = {.fd = -1};
    (void)state;

    hole_at("127.0.0.6");
    hole_at("127.0.0.7");
    start(rules);
    t.limits.resolution_delay_ms = 40;
    size_t before = open_descriptors();
    dial(&o, "127.0.0.5");
    dial_cancel(o.dial);
    for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
        dial(&o, "ok.test");
        if (after[i] > 0)
            run_for(after[i]);
        assert_false(o.done);
        dial_cancel(o.dial);
    }
    run_for(0.05);
    assert_false(o.done);
    assert_in_range(open_descriptors(), before, before + 1); /* the resolver's socket */
}

static void test_cancel_from_a_call_back(void **state)
{
    static struct outcome a, b, c;
    (void)state;

    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    memset(&c, 0, sizeof(c));
    a.cancels = &b;
    b.cancels = &a;
    c.cancels_itself = true;
    dial(&a, "127.0.0.5");
    dial(&b, "127.0.0.5");
    dial(&c, "127.0.0.9");
    run_until(&c.done);
    run_for(0.02);
    assert_true(a.done != b.done);
    assert_int_equal(c.err, ERR_UPSTREAM_REFUSED);
    close(a.done ? a.fd : b.fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_literal),
        T(test_literal_without_a_way),
        T(test_names),
        T(test_black_hole_in_one_family),
        T(test_aaaa_within_the_delay_goes_first),
        T(test_denied_addresses_are_not_dialled),
        T(test_every_dial_is_judged_anew),
        T(test_an_attempt_outlives_the_start_of_the_next),
        T(test_deadline),
        T(test_dead_servers),
        T(test_attempts_are_bounded),
        T(test_losers_are_closed),
        T(test_out_of_descriptors),
        T(test_cancel_in_every_state),
        T(test_cancel_from_a_call_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
