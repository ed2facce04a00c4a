#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "proxy/policy/address.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static struct address parsed(const char *s)
{
    struct address a;
    assert_true(address_parse(s, strlen(s), true, &a));
    return a;
}

static void text_round_trips_in_rfc_5952_form(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"1.2.3.4", "1.2.3.4"},
        {"255.255.255.255", "255.255.255.255"},
        {"::", "::"},
        {"0:0:0:0:0:0:0:1", "::1"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"}, /* the first longest run */
        {"1:0:0:2:0:0:0:3", "1:0:0:2::3"},
        {"1:0:2:0:3:0:4:0", "1:0:2:0:3:0:4:0"}, /* one group is no run */
        {"::1.2.3.4", "::102:304"},             /* never a dotted tail */
        {"64:ff9b::10.0.0.1", "64:ff9b::a00:1"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"0:0:0:0:0:FFFF:7f00:1", "127.0.0.1"},
        {"::ffff:0:1.2.3.4", "::ffff:0:102:304"},
        {"fe80::1%eth0", "fe80::1"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a = parsed(cases[i].in);
        char text[ADDRESS_TEXT_MAX];
        assert_int_equal(address_format(&a, text), strlen(cases[i].out));
        assert_string_equal(text, cases[i].out);
    }
}

static void malformed_text_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "1",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.",
        ".1.2.3",
        "01.2.3.4",
        "1.2.3.04",
        "256.1.1.1",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.-4",
        "0x1.2.3.4",
        "1..3.4",
        ":",
        ":::",
        "1:",
        ":1",
        "1::2::3",
        "12345::",
        "00001::",
        "g::",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::1.2.3",
        "::01.2.3.4",
        "::1.2.3.4:5",
        "[::1]",
        "::1/64",
        "fe80::1%",
        "fe80::1%a b",
        "fe80::1%a%b",
        "fe80::1%a/b",
        "1.2.3.4%eth0",
        "%eth0",
        "::ffff:127.1",
    };
    struct address a;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (address_parse(cases[i], strlen(cases[i]), true, &a))
            fail_msg("accepted %s", cases[i]);
    }
    assert_false(address_parse("1.2.3.4\0", 8, true, &a));
    assert_false(address_parse("::1\0", 4, true, &a));
}

static void a_zone_needs_permission(void **state)
{
    struct address a, plain = parsed("fe80::1");
    (void)state;
    assert_false(address_parse("fe80::1%lo", 10, false, &a));
    assert_true(address_parse("fe80::1%lo", 10, true, &a));
    assert_int_equal(a.scope, if_nametoindex("lo"));
    assert_true(address_equal(&a, &plain));
    assert_int_equal(parsed("fe80::1%7").scope, 7);
    assert_int_equal(parsed("fe80::1%4294967295").scope, UINT32_MAX);
    assert_int_equal(parsed("fe80::1%99999999999").scope, 0);
    assert_int_equal(parsed("fe80::1%no-such-interface-here").scope, 0);
    assert_int_equal(parsed("::ffff:1.2.3.4%7").scope, 0);
}

static void mapped_addresses_equal_their_ipv4_form(void **state)
{
    struct address mapped = parsed("::ffff:10.0.0.5"), plain = parsed("10.0.0.5");
    struct address compatible = parsed("::10.0.0.5");
    (void)state;
    assert_true(address_equal(&mapped, &plain));
    assert_false(address_equal(&compatible, &plain));
    assert_true(address_compare(&plain, &compatible) < 0);
}

static void sockaddrs_round_trip(void **state)
{
    static const char *const cases[] = {"1.2.3.4", "2001:db8::1", "fe80::1%3"};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a = parsed(cases[i]), back;
        struct sockaddr_storage ss;
        uint16_t port;
        socklen_t len = address_to_sockaddr(&a, 8443, &ss);
        assert_int_equal(len,
                         a.family == 4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        assert_true(address_from_sockaddr((struct sockaddr *)&ss, &back, &port));
        assert_int_equal(port, 8443);
        assert_true(address_equal(&a, &back));
        assert_int_equal(a.scope, back.scope);
    }
}

static void mapped_sockaddrs_fold_and_other_families_are_refused(void **state)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_scope_id = 9};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct address a;
    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", &in6.sin6_addr), 1);
    assert_true(address_from_sockaddr((struct sockaddr *)&in6, &a, NULL));
    assert_int_equal(a.family, 4);
    assert_int_equal(a.scope, 0);
    assert_false(address_from_sockaddr((struct sockaddr *)&un, &a, NULL));
}

static void carried_ipv4_is_found_where_the_rules_say(void **state)
{
    static const struct {
        const char *in, *carried;
    } cases[] = {
        {"::127.0.0.1", "127.0.0.1"},       {"::1", "0.0.0.1"},
        {"::ffff:0:10.0.0.1", "10.0.0.1"},  {"64:ff9b::7f00:1", "127.0.0.1"},
        {"2002:a00:1:ffff::9", "10.0.0.1"}, {"64:ff9b:1::7f00:1", NULL},
        {"64:ff9b::1:7f00:1", NULL},        {"2003:a00:1::", NULL},
        {"fe80::127.0.0.1", NULL},          {"1.2.3.4", NULL},
        {"::ffff:1.2.3.4", NULL}, /* is IPv4 already */
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a = parsed(cases[i].in), carried;
        bool has = address_carried(&a, &carried);
        assert_int_equal(has, cases[i].carried != NULL);
        if (has) {
            struct address want = parsed(cases[i].carried);
            assert_true(address_equal(&carried, &want));
        }
    }
}

static void ranges_parse_as_written(void **state)
{
    static const struct {
        const char *in, *first, *last; /* first NULL: malformed */
    } cases[] = {
        {"10.0.0.0/8", "10.0.0.0", "10.255.255.255"},
        {"10.1.2.3/8", "10.0.0.0", "10.255.255.255"}, /* host bits may be set */
        {"10.1.2.3/008", "10.0.0.0", "10.255.255.255"},
        {"10.1.2.3", "10.1.2.3", "10.1.2.3"},
        {"10.1.2.3/32", "10.1.2.3", "10.1.2.3"},
        {"203.0.113.0/25", "203.0.113.0", "203.0.113.127"},
        {"0.0.0.0/0", "0.0.0.0", "255.255.255.255"},
        {"fc00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
        {"2001:db8::1/128", "2001:db8::1", "2001:db8::1"},
        {"fe80::1%eth0", "fe80::1", "fe80::1"},
        {"fe80::1%eth0/64", "fe80::", "fe80::ffff:ffff:ffff:ffff"},
        {"::ffff:10.0.0.0/104", "10.0.0.0", "10.255.255.255"},
        {"::ffff:10.0.0.5", "10.0.0.5", "10.0.0.5"},
        {"::ffff:0:0/96", "0.0.0.0", "255.255.255.255"},
        {"::ffff:10.0.0.0/95", NULL, NULL},
        {"::ffff:10.0.0.0/8", NULL, NULL},
        {"10.0.0.0/33", NULL, NULL},
        {"fc00::/129", NULL, NULL},
        {"fc00::/999", NULL, NULL},
        {"10.0.0.0/0008", NULL, NULL},
        {"10.0.0.0/", NULL, NULL},
        {"10.0.0.0/ 8", NULL, NULL},
        {"10.0.0.0/+8", NULL, NULL},
        {"10.0.0.0/8/8", NULL, NULL},
        {"/8", NULL, NULL},
        {"", NULL, NULL},
        {"10.0.0/8", NULL, NULL},
        {"010.0.0.0/8", NULL, NULL},
        {"[fc00::]/7", NULL, NULL},
        {"example.com", NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address_range range;
        bool ok = address_range_parse(cases[i].in, strlen(cases[i].in), &range);
        if (ok != (cases[i].first != NULL))
            fail_msg("%s", cases[i].in);
        if (ok) {
            struct address first = parsed(cases[i].first), last = parsed(cases[i].last);
            assert_true(address_equal(&range.first, &first));
            assert_true(address_equal(&range.last, &last));
        }
    }
}

static struct address_set *set_of(const char *const *ranges, size_t count)
{
    struct address_set *set = address_set_new();
    for (size_t i = 0; i < count; i++) {
        struct address_range range;
        assert_true(address_range_parse(ranges[i], strlen(ranges[i]), &range));
        address_set_add(set, &range);
    }
    address_set_seal(set);
    return set;
}

static void sets_hold_the_union_of_their_ranges(void **state)
{
    static const char *const ranges[] = {"192.168.0.0/16", "10.0.0.0/8", "10.1.0.0/16",
                                         "2001:db8::/32",  "10.0.0.0/9", "203.0.113.7"};
    static const struct {
        const char *address;
        bool in;
    } cases[] = {{"10.0.0.0", true},        {"10.255.255.255", true},  {"9.255.255.255", false},
                 {"11.0.0.0", false},       {"192.168.9.9", true},     {"192.169.0.0", false},
                 {"203.0.113.7", true},     {"203.0.113.8", false},    {"2001:db8:ffff::", true},
                 {"2001:db9::", false},     {"::ffff:10.2.3.4", true}, {"::", false},
                 {"255.255.255.255", false}};
    struct address_set *set = set_of(ranges, COUNT(ranges));
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct address a = parsed(cases[i].address);
        if (address_set_has(set, &a) != cases[i].in)
            fail_msg("%s", cases[i].address);
    }
    address_set_free(set);
}

static void wide_ipv6_ranges_never_hold_ipv4(void **state)
{
    static const char *const ranges[] = {"::/0"};
    struct address_set *set = set_of(ranges, 1);
    struct address v4 = parsed("1.2.3.4"), mapped = parsed("::ffff:1.2.3.4"), v6 = parsed("::1");
    (void)state;
    assert_false(address_set_has(set, &v4));
    assert_false(address_set_has(set, &mapped));
    assert_true(address_set_has(set, &v6));
    address_set_free(set);
}

static void an_empty_set_holds_nothing(void **state)
{
    struct address_set *set = set_of(NULL, 0);
    struct address a = parsed("1.2.3.4");
    (void)state;
    assert_false(address_set_has(set, &a));
    address_set_free(set);
    address_set_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trips_in_rfc_5952_form),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(a_zone_needs_permission),
        cmocka_unit_test(mapped_addresses_equal_their_ipv4_form),
        cmocka_unit_test(sockaddrs_round_trip),
        cmocka_unit_test(mapped_sockaddrs_fold_and_other_families_are_refused),
        cmocka_unit_test(carried_ipv4_is_found_where_the_rules_say),
        cmocka_unit_test(ranges_parse_as_written),
        cmocka_unit_test(sets_hold_the_union_of_their_ranges),
        cmocka_unit_test(wide_ipv6_ranges_never_hold_ipv4),
        cmocka_unit_test(an_empty_set_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
