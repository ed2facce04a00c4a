#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/route.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

struct variable {
    const char *name, *value;
};

/* ctx is a list of variables that ends with a NULL name. */
static const char *look_up(void *ctx, const char *name)
{
    for (const struct variable *v = ctx; v->name != NULL; v++) {
        if (strcmp(v->name, name) == 0)
            return v->value;
    }
    return NULL;
}

static struct buf warnings, error;

static int set_up(void **state)
{
    (void)state;
    buf_init(&warnings, 1 << 16);
    buf_init(&error, 1 << 16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&warnings);
    buf_free(&error);
    return 0;
}

static const struct parent_proxy *find(const struct routes *r, const char *text,
                                       enum route_kind kind)
{
    struct host host;
    assert_int_equal(host_canonicalise(text, strlen(text), &host), HOST_OK);
    return routes_find(r, &host, kind);
}

static struct routes *from_settings(const char *http, const char *https, const char *no_proxy)
{
    struct route_sources sources = {.http = http, .https = https, .no_proxy = no_proxy};
    return routes_new(&sources, &warnings, &error);
}

static struct routes *from_environment(struct variable *variables)
{
    struct route_sources sources = {.getenv = look_up, .ctx = variables};
    return routes_new(&sources, &warnings, &error);
}

static void urls_are_read_as_a_url_parser_reads_them(void **state)
{
    static const struct {
        const char *url, *host, *authorization;
        uint16_t port;
        bool tls;
    } cases[] = {
        {"http://proxy.test:3128", "proxy.test", NULL, 3128, false},
        {"proxy.test:3128", "proxy.test", NULL, 3128, false},
        {"proxy", "proxy", NULL, 80, false},
        {"HTTPS://Proxy.Test", "proxy.test", NULL, 443, true},
        {"http://proxy:/x?y#z", "proxy", NULL, 80, false},
        {"http://proxy\\x", "proxy", NULL, 80, false},
        {"http://127.1:8080", "127.0.0.1", NULL, 8080, false},
        {"http://pr%6Fxy", "proxy", NULL, 80, false},
        {"http://[2001:DB8::0:1]:3128", "2001:db8::1", NULL, 3128, false},
        {"[::ffff:1.2.3.4]", "::ffff:102:304", NULL, 80, false},
        {"http://proxy.test.", "proxy.test.", NULL, 80, false},
        {"http://u:p@proxy", "proxy", "Basic dTpw", 80, false},
        {"u@proxy", "proxy", "Basic dTo=", 80, false},
        {"http://:p@proxy", "proxy", "Basic OnA=", 80, false},
        {"http://:@proxy", "proxy", NULL, 80, false},
        {"http://@proxy", "proxy", NULL, 80, false},
        {"http://a@b:c:d@proxy", "proxy", "Basic YUBiOmM6ZA==", 80, false},
        {"http://u%40:p%3A%2f@proxy", "proxy", "Basic dUA6cDov", 80, false},
        {"http://u%zz:%70@proxy", "proxy", "Basic dSV6ejolNzA=", 80, false}, /* neither decoded */
        {"http://%FF:x@proxy", "proxy", "Basic /zp4", 80, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct routes *r = from_settings(cases[i].url, NULL, NULL);
        if (r == NULL)
            fail_msg("%s: %s", cases[i].url, buf_cstr(&error));
        const struct parent_proxy *p = find(r, "ok.test", ROUTE_PLAIN);
        assert_non_null(p);
        assert_int_equal(p->tls, cases[i].tls);
        assert_string_equal(p->host, cases[i].host);
        assert_int_equal(p->port, cases[i].port);
        if (cases[i].authorization == NULL)
            assert_null(p->authorization);
        else
            assert_string_equal(p->authorization, cases[i].authorization);
        routes_free(r);
    }
}

static const char *const unusable[] = {
    "socks5://proxy:1080",
    "ftp://proxy",
    "://x",
    "http://",
    "http:///",
    "http://:3128",
    "http://u:p@",
    "http://proxy:99999",
    "http://proxy:0",
    "http://proxy:80x",
    "http://proxy:-1",
    "http:proxy",
    "http://pro xy",
    " http://proxy",
    "http://proxy\n",
    "http://a..b",
    "http://256.1.1.1",
    "http://[::1",
    "http://[::1]x",
    "http://[1.2.3.4]",
    "http://[fe80::1%1]",
    "http://::1:80",
    "http://pr%zzxy",
    "http://pr%00xy",
    "http://%5B::1%5D",
    "http://\xC3\xBC",
    "?",
};

static void an_unusable_setting_is_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(unusable); i++) {
        if (from_settings(unusable[i], NULL, NULL) != NULL)
            fail_msg("accepted %s", unusable[i]);
        assert_non_null(strstr(buf_cstr(&error), "network.parentProxy.http "));
        buf_clear(&error);
        assert_null(from_settings("http://fine", unusable[i], NULL));
        assert_non_null(strstr(buf_cstr(&error), "network.parentProxy.https "));
        buf_clear(&error);
    }
    assert_int_equal(buf_len(&warnings), 0);
}

static void an_unusable_variable_is_a_warning(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(unusable); i++) {
        struct variable variables[] = {{"HTTP_PROXY", unusable[i]}, {NULL, NULL}};
        struct routes *r = from_environment(variables);
        assert_non_null(r);
        assert_null(find(r, "ok.test", ROUTE_TUNNEL));
        assert_ptr_equal(strstr(buf_cstr(&warnings), "srt: warning: HTTP_PROXY "),
                         buf_cstr(&warnings));
        assert_int_equal(buf_chars(&warnings)[buf_len(&warnings) - 1], '\n');
        buf_clear(&warnings);
        routes_free(r);
    }
    assert_int_equal(buf_len(&error), 0);
}

static void credentials_are_never_shown(void **state)
{
    static const char *const cases[] = {
        "socks5://user:secret@proxy",  "user:secret@proxy:99999", "http://user:sec/secret@proxy",
        "http://user:secret@x@pro xy", "user:?secret@proxy y",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct variable variables[] = {{"https_proxy", cases[i]}, {NULL, NULL}};
        routes_free(from_environment(variables));
        assert_null(from_settings(cases[i], NULL, NULL));
        assert_null(strstr(buf_cstr(&warnings), "secret"));
        assert_null(strstr(buf_cstr(&error), "secret"));
        assert_non_null(strstr(buf_cstr(&warnings), "***:***@"));
        assert_non_null(strstr(buf_cstr(&error), "***:***@"));
        buf_clear(&warnings);
        buf_clear(&error);
    }
}

static void the_first_source_that_is_set_counts(void **state)
{
    struct variable both[] = {{"HTTP_PROXY", "http://upper"},
                              {"http_proxy", "http://lower"},
                              {"HTTPS_PROXY", "http://supper"},
                              {"https_proxy", "http://slower"},
                              {"NO_PROXY", "a.test"},
                              {"no_proxy", "b.test"},
                              {NULL, NULL}};
    struct variable hidden[] = {{"HTTP_PROXY", ""}, {"http_proxy", "http://lower"}, {NULL, NULL}};
    struct variable broken[] = {
        {"HTTP_PROXY", "socks5://x"}, {"http_proxy", "http://lower"}, {NULL, NULL}};
    struct route_sources mixed = {.http = "http://set", .getenv = look_up, .ctx = both};
    struct routes *r;
    (void)state;

    r = from_environment(both);
    assert_string_equal(find(r, "ok.test", ROUTE_PLAIN)->host, "upper");
    assert_string_equal(find(r, "ok.test", ROUTE_TUNNEL)->host, "supper");
    assert_null(find(r, "a.test", ROUTE_PLAIN));
    assert_non_null(find(r, "b.test", ROUTE_PLAIN));
    routes_free(r);

    r = routes_new(&mixed, &warnings, &error);
    assert_string_equal(find(r, "ok.test", ROUTE_PLAIN)->host, "set");
    assert_string_equal(find(r, "ok.test", ROUTE_TUNNEL)->host, "supper");
    routes_free(r);

    mixed.no_proxy = "";
    r = routes_new(&mixed, &warnings, &error);
    assert_non_null(find(r, "a.test", ROUTE_PLAIN));
    routes_free(r);

    r = from_environment(hidden);
    assert_null(find(r, "ok.test", ROUTE_PLAIN));
    routes_free(r);
    assert_int_equal(buf_len(&warnings), 0);

    r = from_environment(broken);
    assert_null(find(r, "ok.test", ROUTE_PLAIN));
    routes_free(r);
}

static void a_tunnel_falls_back_to_the_http_proxy(void **state)
{
    static const char *const https[] = {NULL, ""};
    struct routes *r;
    (void)state;
    for (size_t i = 0; i < COUNT(https); i++) {
        r = from_settings("http://one", https[i], NULL);
        assert_string_equal(find(r, "ok.test", ROUTE_TUNNEL)->host, "one");
        routes_free(r);
    }
    r = from_settings(NULL, "http://two", NULL);
    assert_null(find(r, "ok.test", ROUTE_PLAIN));
    assert_string_equal(find(r, "ok.test", ROUTE_TUNNEL)->host, "two");
    routes_free(r);
    r = from_settings(NULL, NULL, NULL);
    assert_null(find(r, "ok.test", ROUTE_TUNNEL));
    routes_free(r);
    assert_null(find(NULL, "ok.test", ROUTE_TUNNEL));
    routes_free(NULL);
}

static void no_proxy_entries(void **state)
{
    static const struct {
        const char *list, *host;
        bool direct;
    } cases[] = {
        {"", "ok.test", false},
        {"", "localhost", true},
        {"", "a.localhost.", true},
        {"", "127.9.9.9", true},
        {"", "::1", true},
        {"", "[::ffff:127.0.0.1]", true},
        {"", "0.0.0.0", false},
        {"*", "10.0.0.1", true},
        {"x.test, *", "ok.test", true},
        {"**", "ok.test", false},
        {"ok.test", "OK.test.", true},
        {"OK.Test.", "ok.test", true},
        {"ok.test.:8443", "ok.test", true},
        {"ok.test", "a.b.ok.test", true},
        {"ok.test", "notok.test", false},
        {".ok.test", "ok.test", true},
        {"*.ok.test", "ok.test", true},
        {"*.ok.test:80", "a.ok.test", true},
        {"test", "ok.test", true},
        {".", "ok.test", false},
        {"*.", "ok.test", false},
        {"a*", "ab.test", false},
        {"a ,\t ok.test ,", "ok.test", true},
        {"a;ok.test", "ok.test", false},
        {"http://ok.test", "ok.test", false},
        /* addresses and ranges */
        {"10.0.0.0/8", "10.1.2.3", true},
        {"10.0.0.0/33", "10.1.2.3", false},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::/0", "10.1.2.3", false},
        {"::/0", "2001:db8::1", true},
        {"[2001:db8::]/32", "2001:db8::1", false},
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1:80", "10.0.0.1", true},
        {"[2001:DB8::1]", "2001:db8::1", true},
        {"[2001:db8::1]:443", "2001:db8::1", true},
        {"[2001:db8::1]:x", "2001:db8::1", false},
        {"fe80::1%eth0", "fe80::1", true},
        /* a suffix is no part of an address */
        {"3", "10.1.2.3", false},
        {".2.3", "10.1.2.3", false},
        {"10.", "10.1.2.3", false},
        {"10.1", "10.0.0.1", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct routes *r = from_settings("http://proxy", NULL, cases[i].list);
        if ((find(r, cases[i].host, ROUTE_TUNNEL) == NULL) != cases[i].direct)
            fail_msg("%s: %s", cases[i].list, cases[i].host);
        routes_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(urls_are_read_as_a_url_parser_reads_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_unusable_setting_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unusable_variable_is_a_warning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(credentials_are_never_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_source_that_is_set_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tunnel_falls_back_to_the_http_proxy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_proxy_entries, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
