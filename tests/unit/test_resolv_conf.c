#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/net/resolv_conf.h"

/* "SERVER:PORT ...; DOMAIN ...; ndots timeout attempts flags" */
static void show(const struct resolv_conf *c, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < c->server_count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&c->servers[i].address, text);
        n += (size_t)snprintf(out + n, size - n, "%s:%u ", text, c->servers[i].port);
    }
    n += (size_t)snprintf(out + n, size - n, ";");
    for (size_t i = 0; i < c->domain_count; i++)
        n += (size_t)snprintf(out + n, size - n, " '%s'", c->domains[i]);
    snprintf(out + n, size - n, "; %u %u %u%s%s%s", c->ndots, c->timeout_s, c->attempts,
             c->rotate ? " rotate" : "", c->use_tcp ? " tcp" : "",
             c->no_tld_query ? " no-tld" : "");
}

static void check(const char *text, const struct resolv_environment *environment,
                  const char *expected)
{
    char got[1024];
    struct resolv_conf *c = resolv_conf_parse(text, strlen(text), environment);

    show(c, got, sizeof(got));
    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\": got \"%s\", not \"%s\"", text, got, expected);
    resolv_conf_release(c);
}

static void test_files(void **state)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "127.0.0.1:53 ;; 1 0 0"},
        {"nameserver 10.0.0.1\n", "10.0.0.1:53 ;; 1 0 0"},
        {"nameserver 10.0.0.1", "10.0.0.1:53 ;; 1 0 0"},
        {"nameserver\t10.0.0.1 \r\n", "10.0.0.1:53 ;; 1 0 0"},
        {"nameserver 10.0.0.1;x\nnameserver fd00::1 # y\n", "10.0.0.1:53 fd00::1:53 ;; 1 0 0"},
        {"nameserver [fd00::1]:5353\nnameserver 10.0.0.1:54\n",
         "fd00::1:5353 10.0.0.1:54 ;; 1 0 0"},
        {"nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\nnameserver 4.4.4.4\n",
         "1.1.1.1:53 2.2.2.2:53 3.3.3.3:53 ;; 1 0 0"},
        {" nameserver 10.0.0.1\n#nameserver 10.0.0.1\nnameserver10.0.0.1\nnameserver x\n",
         "127.0.0.1:53 ;; 1 0 0"},
        {"search a.test b.test.\n", "127.0.0.1:53 ; 'a.test' 'b.test'; 1 0 0"},
        {"search .\n", "127.0.0.1:53 ; ''; 1 0 0"},
        {"search a b\ndomain c d\n", "127.0.0.1:53 ; 'c'; 1 0 0"},
        {"domain c\nsearch a b\n", "127.0.0.1:53 ; 'a' 'b'; 1 0 0"},
        {"search a\nsearch\n", "127.0.0.1:53 ; 'a'; 1 0 0"},
        {"search a..b .c # \\d a_b-9\n", "127.0.0.1:53 ; 'a_b-9'; 1 0 0"},
        {"options ndots:2 timeout:3 attempts:4 rotate use-vc no-tld-query\n",
         "127.0.0.1:53 ;; 2 3 4 rotate tcp no-tld"},
        {"options ndots:0\n", "127.0.0.1:53 ;; 0 0 0"},
        {"options ndots:99 timeout:99 attempts:99\n", "127.0.0.1:53 ;; 15 30 5"},
        {"options timeout:0 attempts:0\n", "127.0.0.1:53 ;; 1 1 1"},
        {"options ndots: ndots:x ndots:-1 ndots:99999999999999999999 timeout:1x edns0\n",
         "127.0.0.1:53 ;; 15 0 0"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(cases[i].text, NULL, cases[i].expected);
}

static void test_environment(void **state)
{
    struct resolv_environment e = {.host_name = "box.home.test"};
    (void)state;

    check("", &e, "127.0.0.1:53 ; 'home.test'; 1 0 0");
    check("search a\n", &e, "127.0.0.1:53 ; 'a'; 1 0 0");
    e.host_name = "box";
    check("", &e, "127.0.0.1:53 ;; 1 0 0");
    e.host_name = "box.";
    check("", &e, "127.0.0.1:53 ;; 1 0 0");
    e.local_domain = "x y";
    e.options = "ndots:3";
    check("search a\noptions ndots:2 rotate\n", &e, "127.0.0.1:53 ; 'x' 'y'; 3 0 0 rotate");
    e.local_domain = "";
    check("search a\n", &e, "127.0.0.1:53 ;; 3 0 0");
}

static void test_bounds(void **state)
{
    char text[2048] = "search";
    size_t n = strlen(text);
    (void)state;

    for (unsigned i = 0; i < 2 * RESOLV_DOMAINS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " d%u", i);
    struct resolv_conf *c = resolv_conf_parse(text, n, NULL);
    assert_int_equal(c->domain_count, RESOLV_DOMAINS_MAX);
    resolv_conf_release(resolv_conf_hold(c));
    assert_string_equal(c->domains[0], "d0");
    resolv_conf_release(c);
    resolv_conf_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
