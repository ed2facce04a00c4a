#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/pattern.h"
#include "proxy/policy/policy.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct policy *example(bool strict)
{
    struct policy *p = policy_new();
    policy_allow(p, "ok.test");
    policy_allow(p, "two.test:443");
    policy_allow(p, "*.wild.test");
    policy_allow(p, "[::1]:8080");
    policy_deny(p, "bad.wild.test", "ask the platform team");
    policy_deny(p, "*.bad.wild.test", NULL);
    policy_deny(p, "127.1", NULL);
    policy_deny(p, "constructor.test", NULL);
    policy_set_strict(p, strict);
    policy_seal(p);
    return p;
}

static struct decision decide(const struct policy *p, const char *host, uint16_t port,
                              const struct pattern_list *extra)
{
    struct host canonical;
    struct decision d;
    policy_decide(p, host, strlen(host), port, extra, &canonical, &d);
    return d;
}

static void the_lists_decide_in_order(void **state)
{
    static const struct {
        const char *host;
        uint16_t port;
        enum verdict verdict;
        const char *list, *entry, *reason;
        size_t index;
    } cases[] = {
        {"OK.test.", 22, VERDICT_ALLOW, "network.allowedDomains", "ok.test", NULL, 0},
        {"two.test", 443, VERDICT_ALLOW, "network.allowedDomains", "two.test:443", NULL, 1},
        {"two.test", 80, VERDICT_ASK, NULL, NULL, NULL, 0},
        {"a.wild.test", 80, VERDICT_ALLOW, "network.allowedDomains", "*.wild.test", NULL, 2},
        {"[0::1]", 8080, VERDICT_ALLOW, "network.allowedDomains", "[::1]:8080", NULL, 3},
        {"BAD.wild.test", 80, VERDICT_DENY, "network.deniedDomains", "bad.wild.test",
         "ask the platform team", 0},
        {"x.bad.wild.test", 80, VERDICT_DENY, "network.deniedDomains", "*.bad.wild.test",
         POLICY_DENY_LISTED, 1},
        {"2130706433", 80, VERDICT_DENY, "network.deniedDomains", "127.1", POLICY_DENY_LISTED, 2},
        {"constructor.test", 80, VERDICT_DENY, "network.deniedDomains", "constructor.test",
         POLICY_DENY_LISTED, 3},
        {"no.test", 443, VERDICT_ASK, NULL, NULL, NULL, 0},
        {"", 443, VERDICT_DENY, NULL, NULL, POLICY_MALFORMED, 0},
        {"ok.test..", 443, VERDICT_DENY, NULL, NULL, POLICY_MALFORMED, 0},
        {"a..wild.test", 443, VERDICT_DENY, NULL, NULL, POLICY_MALFORMED, 0},
        {"256.1.1.1", 443, VERDICT_DENY, NULL, NULL, POLICY_MALFORMED, 0},
        {"ok.test%00", 443, VERDICT_DENY, NULL, NULL, POLICY_MALFORMED, 0},
    };
    struct policy *p = example(false);
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct decision d = decide(p, cases[i].host, cases[i].port, NULL);
        if (d.verdict != cases[i].verdict || d.index != cases[i].index)
            fail_msg("%s:%u", cases[i].host, cases[i].port);
        const char *const got[] = {d.list, d.entry, d.reason};
        const char *const want[] = {cases[i].list, cases[i].entry, cases[i].reason};
        for (size_t j = 0; j < COUNT(got); j++) {
            if (want[j] == NULL)
                assert_null(got[j]);
            else
                assert_string_equal(got[j], want[j]);
        }
    }
    policy_free(p);
}

static void a_nul_does_not_end_the_host(void **state)
{
    static const char host[] = "ok.test\0.no.test";
    struct policy *p = example(false);
    struct host canonical;
    struct decision d;
    (void)state;
    policy_decide(p, host, sizeof host - 1, 443, NULL, &canonical, &d);
    assert_int_equal(d.verdict, VERDICT_DENY);
    assert_string_equal(d.reason, POLICY_MALFORMED);
    policy_free(p);
}

static void without_a_policy_everything_is_denied(void **state)
{
    struct host canonical;
    struct decision d;
    (void)state;
    policy_decide(NULL, "OK.test", 7, 443, NULL, &canonical, &d);
    assert_int_equal(d.verdict, VERDICT_DENY);
    assert_string_equal(d.reason, POLICY_UNAVAILABLE);
    assert_null(d.list);
    assert_string_equal(canonical.text, "ok.test");
    assert_string_equal(decide(NULL, "a b", 443, NULL).reason, POLICY_UNAVAILABLE);
    assert_false(policy_denied(NULL, &canonical, 443, &d));
}

static void strict_lists_deny_what_they_do_not_name(void **state)
{
    struct policy *p = example(true);
    struct pattern_list *extra = pattern_list_new(PATTERN_ALLOWED);
    (void)state;
    pattern_list_add(extra, "no.test");
    pattern_list_seal(extra);
    struct decision d = decide(p, "no.test", 443, extra);
    assert_int_equal(d.verdict, VERDICT_DENY);
    assert_string_equal(d.reason, POLICY_NOT_LISTED);
    assert_null(d.list);
    assert_null(d.entry);
    assert_int_equal(decide(p, "ok.test", 443, extra).verdict, VERDICT_ALLOW);
    pattern_list_free(extra);
    policy_free(p);
}

static void an_extra_list_allows_but_never_beats_a_denial(void **state)
{
    struct policy *p = example(false);
    struct pattern_list *extra = pattern_list_new(PATTERN_ALLOWED);
    (void)state;
    pattern_list_add(extra, "bad.wild.test");
    pattern_list_add(extra, "no.test:443");
    pattern_list_seal(extra);
    struct decision d = decide(p, "no.test", 443, extra);
    assert_int_equal(d.verdict, VERDICT_ALLOW);
    assert_null(d.list);
    assert_int_equal(decide(p, "no.test", 80, extra).verdict, VERDICT_ASK);
    assert_int_equal(decide(p, "bad.wild.test", 443, extra).verdict, VERDICT_DENY);
    pattern_list_free(extra);
    policy_free(p);
}

static void the_denied_list_can_be_asked_alone(void **state)
{
    struct policy *p = example(false);
    struct host host;
    struct decision d;
    (void)state;
    assert_int_equal(host_canonicalise("bad.wild.test", 13, &host), HOST_OK);
    assert_true(policy_denied(p, &host, 22, &d));
    assert_string_equal(d.reason, "ask the platform team");
    assert_int_equal(host_canonicalise("no.test", 7, &host), HOST_OK);
    assert_false(policy_denied(p, &host, 22, &d));
    policy_free(p);
}

static void entries_of_a_decider_have_names_and_counts_of_their_own(void **state)
{
    static const struct {
        const char *host;
        enum verdict verdict;
        const char *list, *entry;
        size_t index;
    } cases[] = {
        {"ok.test", VERDICT_ALLOW, "network.allowedDomains", "ok.test", 0},
        {"both.test", VERDICT_ALLOW, "network.allowedDomains", "both.test", 1},
        {"one.test", VERDICT_ALLOW, "decider.allowedDomains", "one.test", 1},
        {"x.wide.test", VERDICT_ALLOW, "decider.allowedDomains", "*.wide.test:443", 2},
        {"[2001:db8::1]", VERDICT_ALLOW, "decider.allowedDomains", "2001:db8::1", 3},
        {"single", VERDICT_ALLOW, "decider.allowedDomains", "single", 4},
        {"bad.test", VERDICT_DENY, "network.deniedDomains", "bad.test", 0},
        {"shut.test", VERDICT_DENY, "decider.deniedDomains", "shut.test", 0},
        {"[::ffff:192.0.2.1]", VERDICT_DENY, "decider.deniedDomains", "192.0.2.1:443", 1},
        {"no.test", VERDICT_ASK, NULL, NULL, 0},
    };
    struct policy *p = policy_new();
    (void)state;
    policy_allow(p, "ok.test");
    policy_allow(p, "both.test");
    policy_allow(p, "shut.test"); /* whatever allows it, a denial is first */
    policy_deny(p, "bad.test", NULL);
    policy_begin_decider(p);
    policy_allow(p, "both.test");
    policy_allow(p, "one.test");
    policy_allow(p, "*.wide.test:443");
    policy_allow(p, "2001:db8::1");
    policy_allow(p, "single");
    policy_deny(p, "shut.test", NULL);
    policy_deny(p, "192.0.2.1:443", NULL);
    policy_seal(p);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct decision d = decide(p, cases[i].host, 443, NULL);
        assert_int_equal(d.verdict, cases[i].verdict);
        if (cases[i].list == NULL) {
            assert_null(d.list);
            continue;
        }
        assert_string_equal(d.list, cases[i].list);
        assert_string_equal(d.entry, cases[i].entry);
        assert_int_equal(d.index, cases[i].index);
        if (d.verdict == VERDICT_DENY)
            assert_string_equal(d.reason, POLICY_DENY_LISTED);
    }
    policy_free(p);
}

static void deny_all_shadows_every_allowed_entry(void **state)
{
    struct policy *p = policy_new();
    (void)state;
    policy_allow(p, "ok.test");
    policy_deny(p, "*", NULL);
    policy_seal(p);
    assert_int_equal(decide(p, "ok.test", 443, NULL).verdict, VERDICT_DENY);
    assert_int_equal(decide(p, "::1", 443, NULL).verdict, VERDICT_DENY);
    policy_free(p);
    policy_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lists_decide_in_order),
        cmocka_unit_test(a_nul_does_not_end_the_host),
        cmocka_unit_test(without_a_policy_everything_is_denied),
        cmocka_unit_test(strict_lists_deny_what_they_do_not_name),
        cmocka_unit_test(an_extra_list_allows_but_never_beats_a_denial),
        cmocka_unit_test(the_denied_list_can_be_asked_alone),
        cmocka_unit_test(entries_of_a_decider_have_names_and_counts_of_their_own),
        cmocka_unit_test(deny_all_shadows_every_allowed_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
