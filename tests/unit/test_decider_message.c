#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decider/message.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (s), sizeof(s) - 1
#define LISTS "\"allowedDomains\":[],\"deniedDomains\":[]"
#define VERDICT "{\"t\":\"verdict\",\"id\":7,\"action\":"

static bool reads_hello(unsigned proto, const char *text, struct hello *h)
{
    const char *why = NULL;
    bool well = hello_read(h, proto, (const uint8_t *)text, strlen(text), &why);
    assert_int_equal(well, why == NULL);
    return well;
}

static bool reads_verdict(unsigned proto, const char *text, struct verdict_message *m)
{
    const char *why = NULL;
    bool well = verdict_read(m, proto, (const uint8_t *)text, strlen(text), &why);
    assert_int_equal(well, why == NULL);
    return well;
}

static void refuses_verdict(unsigned proto, const char *text)
{
    struct verdict_message m;
    if (reads_verdict(proto, text, &m))
        fail_msg("taken: %s", text);
    assert_null(m.json);
    assert_null(m.set);
    assert_null(m.removed);
}

static void takes_verdict(unsigned proto, const char *text)
{
    struct verdict_message m;
    if (!reads_verdict(proto, text, &m))
        fail_msg("refused: %s", text);
    verdict_free(&m);
}

static void a_hello_of_protocol_1_brings_its_lists(void **state)
{
    struct hello h;
    (void)state;
    assert_true(reads_hello(1,
                            "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"api.example.com\","
                            "\"*.example.org:443\"],\"deniedDomains\":[\"::1\"]}",
                            &h));
    assert_int_equal(h.allowed_count, 2);
    assert_string_equal(h.allowed[0], "api.example.com");
    assert_string_equal(h.allowed[1], "*.example.org:443");
    assert_int_equal(h.denied_count, 1);
    assert_string_equal(h.denied[0], "::1");
    assert_int_equal(h.asks, DECIDER_REQUESTS);
    hello_free(&h);
    assert_null(h.allowed);
    assert_true(reads_hello(1, "{" LISTS ",\"proto\":1.0,\"t\":\"hello\"}", &h));
    assert_int_equal(h.allowed_count + h.denied_count, 0);
    hello_free(&h);
}

static void a_hello_of_protocol_2_says_what_it_asks_for(void **state)
{
    static const struct {
        const char *asks;
        unsigned want;
    } cases[] = {
        {"[\"connection\"]", DECIDER_CONNECTIONS},
        {"[\"request\"]", DECIDER_REQUESTS},
        {"[\"connection\",\"request\"]", DECIDER_CONNECTIONS | DECIDER_REQUESTS},
        {"[\"request\",\"connection\"]", DECIDER_CONNECTIONS | DECIDER_REQUESTS},
        {"[]", 0},
        {"[\"request\",\"request\"]", 0},
        {"[\"Request\"]", 0},
        {"[\"request\",7]", 0},
        {"[\"request\",\"body\"]", 0},
        {"\"request\"", 0},
        {"{\"request\":true}", 0},
    };
    char text[200];
    struct hello h;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(text, sizeof text, "{\"t\":\"hello\",\"proto\":2,\"asks\":%s," LISTS "}",
                 cases[i].asks);
        assert_int_equal(reads_hello(2, text, &h), cases[i].want != 0);
        assert_int_equal(h.asks, cases[i].want);
        hello_free(&h);
    }
}

static void refuses_other_hellos(void **state)
{
    static const struct {
        unsigned proto;
        const char *text;
    } cases[] = {
        {1, "{\"t\":\"hello\",\"proto\":2," LISTS "}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"asks\":[\"request\"]," LISTS "}"},
        {2, "{\"t\":\"hello\",\"proto\":1,\"asks\":[\"request\"]," LISTS "}"},
        {2, "{\"t\":\"hello\",\"proto\":2," LISTS "}"},
        {1, "{\"t\":\"hello\",\"proto\":\"1\"," LISTS "}"},
        {1, "{\"t\":\"hello\",\"proto\":1.5," LISTS "}"},
        {1, "{\"t\":\"hello\"," LISTS "}"},
        {1, "{\"t\":\"Hello\",\"proto\":1," LISTS "}"},
        {1, "{\"t\":[],\"proto\":1," LISTS "}"},
        {1, "{\"proto\":1," LISTS "}"},
        {1, "{}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"x\":1," LISTS "}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"id\":1," LISTS "}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":{},\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":\"a.b\",\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[7],\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"A.b\"],\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[\"\"]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"a.b\",\"c.d\",\"a.b\"],"
            "\"deniedDomains\":[]}"},
        {1, "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],"
            "\"deniedDomains\":[\"a.b\",\"\\u0061.b\"]}"},
        {1, VERDICT "\"allow\"}"},
        {1, "[]"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hello h;
        if (reads_hello(cases[i].proto, cases[i].text, &h))
            fail_msg("taken: %s", cases[i].text);
        assert_null(h.json);
        assert_null(h.allowed);
        assert_null(h.denied);
    }
}

static void an_entry_may_be_in_both_lists(void **state)
{
    struct hello h;
    (void)state;
    assert_true(reads_hello(1,
                            "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"a.b\",\"a.b:1\"],"
                            "\"deniedDomains\":[\"a.b\"]}",
                            &h));
    hello_free(&h);
}

static void an_allow_brings_its_edits(void **state)
{
    struct verdict_message m;
    (void)state;
    assert_true(reads_verdict(1,
                              VERDICT "\"allow\",\"removeHeaders\":[\"x-old\",\"cookie\"],"
                                      "\"setHeaders\":{\"x-new\":[\"1\",\"2\"],\"x-none\":[],"
                                      "\"x-empty\":[\"\"]},\"cred\":\"github\","
                                      "\"credential\":\"tok-!~\"}",
                              &m));
    const struct decider_verdict *v = &m.verdict;
    assert_int_equal(m.id, 7);
    assert_int_equal(v->action, DECIDER_ALLOW);
    assert_int_equal(v->removed_count, 2);
    assert_string_equal(v->removed[0], "x-old");
    assert_string_equal(v->removed[1], "cookie");
    assert_int_equal(v->set_count, 3);
    assert_string_equal(v->set[0].name, "x-new");
    assert_int_equal(v->set[0].value_count, 2);
    assert_string_equal(v->set[0].values[0], "1");
    assert_string_equal(v->set[0].values[1], "2");
    assert_string_equal(v->set[1].name, "x-none");
    assert_int_equal(v->set[1].value_count, 0);
    assert_string_equal(v->set[2].name, "x-empty");
    assert_int_equal(v->set[2].value_count, 1);
    assert_string_equal(v->set[2].values[0], "");
    assert_string_equal(v->credential_class, "github");
    assert_string_equal(v->credential, "tok-!~");
    assert_int_equal(v->ttl_s, 0);
    verdict_free(&m);
    assert_null(m.json);
}

static void the_other_actions_bring_theirs(void **state)
{
    struct verdict_message m;
    (void)state;
    assert_true(reads_verdict(1, VERDICT "\"allow\"}", &m));
    assert_int_equal(m.verdict.action, DECIDER_ALLOW);
    assert_int_equal(m.verdict.set_count + m.verdict.removed_count, 0);
    assert_null(m.verdict.credential);
    verdict_free(&m);
    assert_true(
        reads_verdict(1, VERDICT "\"deny\",\"status\":403,\"reason\":\"not on a\\tday\"}", &m));
    assert_int_equal(m.verdict.action, DECIDER_DENY);
    assert_int_equal(m.verdict.status, 403);
    assert_string_equal(m.verdict.reason, "not on a\tday");
    verdict_free(&m);
    assert_true(reads_verdict(1, VERDICT "\"deny\",\"status\":599}", &m));
    assert_int_equal(m.verdict.status, 599);
    assert_null(m.verdict.reason);
    verdict_free(&m);
    assert_true(reads_verdict(1, VERDICT "\"need_body\",\"max\":65536}", &m));
    assert_int_equal(m.verdict.action, DECIDER_NEED_BODY);
    assert_int_equal(m.verdict.max, 65536);
    verdict_free(&m);
}

static void ids_are_integers_from_1(void **state)
{
    static const struct {
        const char *id;
        int64_t want; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"7.0", 7},
        {"9007199254740991", MESSAGE_ID_MAX},
        {"0", 0},
        {"-1", 0},
        {"1.5", 0},
        {"\"1\"", 0},
        {"9007199254740992", 0},
        {"1e400", 0},
        {"[1]", 0},
    };
    char text[100];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct verdict_message m;
        snprintf(text, sizeof text, "{\"t\":\"verdict\",\"id\":%s,\"action\":\"allow\"}",
                 cases[i].id);
        assert_int_equal(reads_verdict(1, text, &m), cases[i].want != 0);
        assert_int_equal(m.id, cases[i].want);
        verdict_free(&m);
    }
}

static void refuses_verdicts_that_are_none(void **state)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"t\":\"verdict\",\"action\":\"allow\"}",
        "{\"id\":7,\"action\":\"allow\"}",
        "{\"t\":\"verdict\",\"id\":7}",
        "{\"t\":\"hello\",\"id\":7,\"action\":\"allow\"}",
        "{\"T\":\"verdict\",\"t\":\"verdict\",\"id\":7,\"action\":\"allow\"}",
        VERDICT "\"Allow\"}",
        VERDICT "\"\"}",
        VERDICT "true}",
        VERDICT "[\"allow\"]}",
        VERDICT "\"allow\",\"x\":1}",
        VERDICT "\"allow\",\"\":1}",
        VERDICT "\"allow\",\"id\":8}",
        VERDICT "\"allow\",\"status\":403}",
        VERDICT "\"allow\",\"reason\":\"x\"}",
        VERDICT "\"allow\",\"max\":1}",
        VERDICT "\"allow\",\"removeHeaders\":null}",
        VERDICT "\"deny\"}",
        VERDICT "\"deny\",\"status\":\"403\"}",
        VERDICT "\"deny\",\"status\":399}",
        VERDICT "\"deny\",\"status\":600}",
        VERDICT "\"deny\",\"status\":403.5}",
        VERDICT "\"deny\",\"status\":403,\"reason\":\"\"}",
        VERDICT "\"deny\",\"status\":403,\"reason\":7}",
        VERDICT "\"deny\",\"status\":403,\"reason\":\"a\\nb\"}",
        VERDICT "\"deny\",\"status\":403,\"reason\":\"a\x7f\"}",
        VERDICT "\"deny\",\"status\":403,\"reason\":\"\\u0085\"}",
        VERDICT "\"deny\",\"status\":403,\"max\":1}",
        VERDICT "\"deny\",\"status\":403,\"setHeaders\":{\"x-a\":[\"1\"]}}",
        VERDICT "\"deny\",\"status\":403,\"removeHeaders\":[\"x-a\"]}",
        VERDICT "\"deny\",\"status\":403,\"cred\":\"a\",\"credential\":\"b\"}",
        VERDICT "\"need_body\"}",
        VERDICT "\"need_body\",\"max\":0}",
        VERDICT "\"need_body\",\"max\":33554433}",
        VERDICT "\"need_body\",\"max\":\"1\"}",
        VERDICT "\"need_body\",\"max\":1,\"status\":403}",
        VERDICT "\"need_body\",\"max\":1,\"reason\":\"x\"}",
        VERDICT "\"need_body\",\"max\":1,\"removeHeaders\":[\"x-a\"]}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        refuses_verdict(1, texts[i]);
        refuses_verdict(2, texts[i]);
    }
    takes_verdict(1, VERDICT "\"need_body\",\"max\":33554432}");
    takes_verdict(1, VERDICT "\"deny\",\"status\":4e2}");
}

static void refuses_edits_that_are_malformed(void **state)
{
    static const char *const fields[] = {
        "\"setHeaders\":{}",
        "\"setHeaders\":[]",
        "\"setHeaders\":\"x\"",
        "\"setHeaders\":{\"x-a\":\"1\"}",
        "\"setHeaders\":{\"x-a\":[1]}",
        "\"setHeaders\":{\"x-a\":[[\"1\"]]}",
        "\"setHeaders\":{\"x-a\":[null]}",
        "\"setHeaders\":{\"X-A\":[\"1\"]}",
        "\"setHeaders\":{\"\":[\"1\"]}",
        "\"setHeaders\":{\"x a\":[\"1\"]}",
        "\"setHeaders\":{\"x:\":[\"1\"]}",
        "\"setHeaders\":{\"x\\u00e9\":[\"1\"]}",
        "\"setHeaders\":{\"x-a\":[\"a\\r\\nb\"]}",
        "\"setHeaders\":{\"x-a\":[\"\\u0001\"]}",
        "\"setHeaders\":{\"x-a\":[\"\x7f\"]}",
        "\"setHeaders\":{\"x-a\":[\"\\u009f\"]}",
        "\"setHeaders\":{\"x-a\":[\"1\"],\"x-a\":[\"2\"]}",
        "\"removeHeaders\":[]",
        "\"removeHeaders\":{}",
        "\"removeHeaders\":\"x-a\"",
        "\"removeHeaders\":[7]",
        "\"removeHeaders\":[\"\"]",
        "\"removeHeaders\":[\"X-A\"]",
        "\"removeHeaders\":[\"x a\"]",
        "\"removeHeaders\":[\"x-a\",\"x-b\",\"x-a\"]",
        "\"cred\":\"a\"",
        "\"credential\":\"b\"",
        "\"cred\":\"\",\"credential\":\"b\"",
        "\"cred\":\"a\",\"credential\":\"\"",
        "\"cred\":\"a\",\"credential\":\"b c\"",
        "\"cred\":\"a\",\"credential\":\"b\\t\"",
        "\"cred\":\"a\",\"credential\":\"b\\n\"",
        "\"cred\":\"a\",\"credential\":\"b\x7f\"",
        "\"cred\":\"a\",\"credential\":\"\\u00e9\"",
        "\"cred\":\"a\",\"credential\":[\"b\"]",
        "\"cred\":7,\"credential\":\"b\"",
    };
    char text[200];
    (void)state;
    for (size_t i = 0; i < COUNT(fields); i++) {
        snprintf(text, sizeof text, VERDICT "\"allow\",%s}", fields[i]);
        refuses_verdict(1, text);
    }
    takes_verdict(1, VERDICT "\"allow\",\"setHeaders\":{\"x-a\":[\"a\\tb\\u00a0\"]}}");
    takes_verdict(1, VERDICT "\"allow\",\"removeHeaders\":[\"x-a\",\"x_a\"]}");
}

static void some_names_are_not_the_deciders_to_change(void **state)
{
    static const struct {
        const char *name;
        bool set, removed;
    } cases[] = {
        {"host", false, false},
        {"content-length", false, false},
        {"content_length", false, false},
        {"transfer.encoding", false, false},
        {"connection", false, false},
        {"upgrade", false, false},
        {"te", false, false},
        {"trailer", false, false},
        {"keep_alive", false, false},
        {"proxy.connection", false, false},
        {"authorization", false, true},
        {"proxy-authorization", false, true},
        {"proxy_authorization", false, true},
        {"cookie", false, true},
        {"x-api-key", false, true},
        {"x_api.key", false, true},
        {"x--api-key", true, true},
        {"xapikey", true, true},
        {"t-e", true, true},
        {"tee", true, true},
        {"t", true, true},
        {"hosts", true, true},
        {"hos", true, true},
        {"cookie2", true, true},
        {"set-cookie", true, true},
        {"content-length-", true, true},
        {"-host", true, true},
        {"expect", true, true},
    };
    char text[200];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(header_may_be_set(cases[i].name), cases[i].set);
        assert_int_equal(header_may_be_removed(cases[i].name), cases[i].removed);
        struct verdict_message m;
        snprintf(text, sizeof text, VERDICT "\"allow\",\"setHeaders\":{\"x-a\":[\"1\"],\"%s\":[]}}",
                 cases[i].name);
        assert_int_equal(reads_verdict(1, text, &m), cases[i].set);
        verdict_free(&m);
        snprintf(text, sizeof text, VERDICT "\"allow\",\"removeHeaders\":[\"x-a\",\"%s\"]}",
                 cases[i].name);
        assert_int_equal(reads_verdict(1, text, &m), cases[i].removed);
        verdict_free(&m);
    }
    assert_false(header_may_be_set("HOST"));
    assert_false(header_may_be_removed("Content_Length"));
    assert_false(header_may_be_set("X-API-Key"));
}

static void put_x(struct buf *b, size_t n)
{
    memset(buf_reserve(b, n), 'x', n);
    buf_commit(b, n);
}

/* count header values, each of its own name or all of one, with that many bytes in total. */
static void put_headers(struct buf *b, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        size_t value = i + 1 < count ? 0 : bytes - count * 5;
        buf_printf(b, "%s\"x-%03zu\":[\"", i == 0 ? "" : ",", i);
        put_x(b, value);
        buf_puts(b, "\"]");
    }
}

static void set_headers_have_the_limits_of_a_request(void **state)
{
    static const struct {
        size_t count, bytes;
        bool well;
    } cases[] = {
        {190, 5 * 190, true}, {191, 5 * 191, false}, {1, 65536, true},
        {1, 65537, false},    {190, 65536, true},    {190, 65537, false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        buf_puts(&b, VERDICT "\"allow\",\"setHeaders\":{");
        put_headers(&b, cases[i].count, cases[i].bytes);
        buf_puts(&b, "}}");
        if (cases[i].well)
            takes_verdict(1, buf_cstr(&b));
        else
            refuses_verdict(1, buf_cstr(&b));
        buf_free(&b);
    }
}

static void a_name_without_values_counts_as_one(void **state)
{
    (void)state;
    for (size_t names = 189; names <= 191; names++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        buf_puts(&b, VERDICT "\"allow\",\"setHeaders\":{");
        for (size_t i = 0; i < names; i++)
            buf_printf(&b, "%s\"x-%03zu\":[]", i == 0 ? "" : ",", i);
        buf_puts(&b, "}}");
        if (names <= 190)
            takes_verdict(1, buf_cstr(&b));
        else
            refuses_verdict(1, buf_cstr(&b));
        buf_free(&b);
    }
}

static void removed_names_are_bounded(void **state)
{
    static const struct {
        size_t count, last;
        bool well;
    } cases[] = {{190, 5, true},    {191, 5, false},  {1, 65536, true},
                 {1, 65537, false}, {2, 65531, true}, {2, 65532, false}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        buf_puts(&b, VERDICT "\"allow\",\"removeHeaders\":[");
        for (size_t j = 0; j + 1 < cases[i].count; j++)
            buf_printf(&b, "\"x-%03zu\",", j);
        buf_puts(&b, "\"");
        put_x(&b, cases[i].last);
        buf_puts(&b, "\"]}");
        if (cases[i].well)
            takes_verdict(1, buf_cstr(&b));
        else
            refuses_verdict(1, buf_cstr(&b));
        buf_free(&b);
    }
}

static void reasons_and_credentials_are_bounded_in_bytes(void **state)
{
    static const struct {
        const char *before;
        size_t n;
        const char *after;
        bool well;
    } cases[] = {
        {VERDICT "\"deny\",\"status\":403,\"reason\":\"", 1024, "\"}", true},
        {VERDICT "\"deny\",\"status\":403,\"reason\":\"", 1025, "\"}", false},
        {VERDICT "\"deny\",\"status\":403,\"reason\":\"", 1022, "\xc3\xa9\"}", true},
        {VERDICT "\"deny\",\"status\":403,\"reason\":\"", 1023, "\xc3\xa9\"}", false},
        {VERDICT "\"allow\",\"cred\":\"a\",\"credential\":\"", 8192, "\"}", true},
        {VERDICT "\"allow\",\"cred\":\"a\",\"credential\":\"", 8193, "\"}", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        buf_puts(&b, cases[i].before);
        put_x(&b, cases[i].n);
        buf_puts(&b, cases[i].after);
        if (cases[i].well)
            takes_verdict(1, buf_cstr(&b));
        else
            refuses_verdict(1, buf_cstr(&b));
        buf_free(&b);
    }
}

static void a_time_to_live_is_of_protocol_2(void **state)
{
    struct verdict_message m;
    (void)state;
    refuses_verdict(1, VERDICT "\"allow\",\"ttl\":60}");
    assert_true(reads_verdict(2, VERDICT "\"allow\",\"ttl\":60}", &m));
    assert_int_equal(m.verdict.ttl_s, 60);
    verdict_free(&m);
    takes_verdict(2, VERDICT "\"allow\",\"ttl\":1}");
    takes_verdict(2, VERDICT "\"allow\",\"ttl\":86400}");
    refuses_verdict(2, VERDICT "\"allow\",\"ttl\":0}");
    refuses_verdict(2, VERDICT "\"allow\",\"ttl\":86401}");
    refuses_verdict(2, VERDICT "\"allow\",\"ttl\":1.5}");
    refuses_verdict(2, VERDICT "\"allow\",\"ttl\":\"60\"}");
    refuses_verdict(2, VERDICT "\"deny\",\"status\":403,\"ttl\":60}");
    refuses_verdict(2, VERDICT "\"need_body\",\"max\":1,\"ttl\":60}");
}

static void a_credential_is_wiped(void **state)
{
    struct verdict_message m;
    (void)state;
    assert_true(reads_verdict(
        1, VERDICT "\"allow\",\"cred\":\"a\",\"credential\":\"s3cr\\u0065t-token\"}", &m));
    assert_string_equal(m.verdict.credential, "s3cret-token");
    json_t *held = json_incref(json_object_get(m.json, "credential"));
    verdict_free(&m);
    static const char nothing[12] = {0};
    assert_int_equal(json_string_length(held), sizeof nothing);
    assert_memory_equal(json_string_value(held), nothing, sizeof nothing);
    json_decref(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_of_protocol_1_brings_its_lists),
        cmocka_unit_test(a_hello_of_protocol_2_says_what_it_asks_for),
        cmocka_unit_test(refuses_other_hellos),
        cmocka_unit_test(an_entry_may_be_in_both_lists),
        cmocka_unit_test(an_allow_brings_its_edits),
        cmocka_unit_test(the_other_actions_bring_theirs),
        cmocka_unit_test(ids_are_integers_from_1),
        cmocka_unit_test(refuses_verdicts_that_are_none),
        cmocka_unit_test(refuses_edits_that_are_malformed),
        cmocka_unit_test(some_names_are_not_the_deciders_to_change),
        cmocka_unit_test(set_headers_have_the_limits_of_a_request),
        cmocka_unit_test(a_name_without_values_counts_as_one),
        cmocka_unit_test(removed_names_are_bounded),
        cmocka_unit_test(reasons_and_credentials_are_bounded_in_bytes),
        cmocka_unit_test(a_time_to_live_is_of_protocol_2),
        cmocka_unit_test(a_credential_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
