#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"
#include "proxy/settings/snapshot.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define LISTS "\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[]"

static struct buf warnings, error;

static int set_up(void **state)
{
    (void)state;
    buf_init(&warnings, 1 << 20);
    buf_init(&error, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_free(&warnings);
    buf_free(&error);
    return 0;
}

static struct snapshot *build(const char *text, enum settings_use use, bool environment)
{
    struct issues issues;
    buf_clear(&warnings);
    buf_clear(&error);
    json_t *document = settings_parse(text, strlen(text), &error);
    assert_non_null(document);
    assert_true(schema_validate(document, use, &issues));
    issues_free(&issues);
    struct snapshot *s = snapshot_build(document, use, environment, &warnings, &error);
    json_decref(document);
    return s;
}

static void test_everything_arrives(void **state)
{
    (void)state;
    struct snapshot *s = build(
        "{\"network\":{\"allowedDomains\":[\"*.a.test\"],\"deniedDomains\":[\"x.a.test\"],"
        "\"deniedDomainReasons\":{\"x.a.test\":\"not that one\"},\"refuseOpaqueTunnels\":true,"
        "\"requireHostMatch\":true,\"stripResponseHeaders\":[\"Set-Cookie\",\"b\"],"
        "\"parentProxy\":{\"http\":\"http://p.test:8080\"}},\"ignoreViolations\":{\"*\":[\"/x\"]},"
        "\"proxy\":{\"listen\":[\"127.0.0.1:0\",\"unix:/s\"],\"listenAnyInterface\":true,"
        "\"auth\":{\"tokenFile\":\"/t\"},\"log\":\"-\",\"dns\":{\"servers\":[\"192.0.2.1\"],"
        "\"hostsFile\":false},\"limits\":{\"dnsTries\":2.0},\"timeouts\":{\"dialMs\":1e3}}}",
        SETTINGS_GATEWAY, false);
    assert_non_null(s);
    assert_string_equal(buf_cstr(&warnings), "");
    assert_true(s->refuse_opaque_tunnels && s->require_host_match && s->listen_any_interface);
    assert_false(s->tls_terminate || s->mask_credentials || s->dns_hosts);
    assert_string_equal(s->strip_response_headers[0], "set-cookie");
    assert_null(s->strip_response_headers[2]);
    assert_string_equal(s->listen[1], "unix:/s");
    assert_null(s->listen[2]);
    assert_string_equal(s->token_file, "/t");
    assert_string_equal(s->log_file, "-");
    assert_string_equal(s->dns_servers[0], "192.0.2.1");
    assert_int_equal(s->limits.dns_tries, 2);
    assert_int_equal(s->limits.dial_ms, 1000);
    assert_int_equal(s->limits.keep_alive_ms, limits_default.keep_alive_ms);
    assert_true(violation_suppressed(s->ignore_violations, "deny /x", NULL));
    assert_null(s->mitm_socket);

    struct host host;
    struct decision d;
    policy_decide(s->policy, "x.a.test", 8, 443, NULL, &host, &d);
    assert_int_equal(d.verdict, VERDICT_DENY);
    assert_string_equal(d.reason, "not that one");
    policy_decide(s->policy, "y.a.test", 8, 443, NULL, &host, &d);
    assert_int_equal(d.verdict, VERDICT_ALLOW);
    const struct parent_proxy *parent = routes_find(s->routes, &host, ROUTE_PLAIN);
    assert_non_null(parent);
    assert_int_equal(parent->port, 8080);

    assert_ptr_equal(snapshot_ref(s), s);
    snapshot_unref(s);
    assert_int_equal(s->refs, 1);
    snapshot_unref(s);
}

static void test_defaults(void **state)
{
    (void)state;
    struct snapshot *s = build("{\"network\":{" LISTS "}}", SETTINGS_GATEWAY, false);
    assert_non_null(s);
    assert_memory_equal(&s->limits, &limits_default, sizeof limits_default);
    assert_true(s->dns_hosts);
    assert_null(s->listen);
    assert_null(s->dns_servers);
    assert_null(s->strip_response_headers);
    assert_null(s->ignore_violations);
    snapshot_unref(s);
}

static void test_a_text_with_nul_does_not_become_shorter(void **state)
{
    (void)state;
    struct snapshot *s = build("{\"network\":{" LISTS "},\"ignoreViolations\":{\"*\":["
                               "\"d\\u0000x\"]}}",
                               SETTINGS_GATEWAY, false);
    assert_false(violation_suppressed(s->ignore_violations, "deny", NULL));
    snapshot_unref(s);
}

static void test_what_cannot_be_given_is_refused(void **state)
{
    (void)state;
    static const char tls[] = "{\"network\":{" LISTS ",\"tlsTerminate\":{}},"
                              "\"credentials\":{\"envVars\":[{\"name\":\"A\",\"mode\":\"mask\"}]}}";
    static const char both[] = "{\"network\":{" LISTS ",\"tlsTerminate\":{},\"mitmProxy\":{"
                               "\"socketPath\":\"/s\",\"domains\":[\"a.test\"]}},\"proxy\":{}}";
    assert_null(build(tls, SETTINGS_GATEWAY, false));
    assert_non_null(strstr(buf_cstr(&error), "Error: network.tlsTerminate: "));
    assert_non_null(strstr(buf_cstr(&error), "\nError: credentials: "));
    assert_null(build(both, SETTINGS_CHECK, false));
    assert_string_equal(
        buf_cstr(&error),
        "Error: network.tlsTerminate and network.mitmProxy are mutually exclusive\n");
    assert_null(build("{\"network\":{" LISTS ",\"parentProxy\":{\"http\":\"socks5://u:p@h:1\"}}}",
                      SETTINGS_GATEWAY, false));
    assert_non_null(strstr(buf_cstr(&error), "network.parentProxy.http"));
    assert_null(strstr(buf_cstr(&error), "u:p"));
}

static void test_what_a_sandbox_cannot_be_given(void **state)
{
    (void)state;
    static const char files[] = ",\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],"
                                "\"denyWrite\":[]}";
    static const struct {
        const char *network, *rest, *error;
    } rows[] = {
        {",\"tlsTerminate\":{}", "", ""},
        {",\"tlsTerminate\":{}",
         ",\"credentials\":{\"envVars\":[{\"name\":\"A\",\"mode\":\"mask\"}]}",
         "Error: credentials: srt does not put masked credentials back; remove the entries with "
         "mode \"mask\", or use mode \"deny\"\n"},
        {"",
         ",\"credentials\":{\"files\":[{\"path\":\"/a\",\"mode\":\"deny\"}],"
         "\"envVars\":[{\"name\":\"A\",\"mode\":\"deny\"}]},\"proxy\":{}",
         ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf text;
        buf_init(&text, 4096);
        buf_printf(&text, "{\"network\":{" LISTS "%s}%s%s}", rows[i].network, files, rows[i].rest);
        struct snapshot *s = build(buf_cstr(&text), SETTINGS_SANDBOX, false);
        assert_string_equal(buf_cstr(&error), rows[i].error);
        assert_int_equal(s == NULL, rows[i].error[0] != '\0');
        snapshot_unref(s);
        buf_free(&text);
    }
}

static enum verdict decide(const struct snapshot *s, const char *name)
{
    struct host host;
    struct decision d;
    policy_decide(s->policy, name, strlen(name), 443, NULL, &host, &d);
    return d.verdict;
}

static void test_an_update_changes_what_is_live(void **state)
{
    (void)state;
    static const struct host host = {.text = "new.test", .len = 8};
    struct snapshot *first =
        build("{\"network\":{" LISTS ",\"requireHostMatch\":true,\"stripResponseHeaders\":[\"a\"],"
              "\"parentProxy\":{\"http\":\"http://p.test:1\"}},"
              "\"proxy\":{\"limits\":{\"dnsTries\":2},\"dns\":{\"hostsFile\":false}}}",
              SETTINGS_GATEWAY, false);
    struct snapshot *second = build(
        "{\"network\":{\"allowedDomains\":[\"new.test\"],\"deniedDomains\":[\"ok.test\"],"
        "\"refuseOpaqueTunnels\":true,\"stripResponseHeaders\":[\"b\"],"
        "\"parentProxy\":{\"http\":\"http://p.test:2\"},"
        "\"mitmProxy\":{\"socketPath\":\"/s\",\"domains\":[\"m.test\"]}},"
        "\"ignoreViolations\":{\"*\":[\"x\"]},"
        "\"proxy\":{\"log\":\"/l\",\"listen\":[\"127.0.0.1:1\"],\"limits\":{\"dnsTries\":5}}}",
        SETTINGS_GATEWAY, false);
    struct snapshot *third = build("{\"network\":{" LISTS "}}", SETTINGS_GATEWAY, false);
    assert_true(first != NULL && second != NULL && third != NULL);

    snapshot_keep_fixed(second, first);
    snapshot_keep_fixed(third, second);
    assert_int_equal(decide(second, "ok.test"), VERDICT_DENY);
    assert_int_equal(decide(second, "new.test"), VERDICT_ALLOW);
    assert_true(violation_suppressed(second->ignore_violations, "x", NULL));
    assert_string_equal(second->mitm_socket, "/s");
    assert_null(third->mitm_socket);
    assert_null(third->ignore_violations);

    /* The fixed ones live as long as any of them. */
    snapshot_unref(first);
    snapshot_unref(second);
    assert_true(third->require_host_match);
    assert_false(third->refuse_opaque_tunnels || third->dns_hosts);
    assert_string_equal(third->strip_response_headers[0], "a");
    assert_int_equal(routes_find(third->routes, &host, ROUTE_PLAIN)->port, 1);
    assert_int_equal(third->limits.dns_tries, 2);
    assert_null(third->log_file);
    assert_null(third->listen);
    snapshot_unref(third);
}

static enum rule_verdict judge(const struct snapshot *s, const char *method)
{
    static const struct host host = {.text = "ok.test", .len = 7};
    struct rule_match match;
    enum rule_verdict verdict =
        request_rules_decide(s->request_rules, &host, 80, method, strlen(method), "/a", 2, &match);
    if (verdict == RULE_DENY)
        assert_string_equal(match.reason, "read only");
    return verdict;
}

static void test_request_rules(void **state)
{
    (void)state;
    static const char rules[] =
        "\"refuseOpaqueTunnels\":true,\"rules\":[{\"host\":\"ok.test\",\"methods\":[\"GET\"],"
        "\"paths\":[\"/a\"],\"action\":\"allow\"},"
        "{\"host\":\"ok.test\",\"action\":\"deny\",\"reason\":\"read only\"}]";
    char text[1000];
    snprintf(text, sizeof text, "{\"network\":{" LISTS ",%s}}", rules);
    struct snapshot *first =
        build("{\"network\":{" LISTS ",\"rules\":[]}}", SETTINGS_GATEWAY, false);
    struct snapshot *second = build(text, SETTINGS_GATEWAY, false);
    assert_string_equal(buf_cstr(&warnings), "");
    assert_null(first->request_rules);
    snapshot_keep_fixed(second, first);
    assert_int_equal(judge(second, "GET"), RULE_ALLOW);
    assert_int_equal(judge(second, "POST"), RULE_DENY);
    snapshot_unref(first);
    snapshot_unref(second);
}

static void test_parents_of_the_environment(void **state)
{
    (void)state;
    static const char text[] = "{\"network\":{" LISTS "}}";
    static const struct host host = {.text = "ok.test", .len = 7};
    setenv("HTTP_PROXY", "http://p.test:1", 1);
    unsetenv("NO_PROXY");
    unsetenv("no_proxy");
    struct snapshot *s = build(text, SETTINGS_GATEWAY, false);
    assert_null(routes_find(s->routes, &host, ROUTE_PLAIN));
    snapshot_unref(s);
    s = build(text, SETTINGS_GATEWAY, true);
    assert_non_null(routes_find(s->routes, &host, ROUTE_PLAIN));
    snapshot_unref(s);
    unsetenv("HTTP_PROXY");
}

static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        const char *allowed, *denied, *warnings;
    } rows[] = {
        {"\"a.test\"", "\"b.test\"", ""},
        {"", "\"*\"", ""},
        {"\"x y.test\"", "\"*.1\\u001b.2\"",
         "srt: warning: network.allowedDomains.0: entry \"x y.test\" can match no host\n"
         "srt: warning: network.deniedDomains.0: entry \"*.1\\x1b.2\" can match no host\n"},
        {"\"a.test\",\"b.test:1\"", "\"c.test\",\"*\"",
         "srt: warning: network.deniedDomains.1: entry \"*\" shadows every entry of "
         "network.allowedDomains\n"},
        {"\"a.test:1\"", "\"A.test\"",
         "srt: warning: network.deniedDomains.0: entry \"A.test\" shadows every entry of "
         "network.allowedDomains\n"},
        {"\"a.test\"", "\"*:443\"", ""},
        {"\"a.test\"", "\"*.test.x\",\"*.a.test\"", ""},
        {"\"*.b.a.test\",\"c.a.test\"", "\"*.a.test\"",
         "srt: warning: network.deniedDomains.0: entry \"*.a.test\" shadows every entry of "
         "network.allowedDomains\n"},
        {"\"127.1\",\"[::1]:5\"", "\"127.0.0.1\",\"[0::1]\"",
         "srt: warning: network.deniedDomains: its entries together shadow every entry of "
         "network.allowedDomains\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf text;
        buf_init(&text, 4096);
        buf_printf(&text, "{\"network\":{\"allowedDomains\":[%s],\"deniedDomains\":[%s]}}",
                   rows[i].allowed, rows[i].denied);
        struct snapshot *s = build(buf_cstr(&text), SETTINGS_GATEWAY, false);
        assert_non_null(s);
        assert_string_equal(buf_cstr(&warnings), rows[i].warnings);
        snapshot_unref(s);
        buf_free(&text);
    }
}

static void test_rules_that_tunnels_pass_by(void **state)
{
    (void)state;
#define PASSED(index, host)                                                                       \
    "srt: warning: network.rules." index ": rules judge plain HTTP requests only, since nothing " \
    "opens tunnels (network.tlsTerminate) or refuses them (network.refuseOpaqueTunnels); what "   \
    "goes to \"" host "\" through a tunnel, all HTTPS, is not judged\n"
    static const struct {
        const char *host, *more, *warnings;
    } rows[] = {
        {"ok.test", "", PASSED("1", "ok.test")},
        {"ok.test:80", "", ""},
        {"ok.test", ",\"refuseOpaqueTunnels\":true", ""},
        {"x y.test:80", "",
         "srt: warning: network.rules.1.host: entry \"x y.test:80\" can match no host\n"},
        {"x y.test", ",\"refuseOpaqueTunnels\":true",
         "srt: warning: network.rules.1.host: entry \"x y.test\" can match no host\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "{\"network\":{" LISTS ",\"rules\":[{\"host\":\"a.test:80\",\"action\":"
                 "\"deny\"},{\"host\":\"%s\",\"action\":\"deny\"}]%s}}",
                 rows[i].host, rows[i].more);
        struct snapshot *s = build(text, SETTINGS_GATEWAY, false);
        assert_non_null(s);
        assert_string_equal(buf_cstr(&warnings), rows[i].warnings);
        snapshot_unref(s);
    }
#undef PASSED
}

static void test_files(void **state)
{
    (void)state;
    char directory[] = "/tmp/test-snapshot-XXXXXX";
    assert_non_null(mkdtemp(directory));
    setenv("HOME", directory, 1);
    struct snapshot *s = snapshot_load(NULL, SETTINGS_SANDBOX, false, &warnings, &error);
    assert_non_null(s);
    assert_string_equal(buf_cstr(&error), "");
    snapshot_unref(s);

    char path[64];
    snprintf(path, sizeof path, "%s/.srt-settings.json", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"network\":{" LISTS "}}", file);
    fclose(file);
    struct buf expected;
    buf_init(&expected, 4096);
    buf_printf(&expected,
               "Error: %s does not hold a valid config \xE2\x80\x94 filesystem: Required\n"
               "Refusing to run with the built-in defaults, which would drop this file's rules "
               "(its denyRead, allowRead and credential entries included).\n",
               path);
    assert_null(settings_load(NULL, SETTINGS_SANDBOX, &error));
    assert_string_equal(buf_cstr(&error), buf_cstr(&expected));
    buf_clear(&error);
    json_t *gateway = settings_load(path, SETTINGS_GATEWAY, &error);
    assert_non_null(gateway);
    json_decref(gateway);
    buf_free(&expected);
    unlink(path);
    rmdir(directory);

    buf_clear(&error);
    json_t *document = settings_load(NULL, SETTINGS_SANDBOX, &error);
    assert_non_null(json_object_get(document, "filesystem"));
    assert_string_equal(buf_cstr(&error), "");
    json_decref(document);

    assert_null(settings_load("", SETTINGS_SANDBOX, &error));
    assert_string_equal(buf_cstr(&error),
                        "Error:  does not exist.\n"
                        "Refusing to run with the built-in defaults, which would drop the rules "
                        "--settings asked for.\n");
    buf_clear(&error);
    assert_null(settings_load("/", SETTINGS_SANDBOX, &error));
    assert_string_equal(buf_cstr(&error),
                        "Error: / could not be read (EISDIR).\n"
                        "Refusing to run with the built-in defaults, which would drop this file's "
                        "rules (its denyRead, allowRead and credential entries included).\n");
    buf_clear(&error);
    assert_null(snapshot_load("/nonexistent/x", SETTINGS_GATEWAY, false, &warnings, &error));
    assert_string_equal(buf_cstr(&error),
                        "Error: /nonexistent/x does not exist.\n"
                        "Refusing to run with the built-in defaults, which would drop the rules "
                        "--settings asked for.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_arrives),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_text_with_nul_does_not_become_shorter),
        cmocka_unit_test(test_what_cannot_be_given_is_refused),
        cmocka_unit_test(test_what_a_sandbox_cannot_be_given),
        cmocka_unit_test(test_an_update_changes_what_is_live),
        cmocka_unit_test(test_parents_of_the_environment),
        cmocka_unit_test(test_request_rules),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_rules_that_tunnels_pass_by),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
