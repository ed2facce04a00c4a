#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/settings/load.h"
#include "proxy/settings/schema.h"
#include "proxy/settings/url.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define NETWORK "\"network\":{\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[]}"
#define FILES "\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]}"

/* "path: message" of every issue, "; " between them. */
static char *issues_of(const char *text, enum settings_use use)
{
    struct buf error, out;
    struct issues issues;
    buf_init(&error, 1000);
    buf_init(&out, 1 << 20);
    json_t *document = settings_parse(text, strlen(text), &error);
    assert_non_null(document);
    bool valid = schema_validate(document, use, &issues);
    assert_true(valid == (issues.count == 0));
    for (size_t i = 0; i < issues.count; i++)
        buf_printf(&out, "%s%s: %s", i != 0 ? "; " : "", issues.list[i].path,
                   issues.list[i].message);
    char *copy = mem_dup(buf_cstr(&out));
    issues_free(&issues);
    json_decref(document);
    buf_free(&error);
    buf_free(&out);
    return copy;
}

static void expect(const char *text, enum settings_use use, const char *issues)
{
    char *got = issues_of(text, use);
    assert_string_equal(got, issues);
    free(got);
}

static void test_filesystem_is_needed_by_a_sandbox(void **state)
{
    (void)state;
    expect("{" NETWORK "," FILES "}", SETTINGS_SANDBOX, "");
    expect("{" NETWORK "}", SETTINGS_SANDBOX, "filesystem: Required");
    expect("{" NETWORK ",\"proxy\":{}}", SETTINGS_SANDBOX, "filesystem: Required");
    expect("{" NETWORK "}", SETTINGS_GATEWAY, "");
    expect("{" NETWORK "}", SETTINGS_CHECK, "filesystem: Required");
    expect("{" NETWORK ",\"proxy\":{}}", SETTINGS_CHECK, "");
    expect("{" NETWORK ",\"filesystem\":1}", SETTINGS_GATEWAY,
           "filesystem: Expected object, received number");
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *value, *issues;
    } rows[] = {
        {"1", ""},
        {"3.0", ""},
        {"3e0", ""},
        {"30e-1", ""},
        {"2.5", "Expected integer, received float"},
        {"0.5", "Expected integer, received float; mandatoryDenySearchDepth: Number must be "
                "greater than or equal to 1"},
        {"11", "Number must be less than or equal to 10"},
        {"99999999999999999999999999", "Number must be less than or equal to 10"},
        {"1e999", "Number must be less than or equal to 10"},
        {"-1e999", "Number must be greater than or equal to 1"},
        {"\"3\"", "Expected number, received string"},
        {"null", "Expected number, received null"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[500], want[500] = "";
        snprintf(text, sizeof text, "{" NETWORK "," FILES ",\"mandatoryDenySearchDepth\":%s}",
                 rows[i].value);
        if (rows[i].issues[0] != '\0')
            snprintf(want, sizeof want, "mandatoryDenySearchDepth: %s", rows[i].issues);
        expect(text, SETTINGS_SANDBOX, want);
    }
}

static void test_a_type_failure_hides_rules_over_several_values(void **state)
{
    (void)state;
    static const char glob[] = "filesystem.denyRead.0: Deny glob \"/a/*//\" ends in a separator, "
                               "so as a pattern it can match no path. Write \"/a/*\", which is "
                               "also read as the path of that name where it exists, or add a "
                               "\"**\" segment to match at any depth.";
    expect("{" NETWORK ",\"filesystem\":{\"denyRead\":[\"/a/*//\"],\"allowWrite\":[],"
           "\"denyWrite\":[]}}",
           SETTINGS_SANDBOX, glob);
    expect("{" NETWORK ",\"filesystem\":{\"denyRead\":[\"/a/*//\"],\"allowWrite\":[],"
           "\"denyWrite\":[]},\"allowPty\":1}",
           SETTINGS_SANDBOX, "allowPty: Expected boolean, received number");
    char want[1000];
    snprintf(want, sizeof want, "bwrapPath: Binary path must be absolute; %s", glob);
    expect("{" NETWORK ",\"filesystem\":{\"denyRead\":[\"/a/*//\"],\"allowWrite\":[],"
           "\"denyWrite\":[]},\"bwrapPath\":\"x\"}",
           SETTINGS_SANDBOX, want);
}

static void test_path_entries(void **state)
{
    (void)state;
    expect("{" NETWORK ",\"filesystem\":{\"denyRead\":[\"\",{\"path\":\"\",\"literal\":true,"
           "\"x\":1},{\"path\":\"a\",\"literal\":false}],\"allowWrite\":[],\"denyWrite\":[]}}",
           SETTINGS_SANDBOX,
           "filesystem.denyRead.0: Path cannot be empty; "
           "filesystem.denyRead.1.path: Path cannot be empty; "
           "filesystem.denyRead.1: Unrecognized key(s) in object: 'x'; "
           "filesystem.denyRead.2: Expected a path, or { \"path\": \"<path>\", \"literal\": true "
           "}");
}

static void test_a_nul_fails_a_pattern(void **state)
{
    (void)state;
    char *got = issues_of("{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[\"a.b\\u0000c\"]"
                          "}}",
                          SETTINGS_GATEWAY);
    assert_ptr_equal(strstr(got, "network.deniedDomains.0: Invalid domain pattern."), got);
    free(got);
}

static void test_aws_pairs(void **state)
{
    (void)state;
    expect("{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[],\"tlsTerminate\":{}}," FILES
           ",\"credentials\":{\"envVars\":[{\"name\":\"A\",\"mode\":\"mask\"},{\"name\":\"B\","
           "\"mode\":\"mask\",\"decode\":\"jwt\"}],\"awsPairs\":[{\"accessKeyIdVar\":\"A\","
           "\"secretAccessKeyVar\":\"A\",\"sessionTokenVar\":\"B\"}]}}",
           SETTINGS_SANDBOX,
           "credentials.awsPairs.0.secretAccessKeyVar: \"A\" appears in more than one awsPairs "
           "slot (within or across pairs) — each variable can fill exactly one slot.; "
           "credentials.awsPairs.0.sessionTokenVar: \"B\" uses extract/decode, but an AWS pair "
           "member must be masked whole-value: the SigV4 trigger is an exact match of the fake "
           "access key id, and the signer needs the entire real value.");
}

static void test_extract_says_why_it_is_none(void **state)
{
    (void)state;
    expect("{" NETWORK "," FILES ",\"credentials\":{\"files\":[{\"path\":\"/f\",\"mode\":\"deny\","
           "\"extract\":\"(a\"}]}}",
           SETTINGS_SANDBOX,
           "credentials.files.0.extract: extract is not a valid regular expression: Invalid "
           "regular expression: /(a/: Unterminated group");
}

static void test_own_keys_are_strict_and_come_last(void **state)
{
    (void)state;
    expect("{\"proxy\":{\"x\":1,\"auth\":{},\"limits\":{\"dnsTries\":0,\"y\":1},\"timeouts\":"
           "{\"dialMs\":10},\"dns\":{\"servers\":[\"::1\",\"[::1]\"]},\"listen\":[\"[::1]:0\","
           "\"host:1\",\"unix:/s\"],\"log\":\"a\\u0000\"},\"decider\":{\"x\":1}," NETWORK
           ",\"allowPty\":0}",
           SETTINGS_GATEWAY,
           "allowPty: Expected boolean, received number; "
           "proxy.listen.1: Invalid listen address. Use ADDRESS:PORT, [IPV6]:PORT, "
           "localhost:PORT or unix:PATH, e.g. \"127.0.0.1:3128\".; "
           "proxy.auth.tokenFile: Required; "
           "proxy.log: String must not contain a NUL character; "
           "proxy.dns.servers.1: Invalid DNS server. Use ADDRESS, ADDRESS:PORT or [IPV6]:PORT, "
           "e.g. \"192.0.2.53\" or \"[2001:db8::53]:5353\".; "
           "proxy.limits.dnsTries: Number must be greater than or equal to 1; "
           "proxy.limits: Unrecognized key(s) in object: 'y'; "
           "proxy: Unrecognized key(s) in object: 'x'; "
           "decider: Unrecognized key(s) in object: 'x'");
}

#define RULE(rest) "[{\"host\":\"ok.test\",\"action\":\"deny\"" rest "}]"
#define HOST(pattern) "[{\"host\":\"" pattern "\",\"action\":\"allow\"}]"
#define BAD_HOST                                                                           \
    "network.rules.0.host: Invalid host pattern. Use what network.deniedDomains takes: a " \
    "name, \"*.example.com\", an address or \"*\", with an optional \":port\"."
#define BAD_PATH(i)                                                                           \
    "network.rules.0.paths." #i ": Invalid path pattern. Use a path that starts with \"/\", " \
    "with \"*\" for one whole segment, \"**\" once for any number of them, and \"?\" before " \
    "an exact query; without empty or dot segments, \"\\\", \"#\" or escapes of \"/\" and "   \
    "\"\\\"."
#define CLOSED                                                                              \
    "network.rules.0.host: A rule for port 443 has to see inside TLS, which nothing opens " \
    "without network.tlsTerminate. Add that, or use network.allowedDomains and "            \
    "network.deniedDomains."
#define EXCLUDED                                                        \
    "network.rules.0.host: A rule for port 443 has to see inside TLS, " \
    "which network.tlsTerminate.excludeDomains leaves closed for this host."

static void test_request_rules(void **state)
{
    (void)state;
    static const struct {
        const char *rules, *issues, *terminate;
    } rows[] = {
        {"[]", "", NULL},
        {RULE(""), "", NULL},
        {RULE(",\"methods\":[\"GET\",\"m-search\"],\"paths\":[\"/a/*\",\"/**?x=1\"],"
              "\"reason\":\"no\""),
         "", NULL},
        {HOST("*"), "", NULL},
        {HOST("*.ok.test:8443"), "", NULL},
        {HOST("[2001:db8::1]:80"), "", NULL},
        {"{}", "network.rules: Expected array, received object", NULL},
        {"[1]", "network.rules.0: Expected object, received number", NULL},
        {"[{}]", "network.rules.0.host: Required; network.rules.0.action: Required", NULL},
        {RULE(",\"path\":[\"/\"]"), "network.rules.0: Unrecognized key(s) in object: 'path'", NULL},
        {HOST("*.com"), BAD_HOST, NULL},
        {HOST("http://ok.test"), BAD_HOST, NULL},
        {HOST("ok.test:0"), BAD_HOST, NULL},
        {HOST("ok.test\\u0000"), BAD_HOST, NULL},
        {"[{\"host\":\"ok.test\",\"action\":\"ask\"}]",
         "network.rules.0.action: Invalid enum value. Expected 'allow' | 'deny', received 'ask'",
         NULL},
        {RULE(",\"methods\":[]"),
         "network.rules.0.methods: Array must contain at least 1 element(s)", NULL},
        {RULE(",\"methods\":[\"GET /\"]"),
         "network.rules.0.methods.0: Invalid method. Use one method of HTTP, e.g. \"GET\".", NULL},
        {RULE(",\"methods\":[\"CONNECT\"]"),
         "network.rules.0.methods.0: Rules do not judge tunnels. Use network.allowedDomains and "
         "network.deniedDomains for them.",
         NULL},
        {RULE(",\"paths\":[]"), "network.rules.0.paths: Array must contain at least 1 element(s)",
         NULL},
        {RULE(",\"paths\":[\"/ok\",\"a\",\"/a*\"]"), BAD_PATH(1) "; " BAD_PATH(2), NULL},
        {RULE(",\"reason\":\"\""),
         "network.rules.0.reason: String must contain at least 1 character(s)", NULL},
        {RULE(",\"reason\":\"a\\u0000\""),
         "network.rules.0.reason: String must not contain a NUL character", NULL},
        {HOST("ok.test:443"), CLOSED, NULL},
        {HOST("*:443"), CLOSED, NULL},
        {HOST("[::1]:443"), CLOSED, NULL},
        {HOST("ok.test:443"), "", "{}"},
        {HOST("*:443"), "", "{\"excludeDomains\":[\"*.ok.test\",\"::1\"]}"},
        {HOST("a.ok.test:443"), EXCLUDED, "{\"excludeDomains\":[\"*.ok.test\",\"::1\"]}"},
        {HOST("*.ok.test:443"), EXCLUDED, "{\"excludeDomains\":[\"*.ok.test\",\"::1\"]}"},
        {HOST("[::1]:443"), EXCLUDED, "{\"excludeDomains\":[\"*.ok.test\",\"::1\"]}"},
        {HOST("a.ok.test"), "", "{\"excludeDomains\":[\"*.ok.test\",\"::1\"]}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[],\"rules\":%s%s%s}}",
                 rows[i].rules, rows[i].terminate != NULL ? ",\"tlsTerminate\":" : "",
                 rows[i].terminate != NULL ? rows[i].terminate : "");
        expect(text, SETTINGS_GATEWAY, rows[i].issues);
    }
}

static json_t *repeated(const json_t *item, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_deep_copy(item));
    return list;
}

static void test_request_rules_are_bounded(void **state)
{
    (void)state;
    static const char *const keys[] = {"methods", "paths", "rules", "host", "reason"};
    char reason[1002], host[302];
    memset(reason, 'r', sizeof reason);
    memset(host, 'h', sizeof host);
    host[290] = '.';
    for (size_t over = 0; over < 2; over++) {
        for (size_t i = 0; i < COUNT(keys); i++) {
            struct issues issues;
            json_t *rule = json_pack("{s:s,s:s}", "host", "ok.test", "action", "deny");
            if (i < 2) {
                json_t *item = json_string(i == 0 ? "GET" : "/a");
                json_object_set_new(rule, keys[i], repeated(item, 100 + over));
                json_decref(item);
            } else if (i > 2) {
                json_object_set_new(rule, keys[i],
                                    i == 3 ? json_stringn(host, 300 + over)
                                           : json_stringn(reason, 1000 + over));
            }
            json_t *rules = repeated(rule, i == 2 ? 1000 + over : 1);
            json_t *document = json_pack("{s:{s:[],s:[],s:o}}", "network", "allowedDomains",
                                         "deniedDomains", "rules", rules);
            if (schema_validate(document, SETTINGS_GATEWAY, &issues) != (over == 0))
                fail_msg("%s: %zu", keys[i], over);
            issues_free(&issues);
            json_decref(document);
            json_decref(rule);
        }
    }
}

static void test_the_number_of_issues_kept_is_bounded(void **state)
{
    (void)state;
    struct issues issues;
    json_t *list = json_array();
    for (int i = 0; i < 5000; i++)
        json_array_append_new(list, json_integer(i));
    json_t *document =
        json_pack("{s:{s:o,s:[]}}", "network", "allowedDomains", list, "deniedDomains");
    assert_false(schema_validate(document, SETTINGS_GATEWAY, &issues));
    assert_int_equal(issues.count, 1000);
    assert_int_equal(issues.dropped, 4000);
    assert_string_equal(issues.list[999].path, "network.allowedDomains.999");
    issues_free(&issues);
    json_decref(document);
}

static void test_urls(void **state)
{
    (void)state;
    static const char *const good[] = {
        "http://p:1",      "p:3128",           "HTTP://p",
        " http://p/\t",    "http:p",           "http:\\\\p",
        "http://u:p@h:",   "http://[::1]:1",   "http://127.1",
        "s5://",           "http://%41.b",     "a:",
        "http://a..b",     "http://b\xc3\xbc", "file:x",
        "file://C:/x",     "p://h:0065535",    "http://a.b?:x",
        "http://1.2.3.4.",
    };
    static const char *const bad[] = {
        "",
        "proxy",
        "not a url",
        "1a:b",
        "http://",
        "http://:1",
        "http://u@",
        "http://h:65536",
        "http://h:x",
        "http://256.1.1.1",
        "http://a.1",
        "http://[::1",
        "http://[1]",
        "http://a b",
        "http://a<b",
        "p://a b",
        "http://%00",
        "http://%zz",
        "http://a:1:2",
        "p://:1",
        "http://\xef\xbc\x8f",
    };
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(url_parses(good[i], strlen(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(url_parses(bad[i], strlen(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filesystem_is_needed_by_a_sandbox),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_a_type_failure_hides_rules_over_several_values),
        cmocka_unit_test(test_path_entries),
        cmocka_unit_test(test_a_nul_fails_a_pattern),
        cmocka_unit_test(test_aws_pairs),
        cmocka_unit_test(test_extract_says_why_it_is_none),
        cmocka_unit_test(test_own_keys_are_strict_and_come_last),
        cmocka_unit_test(test_request_rules),
        cmocka_unit_test(test_request_rules_are_bounded),
        cmocka_unit_test(test_the_number_of_issues_kept_is_bounded),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
