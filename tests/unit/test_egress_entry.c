#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "decider/entry.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void takes_names_and_addresses(void **state)
{
    static const char *const entries[] = {
        "api.example.com",
        "localhost",
        "localhost:8080",
        "a",
        "a-b.c-d",
        "1a.b",
        "123.b1",
        "xn--bcher-kva.example",
        "*.example.org",
        "*.example.org:443",
        "*.a.b.c",
        "api.example.com:1",
        "api.example.com:65535",
        "1.2.3.4",
        "0.0.0.0",
        "255.255.255.255:80",
        "::",
        "::1",
        "2001:db8::",
        "2001:DB8::A",
        "1:2:3:4:5:6:7:8",
        "::ffff:1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4",
        "fe80::1%eth0",
        "[::1]",
        "[::1]:443",
        "[fe80::1%eth0.1]:443",
        /* 63 and 253 characters */
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++)
        if (!egress_entry_valid(entries[i], strlen(entries[i])))
            fail_msg("'%s' refused", entries[i]);
}

static void refuses_everything_else(void **state)
{
    static const char *const entries[] = {
        "",
        "*",
        "*.",
        "*.com",
        "*.com:443",
        "*a.b",
        "a.*.b",
        "*.*.a.b",
        "**.a.b",
        "*.1.2.3.4",
        "*.::1",
        "API.example.com",
        "api.Example.com",
        "a_b.com",
        "a.b_c",
        "-a.b",
        "a-.b",
        "a.-b",
        "a.b-",
        ".",
        ".a",
        "a.",
        "a.b.",
        "a..b",
        "a.1",
        "a.1b",
        "1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "a.0x7f",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.4.",
        "1.2.3.4/8",
        "a.b/",
        "a.b/c",
        "https://a.b",
        "user@a.b",
        "a b",
        " a.b",
        "a.b ",
        "a.b\n",
        "a.b?",
        "a.b#",
        "b\xc3\xbc.example",
        "a.b:",
        "a.b:0",
        "a.b:00",
        "a.b:080",
        "a.b:65536",
        "a.b:99999",
        "a.b:123456",
        "a.b:+1",
        "a.b: 1",
        "a.b:https",
        "a.b:1:2",
        ":80",
        ":",
        "::1:443x",
        "::1%",
        "::1%eth0/64",
        "::1%a b",
        "1.2.3.4%eth0",
        "1::2::3",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7",
        "12345::",
        "::1.2.3.04",
        "::1/128",
        "[]",
        "[",
        "]",
        "[::1",
        "::1]",
        "[::1]:",
        "[::1]:0",
        "[::1]443",
        "[::1]x",
        "[::1]]",
        "[[::1]]",
        "[1.2.3.4]",
        "[a.b]",
        "[a.b]:80",
        "[:::]",
        "[::1 ]",
        "[::1%]",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++)
        if (egress_entry_valid(entries[i], strlen(entries[i])))
            fail_msg("'%s' taken", entries[i]);
}

/* What an address with its port could be read as is an address, never a name with a port. */
static void a_bare_address_may_end_like_a_port(void **state)
{
    (void)state;
    assert_true(egress_entry_valid("::1:443", 7));
    assert_false(egress_entry_valid("1:2:3:4:5:6:7:8:443", 19));
}

static void a_name_has_at_most_253_characters(void **state)
{
    char name[2 + 254 + 4];
    (void)state;
    memset(name, 'a', sizeof name);
    name[0] = '*';
    for (size_t i = 1; i < sizeof name; i += 50)
        name[i] = '.';
    memcpy(name + 2 + 253, ":443", 4);
    assert_true(egress_entry_valid(name + 2, 253));
    assert_true(egress_entry_valid(name + 2, 253 + 4));
    assert_true(egress_entry_valid(name, 2 + 253));
    memset(name + 2 + 253, 'a', 4);
    assert_false(egress_entry_valid(name + 2, 254));
    assert_false(egress_entry_valid(name, 2 + 254));
}

static void a_nul_ends_nothing(void **state)
{
    (void)state;
    assert_false(egress_entry_valid("a.b\0", 4));
    assert_false(egress_entry_valid("1.2.3.4\0", 8));
    assert_false(egress_entry_valid("::1\0", 4));
    assert_false(egress_entry_valid("[::1\0]", 6));
    assert_false(egress_entry_valid("a.b:8\0", 6));
    assert_false(egress_entry_valid("\0", 1));
}

static void every_byte_of_a_label_is_checked(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char name[] = "a?b.c";
        name[1] = (char)c;
        bool want = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        assert_int_equal(egress_entry_valid(name, 5), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_names_and_addresses),
        cmocka_unit_test(refuses_everything_else),
        cmocka_unit_test(a_bare_address_may_end_like_a_port),
        cmocka_unit_test(a_name_has_at_most_253_characters),
        cmocka_unit_test(a_nul_ends_nothing),
        cmocka_unit_test(every_byte_of_a_label_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
