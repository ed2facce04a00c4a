#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/policy.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct policy *policy; /* of the running group */
static struct address_set *local;

static struct address_range range_of(const char *s)
{
    struct address_range range;
    assert_true(address_range_parse(s, strlen(s), &range));
    return range;
}

static int set_up(void **state)
{
    static const char *const ranges[] = {"10.0.0.0/8", "64:ff9b::808:0/112"};
    static const char *const interfaces[] = {"192.168.7.20", "2a00:7::20", "fe80::7"};
    (void)state;
    policy = policy_new();
    policy_allow(policy, "127.0.0.1:8080");
    policy_allow(policy, "0xa.0.0.9");
    policy_allow(policy, "[64:ff9b::7f00:2]");
    policy_deny(policy, "203.0.113.5", NULL);
    policy_deny(policy, "[2a00::5]:443", NULL);
    policy_deny(policy, "*.0.113.6", NULL);
    for (size_t i = 0; i < COUNT(ranges); i++) {
        struct address_range range = range_of(ranges[i]);
        policy_deny_range(policy, &range);
    }
    policy_seal(policy);
    local = address_set_new();
    for (size_t i = 0; i < COUNT(interfaces); i++) {
        struct address_range range = range_of(interfaces[i]);
        address_set_add(local, &range);
    }
    address_set_seal(local);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_free(policy);
    address_set_free(local);
    return 0;
}

static enum address_class judge(const char *name, uint16_t port, const char *text)
{
    struct host host;
    struct address a;
    assert_int_equal(host_canonicalise(name, strlen(name), &host), HOST_OK);
    assert_true(address_parse(text, strlen(text), true, &a));
    return policy_judge_address(policy, &host, port, &a, local);
}

static void each_class_at_its_borders(void **state)
{
    static const struct {
        const char *address;
        enum address_class class;
    } cases[] = {
        {"126.255.255.255", ADDRESS_KEPT},
        {"127.0.0.0", ADDRESS_LOOPBACK},
        {"127.255.255.255", ADDRESS_LOOPBACK},
        {"128.0.0.0", ADDRESS_KEPT},
        {"::1", ADDRESS_LOOPBACK},
        {"0.0.0.0", ADDRESS_UNSPECIFIED},
        {"0.255.255.255", ADDRESS_UNSPECIFIED},
        {"1.0.0.0", ADDRESS_KEPT},
        {"::", ADDRESS_UNSPECIFIED},
        {"169.253.255.255", ADDRESS_KEPT},
        {"169.254.169.254", ADDRESS_LINK_LOCAL},
        {"169.255.0.0", ADDRESS_KEPT},
        {"fe80::", ADDRESS_LINK_LOCAL},
        {"febf:ffff::1%eth9", ADDRESS_LINK_LOCAL},
        {"fec0::", ADDRESS_KEPT},
        {"fe7f::", ADDRESS_KEPT},
        {"223.255.255.255", ADDRESS_KEPT},
        {"224.0.0.0", ADDRESS_MULTICAST},
        {"239.255.255.255", ADDRESS_MULTICAST},
        {"240.0.0.0", ADDRESS_KEPT},
        {"ff02::1", ADDRESS_MULTICAST},
        {"255.255.255.255", ADDRESS_BROADCAST},
        {"255.255.255.254", ADDRESS_KEPT},
        {"100.100.100.200", ADDRESS_METADATA},
        {"100.100.100.201", ADDRESS_KEPT},
        {"168.63.129.16", ADDRESS_METADATA},
        {"192.0.0.192", ADDRESS_METADATA},
        {"fd00:ec2::254", ADDRESS_METADATA},
        {"fd00:ec2:ffff::", ADDRESS_METADATA},
        {"fd00:ec3::", ADDRESS_KEPT},
        {"fd20:ce::254", ADDRESS_METADATA},
        {"fd20:ce::253", ADDRESS_KEPT},
        {"fd00:c1::a9fe:a9fe", ADDRESS_METADATA},
        {"fd00:42::42", ADDRESS_METADATA},
        {"fd00:a9fe:a9fe::1", ADDRESS_METADATA},
        {"fd00:100::100:200", ADDRESS_METADATA},
        {"fd00:100::100:201", ADDRESS_KEPT},
        {"10.9.9.9", ADDRESS_LISTED},
        {"11.0.0.0", ADDRESS_KEPT},
        {"192.168.7.20", ADDRESS_LOCAL},
        {"2a00:7::20", ADDRESS_LOCAL},
        {"fe80::7", ADDRESS_LINK_LOCAL}, /* the earlier class wins */
        {"192.168.7.21", ADDRESS_KEPT},
        {"172.16.0.1", ADDRESS_KEPT},
        {"fc00::1", ADDRESS_KEPT},
        {"100.64.0.1", ADDRESS_KEPT},
        {"203.0.113.5", ADDRESS_DENY_LISTED},
        {"203.0.113.6", ADDRESS_KEPT}, /* a wildcard is no address */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (judge("api.test", 443, cases[i].address) != cases[i].class)
            fail_msg("%s", cases[i].address);
    }
}

static void carried_addresses_are_judged_too(void **state)
{
    static const struct {
        const char *address;
        enum address_class class;
    } cases[] = {
        {"::ffff:127.0.0.9", ADDRESS_LOOPBACK},
        {"::127.0.0.9", ADDRESS_LOOPBACK},
        {"::ffff:0:127.0.0.9", ADDRESS_LOOPBACK},
        {"64:ff9b::7f00:9", ADDRESS_LOOPBACK},
        {"2002:7f00:9::1", ADDRESS_LOOPBACK},
        {"64:ff9b:1::7f00:9", ADDRESS_KEPT},
        {"64:ff9b::a9fe:a9fe", ADDRESS_LINK_LOCAL},
        {"64:ff9b::a00:1", ADDRESS_LISTED},
        {"64:ff9b::c0a8:714", ADDRESS_LOCAL},
        {"64:ff9b::cb00:7105", ADDRESS_DENY_LISTED},
        {"2002:cb00:7105::", ADDRESS_DENY_LISTED},
        {"64:ff9b::808:808", ADDRESS_LISTED}, /* by its own range */
        {"64:ff9b::909:909", ADDRESS_KEPT},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (judge("api.test", 443, cases[i].address) != cases[i].class)
            fail_msg("%s", cases[i].address);
    }
}

static void an_allowed_literal_is_kept_on_its_port(void **state)
{
    (void)state;
    assert_int_equal(judge("api.test", 8080, "127.0.0.1"), ADDRESS_KEPT);
    assert_int_equal(judge("api.test", 8080, "::ffff:127.0.0.1"), ADDRESS_KEPT);
    assert_int_equal(judge("api.test", 443, "127.0.0.1"), ADDRESS_LOOPBACK);
    assert_int_equal(judge("api.test", 8080, "64:ff9b::7f00:1"), ADDRESS_LOOPBACK);
    assert_int_equal(judge("api.test", 8080, "64:ff9b::7f00:2"), ADDRESS_KEPT);
    assert_int_equal(judge("api.test", 1, "10.0.0.9"), ADDRESS_KEPT); /* written 0xa.0.0.9 */
}

static void a_denied_literal_counts_for_its_port(void **state)
{
    (void)state;
    assert_int_equal(judge("api.test", 443, "2a00::5"), ADDRESS_DENY_LISTED);
    assert_int_equal(judge("api.test", 80, "2a00::5"), ADDRESS_KEPT);
    assert_int_equal(judge("localhost", 80, "203.0.113.5"), ADDRESS_DENY_LISTED);
}

static void localhost_may_be_loopback_and_nothing_else(void **state)
{
    static const char *const names[] = {"localhost", "LOCALHOST.", "a.b.localhost"};
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_int_equal(judge(names[i], 443, "127.9.9.9"), ADDRESS_KEPT);
        assert_int_equal(judge(names[i], 443, "::1"), ADDRESS_KEPT);
        assert_int_equal(judge(names[i], 443, "::ffff:127.0.0.1"), ADDRESS_KEPT);
        assert_int_equal(judge(names[i], 443, "::127.0.0.1"), ADDRESS_NON_LOOPBACK);
        assert_int_equal(judge(names[i], 443, "0.0.0.0"), ADDRESS_NON_LOOPBACK);
        assert_int_equal(judge(names[i], 443, "8.8.8.8"), ADDRESS_NON_LOOPBACK);
        assert_int_equal(judge(names[i], 443, "10.0.0.9"), ADDRESS_KEPT); /* allowed literal */
    }
    assert_int_equal(judge("notlocalhost", 443, "127.0.0.1"), ADDRESS_LOOPBACK);
    assert_int_equal(judge("localhost.test", 443, "127.0.0.1"), ADDRESS_LOOPBACK);
}

static void unknown_interfaces_deny_nothing_and_no_policy_denies_all(void **state)
{
    struct host host;
    struct address a;
    (void)state;
    assert_int_equal(host_canonicalise("api.test", 8, &host), HOST_OK);
    assert_true(address_parse("192.168.7.20", 12, false, &a));
    assert_int_equal(policy_judge_address(policy, &host, 443, &a, NULL), ADDRESS_KEPT);
    assert_int_not_equal(policy_judge_address(NULL, &host, 443, &a, NULL), ADDRESS_KEPT);
}

static void a_range_over_all_ipv6_leaves_ipv4_alone(void **state)
{
    struct policy *p = policy_new();
    struct address_range range = range_of("::/0");
    struct host host;
    struct address a;
    (void)state;
    policy_deny_range(p, &range);
    policy_seal(p);
    assert_int_equal(host_canonicalise("api.test", 8, &host), HOST_OK);
    assert_true(address_parse("8.8.8.8", 7, false, &a));
    assert_int_equal(policy_judge_address(p, &host, 443, &a, NULL), ADDRESS_KEPT);
    assert_true(address_parse("2a00::1", 7, false, &a));
    assert_int_equal(policy_judge_address(p, &host, 443, &a, NULL), ADDRESS_LISTED);
    policy_free(p);
}

static void reasons_name_the_classes_in_priority_order(void **state)
{
    char text[400];
    (void)state;
    assert_int_equal(
        address_reason(1U << ADDRESS_LISTED | 1U << ADDRESS_LOOPBACK, text, sizeof text),
        strlen("resolved to a loopback address / a listed address"));
    assert_string_equal(text, "resolved to a loopback address / a listed address");
    address_reason(1U << ADDRESS_KEPT, text, sizeof text);
    assert_string_equal(text, "");
    address_reason(~0U, text, sizeof text);
    assert_non_null(strstr(text, "resolved to a deny-listed address / a loopback address / an "
                                 "unspecified address / a link-local address / a multicast "
                                 "address / the broadcast address / a cloud metadata address / a "
                                 "listed address / one of this host's addresses / a "
                                 "non-loopback address / an unparsable address"));
}

static void literals_of_a_decider_count_too(void **state)
{
    static const struct host name = {.text = "n.test", .len = 6};
    static const struct {
        const char *text;
        uint16_t port;
        enum address_class class;
    } cases[] = {
        {"127.0.0.9", 443, ADDRESS_KEPT},          {"127.0.0.8", 443, ADDRESS_LOOPBACK},
        {"fe80::9", 8443, ADDRESS_KEPT},           {"fe80::9", 443, ADDRESS_LINK_LOCAL},
        {"2001:db8::9", 443, ADDRESS_DENY_LISTED}, {"203.0.113.9", 80, ADDRESS_KEPT},
        {"203.0.113.9", 443, ADDRESS_DENY_LISTED}, {"64:ff9b::cb00:7109", 443, ADDRESS_DENY_LISTED},
    };
    struct policy *p = policy_new();
    (void)state;
    policy_begin_decider(p);
    policy_allow(p, "127.0.0.9");
    policy_allow(p, "[fe80::9]:8443");
    policy_deny(p, "2001:db8::9", NULL);
    policy_deny(p, "203.0.113.9:443", NULL);
    policy_seal(p);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a;
        assert_true(address_parse(cases[i].text, strlen(cases[i].text), false, &a));
        assert_int_equal(policy_judge_address(p, &name, cases[i].port, &a, NULL), cases[i].class);
    }
    policy_free(p);
}

static void a_reason_is_cut_to_its_room(void **state)
{
    char text[16];
    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(address_reason(1U << ADDRESS_LOOPBACK, text, 12), 11);
    assert_string_equal(text, "resolved to");
    assert_int_equal(text[12], 'x');
    assert_int_equal(address_reason(1U << ADDRESS_LOOPBACK, text, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_at_its_borders),
        cmocka_unit_test(carried_addresses_are_judged_too),
        cmocka_unit_test(an_allowed_literal_is_kept_on_its_port),
        cmocka_unit_test(a_denied_literal_counts_for_its_port),
        cmocka_unit_test(localhost_may_be_loopback_and_nothing_else),
        cmocka_unit_test(unknown_interfaces_deny_nothing_and_no_policy_denies_all),
        cmocka_unit_test(a_range_over_all_ipv6_leaves_ipv4_alone),
        cmocka_unit_test(reasons_name_the_classes_in_priority_order),
        cmocka_unit_test(literals_of_a_decider_count_too),
        cmocka_unit_test(a_reason_is_cut_to_its_room),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
