/* requireHostMatch: which Host, authority and server name agree with the target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/http/target.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char host_text[] = "Host header does not match the request target";
static const char more_text[] = "more than one Host header";
static const char name_text[] = "TLS server name does not match the request target";
static const char unreadable_text[] = "TLS server name could not be read";
static const char authority_text[] = "request-target authority does not match the request target";

static const char *with_host(const char *value, const char *hostname, uint16_t port,
                             uint16_t default_port)
{
    size_t len = strlen(value);
    struct host_match m = {
        .host_headers = &value,
        .host_header_lens = &len,
        .host_header_count = 1,
        .hostname = hostname,
        .port = port,
        .default_port = default_port,
    };
    return host_mismatch(&m);
}

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *value, *hostname;
        uint16_t port, default_port;
        bool agrees;
    } rows[] = {
        {"a.test", "a.test", 80, 80, true},
        {"A.TEST", "a.test", 80, 80, true},
        {"a.test:80", "a.test", 80, 80, true},
        {"a.test:80", "a.test", 80, 443, true},
        {"a.test:8080", "a.test", 8080, 80, true},
        {"a.test:65535", "a.test", 65535, 80, true},
        {"a.test", "a.test", 8080, 80, false},
        {"a.test:080", "a.test", 80, 80, false},
        {"a.test:+80", "a.test", 80, 80, false},
        {"a.test:65616", "a.test", 80, 80, false},
        {"a.test:4294967376", "a.test", 80, 80, false},
        {"a.test:", "a.test", 80, 80, false},
        {"a.test.", "a.test", 80, 80, false},
        {" a.test", "a.test", 80, 80, false},
        {"a.test ", "a.test", 80, 80, false},
        {"u@a.test", "a.test", 80, 80, false},
        {"a.test/", "a.test", 80, 80, false},
        {"a.test:80/", "a.test", 80, 80, false},
        {"b.a.test", "a.test", 80, 80, false},
        {"a.tes", "a.test", 80, 80, false},
        {"", "a.test", 80, 80, false},
        {":80", "a.test", 80, 80, false},
        {"[a.test]", "a.test", 80, 80, false},
        {"127.1", "127.0.0.1", 80, 80, false},
        {"127.0.0.1", "127.0.0.1", 80, 80, true},
        {"[127.0.0.1]", "127.0.0.1", 80, 80, false},
        {"[::1]", "::1", 80, 80, true},
        {"[::1]:8080", "::1", 8080, 80, true},
        {"[FE80::A]", "fe80::a", 80, 80, true},
        {"::1", "::1", 80, 80, false},
        {"::1:80", "::1", 80, 80, false},
        {"[::1", "::1", 80, 80, false},
        {"[::1]x", "::1", 80, 80, false},
        {"[::1]:", "::1", 80, 80, false},
        {"[::1]80", "::1", 80, 80, false},
        {"[0::1]", "::1", 80, 80, false},
        {"[]", "::1", 80, 80, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *why =
            with_host(rows[i].value, rows[i].hostname, rows[i].port, rows[i].default_port);
        if (rows[i].agrees)
            assert_null(why);
        else
            assert_string_equal(why, host_text);
    }
}

/* A NUL inside a value is a byte like another. */
static void hosts_with_nul(void **state)
{
    (void)state;
    const char *value = "a.test\0x";
    size_t len = 8;
    struct host_match m = {
        .host_headers = &value,
        .host_header_lens = &len,
        .host_header_count = 1,
        .hostname = "a.test",
        .port = 80,
        .default_port = 80,
    };
    assert_string_equal(host_mismatch(&m), host_text);
}

static void the_first_check_that_fails_counts(void **state)
{
    (void)state;
    const char *values[] = {"b.test", "b.test"};
    const size_t lens[] = {6, 6};
    struct host_match m = {
        .host_headers = values,
        .host_header_lens = lens,
        .host_header_count = 2,
        .hostname = "a.test",
        .port = 443,
        .default_port = 443,
        .server_name_unreadable = true,
        .server_name = "b.test",
        .authority = "b.test",
    };
    assert_string_equal(host_mismatch(&m), unreadable_text);
    m.server_name_unreadable = false;
    assert_string_equal(host_mismatch(&m), name_text);
    m.server_name = "A.test";
    assert_string_equal(host_mismatch(&m), authority_text);
    m.authority = "A.test:443";
    assert_string_equal(host_mismatch(&m), more_text);
    m.host_header_count = 1;
    assert_string_equal(host_mismatch(&m), host_text);
    m.host_header_count = 0;
    assert_null(host_mismatch(&m));
    m.server_name = "a.test.";
    assert_string_equal(host_mismatch(&m), name_text);
    m.server_name = "";
    assert_string_equal(host_mismatch(&m), name_text);
    m.server_name = m.authority = NULL;
    assert_null(host_mismatch(&m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(hosts_with_nul),
        cmocka_unit_test(the_first_check_that_fails_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
