#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "decider/reference/rules_file.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define RULES(list) "{\"allowedDomains\":[],\"deniedDomains\":[],\"rules\":[" list "]}"

/* JSON with ' for ". */
static char *unquote(char out[4096], const char *s)
{
    snprintf(out, 4096, "%s", s);
    for (char *c = out; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    return out;
}

static struct decider_rules *parse(const char *text)
{
    char json[4096];
    struct buf error;
    buf_init(&error, 65536);
    unquote(json, text);
    struct decider_rules *rules = decider_rules_parse("r", json, strlen(json), &error);
    if (rules == NULL)
        print_error("%s\n%s", json, buf_cstr(&error));
    assert_non_null(rules);
    buf_free(&error);
    return rules;
}

static void read_message(struct peer_message *m, const char *text)
{
    char json[4096];
    const char *why;
    unquote(json, text);
    if (!peer_message_read(m, (const uint8_t *)json, strlen(json), &why))
        fail_msg("%s: %s", json, why);
}

/* "allow 0", "deny 403 default: reason", "need 10": what, by which rule. */
static void show(char out[400], const struct rule_decision *decision)
{
    const struct decider_verdict *v = decision->verdict;
    char rule[40];
    snprintf(rule, sizeof rule, "%ld", decision->rule);
    if (decision->rule == RULE_NONE_APPLIED)
        snprintf(rule, sizeof rule, "default");
    if (v->action == DECIDER_ALLOW)
        snprintf(out, 400, "allow %s", rule);
    else
        snprintf(out, 400, "deny %u %s", v->status, rule);
}

static void decide(const struct decider_rules *rules, const char *message, char out[400])
{
    struct peer_message m;
    struct rule_result result;
    read_message(&m, message);
    decider_rules_decide(rules, &m, &result);
    show(out, &result.decision);
    if (result.body_max != 0)
        snprintf(out, 400, "need %u", result.body_max);
    rule_result_free(&result);
    peer_message_free(&m);
}

struct row {
    const char *message, *want;
};

static void check_rows(const char *text, const struct row *rows, size_t count)
{
    struct decider_rules *rules = parse(text);
    for (size_t i = 0; i < count; i++) {
        char got[400];
        decide(rules, rows[i].message, got);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s: %s, not %s", rows[i].message, got, rows[i].want);
    }
    decider_rules_unref(rules);
}

#define REQUEST(method, host, path) \
    "{'t':'req','id':1,'method':'" method "','host':'" host "','port':443,'path':'" path "'}"
#define REQUEST_QUERY(path, query)                                              \
    "{'t':'req','id':1,'method':'GET','host':'a.test','port':443,'path':'" path \
    "','query':'" query "'}"
#define REQUEST_HEADERS(headers)                                                                 \
    "{'t':'req','id':1,'method':'GET','host':'a.test','port':443,'path':'/','headers':{" headers \
    "}}"
#define CONNECTION(via, host, more) \
    "{'t':'conn','id':1,'via':'" via "','host':'" host "','port':443,'client':'local'" more "}"

static void test_the_first_rule_that_applies_decides(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REQUEST("GET", "a.test", "/"), "allow 0"},
        {REQUEST("get", "a.test", "/"), "allow 0"},
        {REQUEST("POST", "a.test", "/"), "deny 451 1"},
        {REQUEST("GET", "b.a.test", "/"), "allow 2"},
        {REQUEST("GET", "other.test", "/"), "deny 403 default"},
        {CONNECTION("connect", "a.test", ""), "deny 451 1"},
        {CONNECTION("connect", "b.a.test", ""), "allow 2"},
        {CONNECTION("connect", "other.test", ""), "deny 403 default"},
    };
    check_rows(RULES("{'host':'a.test','methods':['GET','HEAD'],'action':'allow'},"
                     "{'host':'a.test','action':'deny','status':451},"
                     "{'host':'*.a.test:443','action':'allow'},"
                     "{'host':'*.a.test','action':'deny'}"),
               rows, COUNT(rows));
}

static void test_hosts_are_those_of_the_lists(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REQUEST("GET", "127.0.0.1", "/"), "allow 0"},
        {REQUEST("GET", "2001:db8::1", "/"), "allow 1"},
        {REQUEST("GET", "[2001:db8::1]", "/"), "allow 1"},
        {REQUEST("GET", "A.TEST.", "/"), "allow 2"},
        {REQUEST("GET", "b..test", "/"), "deny 400 -2"},
        {REQUEST("GET", "b test", "/"), "deny 400 -2"},
        {REQUEST("GET", "b.test", "/"), "allow 3"},
        {CONNECTION("socks", "b..test", ""), "deny 400 -2"},
    };
    check_rows(RULES("{'host':'127.0.0.1','action':'allow'},"
                     "{'host':'[2001:db8::1]:443','action':'allow'},"
                     "{'host':'a.test','action':'allow'},{'action':'allow'}"),
               rows, COUNT(rows));
}

static void test_paths_are_those_of_network_rules(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REQUEST("GET", "a.test", "/v1"), "allow 0"},
        {REQUEST("GET", "a.test", "/v1/x/../y"), "allow 0"},
        {REQUEST("GET", "a.test", "//v1/%78"), "allow 0"},
        {REQUEST("GET", "a.test", "/v1/../v2"), "deny 403 default"},
        {REQUEST("GET", "a.test", "/v1/a%2fb"), "deny 400 0"},
        {REQUEST("GET", "a.test", "/v2/%2e%2e/v1"), "deny 400 0"},
        {REQUEST("GET", "b.test", "/v2/%2e%2e/v1"), "allow 2"},
        {REQUEST("GET", "c.test", "/v2/%2e%2e/v1"), "allow 3"},
        {REQUEST_QUERY("/q", "x=1"), "allow 1"},
        {REQUEST_QUERY("/q", "x=2"), "deny 403 default"},
        {REQUEST_QUERY("/q", "x=1#f"), "allow 1"},
        {REQUEST_QUERY("/v1#/..", "x"), "allow 0"},
        {REQUEST_QUERY("/q", "x=%zz"), "deny 400 1"},
        {REQUEST("GET", "a.test", "/q"), "deny 403 default"},
        {REQUEST("OPTIONS", "a.test", "*"), "deny 403 default"},
    };
    check_rows(RULES("{'host':'a.test','paths':['/v1/**'],'action':'allow'},"
                     "{'host':'a.test','paths':['/q?x=1'],'action':'allow'},"
                     "{'host':'b.test','action':'allow'},"
                     "{'host':'c.test','paths':['/x','/**'],'action':'allow'}"),
               rows, COUNT(rows));
}

static void test_headers_in_every_spelling(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REQUEST_HEADERS("'x-upload-token':['1']"), "deny 403 0"},
        {REQUEST_HEADERS("'x_upload.token':['1']"), "deny 403 0"},
        {REQUEST_HEADERS("'x-upload-tokens':['1']"), "deny 403 default"},
        {REQUEST_HEADERS("'x-upload':['1']"), "deny 403 default"},
        {REQUEST_HEADERS("'accept':['*/*'],'x-a':['']"), "allow 1"},
        {REQUEST_HEADERS("'x-a':[''],'x-b':['']"), "deny 403 default"},
        {REQUEST("GET", "a.test", "/"), "deny 403 default"},
        {CONNECTION("http", "a.test", ""), "deny 403 default"},
    };
    check_rows(RULES("{'headers':{'X-Upload-Token':true},'action':'deny'},"
                     "{'headers':{'x-a':true,'x-b':false},'action':'allow'}"),
               rows, COUNT(rows));
}

static void test_connections_by_how_they_came_and_who(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {CONNECTION("socks", "a.test", ""), "deny 403 0"},
        {CONNECTION("connect", "a.test", ",'user':'ann'"), "allow 1"},
        {CONNECTION("connect", "a.test", ",'user':'anna'"), "deny 403 default"},
        {CONNECTION("connect", "a.test", ""), "deny 403 default"},
        {CONNECTION("http", "b.test", ""), "allow 2"},
        {REQUEST("GET", "b.test", "/"), "deny 403 default"},
        {REQUEST("GET", "c.test", "/"), "allow 3"},
    };
    check_rows(RULES("{'via':['socks'],'action':'deny'},{'user':'ann','action':'allow'},"
                     "{'host':'b.test','ttl':60,'action':'allow'},"
                     "{'host':'c.test','setHeaders':{'x':'y'},'action':'allow'}"),
               rows, COUNT(rows));
}

static void test_defaults(void **state)
{
    (void)state;
    static const struct row denied[] = {{REQUEST("GET", "a.test", "/"), "deny 403 default"}};
    static const struct row status[] = {{REQUEST("GET", "a.test", "/"), "deny 404 default"}};
    static const struct row allowed[] = {{REQUEST("GET", "a.test", "/"), "allow default"},
                                         {CONNECTION("http", "a.test", ""), "allow default"}};
    check_rows(RULES(""), denied, COUNT(denied));
    check_rows("{'allowedDomains':[],'deniedDomains':[],'rules':[],"
               "'default':{'action':'deny','status':404}}",
               status, COUNT(status));
    check_rows("{'allowedDomains':[],'deniedDomains':[],'rules':[],'default':{'action':'allow'}}",
               allowed, COUNT(allowed));
}

static void test_the_answers_hold_what_the_rule_says(void **state)
{
    (void)state;
    struct decider_rules *rules =
        parse("{'allowedDomains':['a.test'],'deniedDomains':['b.test','c.test:1'],"
              "'asks':['request'],'rules':[{'action':'allow','setHeaders':{'X-One':'1',"
              "'x-two':['2','3']},'removeHeaders':['Accept','x-old']},"
              "{'action':'deny','reason':'no','status':499}]}");
    const struct decider_verdict *allow = &rules->rules[0].request;
    const struct decider_verdict *deny = &rules->rules[1].request;
    assert_int_equal(rules->asks, DECIDER_REQUESTS);
    assert_int_equal(rules->allowed_count, 1);
    assert_string_equal(rules->denied[1], "c.test:1");
    assert_int_equal(allow->set_count, 2);
    assert_string_equal(allow->set[0].name, "x-one");
    assert_int_equal(allow->set[0].value_count, 1);
    assert_string_equal(allow->set[1].values[1], "3");
    assert_int_equal(allow->removed_count, 2);
    assert_string_equal(allow->removed[0], "accept");
    assert_int_equal(rules->rules[0].connection.set_count, 0);
    assert_int_equal(rules->rules[0].connection.removed_count, 0);
    assert_int_equal(deny->status, 499);
    assert_string_equal(deny->reason, "no");
    decider_rules_unref(rules);

    rules = parse(RULES("{'action':'allow','ttl':7.0}"));
    assert_int_equal(rules->asks, DECIDER_CONNECTIONS | DECIDER_REQUESTS);
    assert_int_equal(rules->rules[0].connection.ttl_s, 7);
    decider_rules_unref(rules);
}

static const char body_rules[] =
    RULES("{'methods':['PUT'],'body':{'max':4,'contains':'key'},'action':'deny','status':401},"
          "{'methods':['PUT'],'body':{'max':8,'contains':'key','longer':true},'action':'deny',"
          "'status':402},"
          "{'methods':['PUT'],'body':{'max':6,'longer':true},'action':'deny','status':413},"
          "{'methods':['PUT'],'paths':['/any'],'body':{'max':1},'action':'allow'},"
          "{'methods':['PUT'],'action':'deny','status':405},"
          "{'methods':['PUT'],'body':{'max':100},'action':'deny'}");

static void test_bodies(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
        bool cut;
        const char *want;
    } rows[] = {
        {"/", "", false, "deny 405 4"},           {"/", "key", false, "deny 401 0"},
        {"/", "akey", false, "deny 401 0"},       {"/", "abkey", false, "deny 405 4"},
        {"/", "abckey", false, "deny 405 4"},     {"/", "abcdkey", false, "deny 413 2"},
        {"/", "abcdekey", true, "deny 402 1"},    {"/", "abcdekey", false, "deny 413 2"},
        {"/any", "", false, "deny 405 4"},        {"/any", "a", false, "allow 3"},
        {"/any", "abcdefgh", true, "deny 413 2"},
    };
    struct decider_rules *rules = parse(body_rules);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[400], got[400];
        struct peer_message m;
        struct rule_result result;
        snprintf(text, sizeof text,
                 "{'t':'req','id':1,'method':'PUT','host':'a','port':1,'path':'%s'}", rows[i].path);
        read_message(&m, text);
        decider_rules_decide(rules, &m, &result);
        assert_int_equal(result.body_max, 8);
        const struct rule_decision decision = decider_rules_decide_body(
            rules, &result, (const uint8_t *)rows[i].body, strlen(rows[i].body), rows[i].cut);
        show(got, &decision);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s %s: %s, not %s", rows[i].path, rows[i].body, got, rows[i].want);
        rule_result_free(&result);
        peer_message_free(&m);
    }
    decider_rules_unref(rules);
}

static void test_bodies_are_asked_for_only_where_they_count(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REQUEST("GET", "a.test", "/"), "deny 403 default"},
        {REQUEST("PUT", "a.test", "/"), "need 8"},
        {CONNECTION("http", "a.test", ""), "deny 403 default"},
    };
    check_rows(body_rules, rows, COUNT(rows));
}

/* Path and start of each issue, in order. */
static void test_what_is_wrong_is_said_with_its_path(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"", "Error: r is not valid JSON: "},
        {"{} x", "Error: r is not valid JSON: "},
        {"[]", "Error: r: (root): Expected object"},
        {"{}", "Error: r: allowedDomains: Required\nError: r: deniedDomains: Required\n"
               "Error: r: rules: Required\n"},
        {"{'allowedDomains':[],'allowedDomains':[]}", "Error: r is not valid JSON: duplicate"},
        {"{'allowedDomains':['A.test','a.test','a.test'],'deniedDomains':['*.test'],'rules':[]}",
         "Error: r: allowedDomains.0: Invalid entry"},
        {"{'allowedDomains':['a.test','a.test'],'deniedDomains':[],'rules':[]}",
         "Error: r: allowedDomains.1: Listed twice\n"},
        {"{'allowedDomains':[],'deniedDomains':[],'asks':[],'rules':[]}", "Error: r: asks: Array"},
        {"{'allowedDomains':[],'deniedDomains':[],'asks':['tunnel'],'rules':[]}",
         "Error: r: asks.0: Invalid enum value"},
        {"{'allowedDomains':[],'deniedDomains':[],'asks':['request'],'rules':[{'via':['http'],"
         "'action':'deny'}]}",
         "Error: r: rules.0: Never applies: \"via\""},
        {"{'allowedDomains':[],'deniedDomains':[],'rules':[],'extra':1}",
         "Error: r: (root): Unrecognized key(s) in object: 'extra'"},
        {"{'allowedDomains':[],'deniedDomains':[],'rules':[],'default':{'action':'deny',"
         "'ttl':1}}",
         "Error: r: default: Unrecognized key(s) in object: 'ttl'"},
        {"{'allowedDomains':[],'deniedDomains':[],'rules':[],'default':{'action':'allow',"
         "'reason':'x'}}",
         "Error: r: default.reason: Has no effect"},
        {RULES("{}"), "Error: r: rules.0.action: Required"},
        {RULES("{'action':'Allow'}"), "Error: r: rules.0.action: Invalid enum value"},
        {RULES("{'action':null}"), "Error: r: rules.0.action: Expected 'allow' | 'deny', "},
        {RULES("{'host':'a b','action':'deny'}"), "Error: r: rules.0.host: Invalid host pattern"},
        {RULES("{'host':'','action':'deny'}"), "Error: r: rules.0.host: Invalid host pattern"},
        {RULES("{'host':'a..b','action':'deny'}"), "Error: r: rules.0.host: "},
        {RULES("{'methods':[],'action':'deny'}"), "Error: r: rules.0.methods: Array"},
        {RULES("{'methods':['G T'],'action':'deny'}"), "Error: r: rules.0.methods.0: Invalid"},
        {RULES("{'methods':['CONNECT'],'action':'deny'}"), "Error: r: rules.0.methods.0: A CONN"},
        {RULES("{'paths':['a'],'action':'deny'}"), "Error: r: rules.0.paths.0: Invalid path"},
        {RULES("{'headers':{},'action':'deny'}"), "Error: r: rules.0.headers: Object must"},
        {RULES("{'headers':{'a b':true},'action':'deny'}"),
         "Error: r: rules.0.headers.a b: Invalid header name"},
        {RULES("{'headers':{'x-a':true,'X_A':true},'action':'deny'}"),
         "Error: r: rules.0.headers.X_A: Named twice"},
        {RULES("{'headers':{'Host':true},'action':'deny'}"),
         "Error: r: rules.0.headers.Host: Every request"},
        {RULES("{'headers':{'x-a':1},'action':'deny'}"),
         "Error: r: rules.0.headers.x-a: Expected boolean"},
        {RULES("{'body':{},'action':'deny'}"), "Error: r: rules.0.body.max: Required"},
        {RULES("{'body':{'max':33554433},'action':'deny'}"), "Error: r: rules.0.body.max: Number"},
        {RULES("{'body':{'max':1.5},'action':'deny'}"), "Error: r: rules.0.body.max: Expected int"},
        {RULES("{'body':{'max':1,'contains':''},'action':'deny'}"),
         "Error: r: rules.0.body.contains: String"},
        {RULES("{'body':{'max':1,'contains':'ab'},'action':'deny'}"),
         "Error: r: rules.0: Applies to nothing: \"contains\" is longer"},
        {RULES("{'via':['tcp'],'action':'deny'}"), "Error: r: rules.0.via.0: Invalid enum"},
        {RULES("{'user':'','action':'deny'}"), "Error: r: rules.0.user: String"},
        {RULES("{'via':['http'],'methods':['GET'],'action':'deny'}"),
         "Error: r: rules.0: Applies to nothing: \"methods\" is of requests, \"via\""},
        {RULES("{'via':['http'],'setHeaders':{'a':'b'},'action':'allow'}"),
         "Error: r: rules.0: \"via\" is of connections"},
        {RULES("{'status':403,'action':'allow'}"), "Error: r: rules.0.status: Has no effect"},
        {RULES("{'reason':'x','action':'allow'}"), "Error: r: rules.0.reason: Has no effect"},
        {RULES("{'ttl':1,'action':'deny'}"), "Error: r: rules.0.ttl: Has no effect"},
        {RULES("{'removeHeaders':['a'],'action':'deny'}"),
         "Error: r: rules.0.removeHeaders: Has no effect"},
        {RULES("{'status':399,'action':'deny'}"), "Error: r: rules.0.status: Number"},
        {RULES("{'status':600,'action':'deny'}"), "Error: r: rules.0.status: Number"},
        {RULES("{'reason':'a\\nb','action':'deny'}"), "Error: r: rules.0.reason: String must not"},
        {RULES("{'reason':'','action':'deny'}"), "Error: r: rules.0.reason: String"},
        {RULES("{'ttl':0,'action':'allow'}"), "Error: r: rules.0.ttl: Number"},
        {RULES("{'ttl':86401,'action':'allow'}"), "Error: r: rules.0.ttl: Number"},
        {RULES("{'setHeaders':{},'action':'allow'}"), "Error: r: rules.0.setHeaders: Object"},
        {RULES("{'setHeaders':{'x':[]},'action':'allow'}"),
         "Error: r: rules.0.setHeaders.x: Array"},
        {RULES("{'setHeaders':{'x':'a\\rb'},'action':'allow'}"),
         "Error: r: rules.0.setHeaders.x: String must not"},
        {RULES("{'setHeaders':{'Content_Length':'1'},'action':'allow'}"),
         "Error: r: rules.0.setHeaders.Content_Length: No decider"},
        {RULES("{'setHeaders':{'x.api.key':'1'},'action':'allow'}"),
         "Error: r: rules.0.setHeaders.x.api.key: No decider"},
        {RULES("{'removeHeaders':['TE'],'action':'allow'}"),
         "Error: r: rules.0.removeHeaders.0: No decider"},
        {RULES("{'removeHeaders':['a','A'],'action':'allow'}"),
         "Error: r: rules.0.removeHeaders.1: Named twice"},
        {RULES("{'removeHeaders':[''],'action':'allow'}"),
         "Error: r: rules.0.removeHeaders.0: String"},
        {RULES("{'removeHeaders':['a\\u0000'],'action':'allow'}"), "Error: r is not valid JSON"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[4096];
        struct buf error;
        buf_init(&error, 65536);
        unquote(json, rows[i].text);
        assert_null(decider_rules_parse("r", json, strlen(json), &error));
        if (strncmp(buf_cstr(&error), rows[i].want, strlen(rows[i].want)) != 0)
            fail_msg("%s\nsays %snot %s", rows[i].text, buf_cstr(&error), rows[i].want);
        buf_free(&error);
    }
}

static void test_all_errors_are_told_at_once(void **state)
{
    (void)state;
    char json[4096];
    struct buf error;
    buf_init(&error, 65536);
    unquote(json, "{'allowedDomains':['_'],'deniedDomains':[1],'rules':[{'host':' ','action':'x'},"
                  "{'action':'deny','status':1}],'more':1}");
    assert_null(decider_rules_parse("r", json, strlen(json), &error));
    size_t lines = 0;
    for (const char *c = buf_cstr(&error); *c != '\0'; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 6);
    buf_free(&error);
}

static void test_what_the_file_holds_cannot_steer_a_terminal(void **state)
{
    (void)state;
    static const char json[] = "{\"\\u001b[2J\\nError: x\":1}";
    struct buf error;
    buf_init(&error, 65536);
    assert_null(decider_rules_parse("r", json, sizeof json - 1, &error));
    assert_null(strchr(buf_cstr(&error), 0x1b));
    assert_null(strstr(buf_cstr(&error), "\nError: x"));
    buf_free(&error);
}

static void test_files(void **state)
{
    (void)state;
    char path[] = "/tmp/test_decider_rules.XXXXXX";
    static const char text[] = "{\"allowedDomains\":[],\"deniedDomains\":[],\"rules\":[]}";
    struct buf error;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    buf_init(&error, 65536);
    struct decider_rules *rules = decider_rules_read(path, &error);
    assert_non_null(rules);
    decider_rules_unref(rules);
    assert_int_equal(unlink(path), 0);
    assert_null(decider_rules_read(path, &error));
    assert_non_null(strstr(buf_cstr(&error), "No such file"));
    assert_null(decider_rules_read("/tmp", &error));
    buf_free(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_rule_that_applies_decides),
        cmocka_unit_test(test_hosts_are_those_of_the_lists),
        cmocka_unit_test(test_paths_are_those_of_network_rules),
        cmocka_unit_test(test_headers_in_every_spelling),
        cmocka_unit_test(test_connections_by_how_they_came_and_who),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_the_answers_hold_what_the_rule_says),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_bodies_are_asked_for_only_where_they_count),
        cmocka_unit_test(test_what_is_wrong_is_said_with_its_path),
        cmocka_unit_test(test_all_errors_are_told_at_once),
        cmocka_unit_test(test_what_the_file_holds_cannot_steer_a_terminal),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
