#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decider/frame.h"
#include "decider/message.h"
#include "decider/peer_message.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define REQ \
    "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,\"path\":\"/\""
#define CONN                                                                               \
    "{\"t\":\"conn\",\"id\":7,\"via\":\"socks\",\"host\":\"a.b\",\"port\":443,\"client\":" \
    "\"local\""
#define BODY "{\"t\":\"body\",\"id\":7,\"data\":"

static bool reads(const char *text, struct peer_message *m)
{
    const char *why = NULL;
    bool well = peer_message_read(m, (const uint8_t *)text, strlen(text), &why);
    assert_int_equal(well, why == NULL);
    return well;
}

static void takes(const char *text)
{
    struct peer_message m;
    if (!reads(text, &m))
        fail_msg("refused: %s", text);
    peer_message_free(&m);
}

static void refuses(const char *text)
{
    struct peer_message m;
    if (reads(text, &m))
        fail_msg("taken: %s", text);
    assert_null(m.json);
}

static void reads_a_hello(void **state)
{
    struct peer_message m;
    (void)state;
    assert_true(reads("{\"t\":\"hello\",\"proto\":1}", &m));
    assert_int_equal(m.kind, PEER_HELLO);
    assert_int_equal(m.proto, 1);
    peer_message_free(&m);
    assert_true(reads("{\"proto\":2.0,\"t\":\"hello\"}", &m));
    assert_int_equal(m.proto, 2);
    peer_message_free(&m);
    refuses("{\"t\":\"hello\"}");
    refuses("{\"t\":\"hello\",\"proto\":0}");
    refuses("{\"t\":\"hello\",\"proto\":3}");
    refuses("{\"t\":\"hello\",\"proto\":\"1\"}");
    refuses("{\"t\":\"hello\",\"proto\":1,\"id\":1}");
}

static void reads_a_request(void **state)
{
    struct peer_message m;
    (void)state;
    assert_true(reads("{\"t\":\"req\",\"id\":7,\"method\":\"POST\",\"host\":\"api.example.com\","
                      "\"port\":443,\"hostHeader\":\"api.example.com:443\",\"sni\":\"s.n\","
                      "\"path\":\"/v1\",\"query\":\"a=b?c\",\"headers\":{\"accept\":[\"*/*\"],"
                      "\"x-a\":[\"1\",\"\"]}}",
                      &m));
    assert_int_equal(m.kind, PEER_REQUEST);
    assert_int_equal(m.id, 7);
    assert_string_equal(m.method, "POST");
    assert_string_equal(m.host, "api.example.com");
    assert_int_equal(m.port, 443);
    assert_string_equal(m.host_header, "api.example.com:443");
    assert_string_equal(m.server_name, "s.n");
    assert_string_equal(m.path, "/v1");
    assert_string_equal(m.query, "a=b?c");
    assert_int_equal(json_object_size(m.headers), 2);
    peer_message_free(&m);
    assert_null(m.json);

    assert_true(reads(REQ "}", &m));
    assert_null(m.host_header);
    assert_null(m.server_name);
    assert_null(m.query);
    assert_null(m.headers);
    peer_message_free(&m);
}

static void refuses_other_requests(void **state)
{
    static const char *const texts[] = {
        "{\"t\":\"req\",\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":0,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"\",\"host\":\"a.b\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"host\":\"a.b\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"port\":443,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":0,\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":65536,"
        "\"path\":\"/\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,\"path\":\"\"}",
        "{\"t\":\"req\",\"id\":7,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,\"path\":\"/?\"}",
        REQ ",\"x\":1}",
        REQ ",\"hostHeader\":\"\"}",
        REQ ",\"hostHeader\":\"a\\nb\"}",
        REQ ",\"hostHeader\":[\"a\"]}",
        REQ ",\"sni\":\"\"}",
        REQ ",\"query\":\"\"}",
        REQ ",\"query\":7}",
        REQ ",\"headers\":{}}",
        REQ ",\"headers\":[]}",
        REQ ",\"headers\":{\"A\":[\"1\"]}}",
        REQ ",\"headers\":{\"a\":\"1\"}}",
        REQ ",\"headers\":{\"a\":[1]}}",
        REQ ",\"headers\":{\"a\":[\"\\u0007\"]}}",
        REQ ",\"headers\":{\"a\":[\"1\"],\"host\":[\"a.b\"]}}",
        REQ ",\"user\":\"bob\"}",
        REQ ",\"sni\":null}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        refuses(texts[i]);
}

static void reads_a_connection(void **state)
{
    struct peer_message m;
    (void)state;
    assert_true(reads("{\"t\":\"conn\",\"id\":9,\"via\":\"connect\",\"host\":\"::1\",\"port\":22,"
                      "\"client\":\"192.0.2.1\",\"user\":\"bob\"}",
                      &m));
    assert_int_equal(m.kind, PEER_CONNECTION);
    assert_int_equal(m.id, 9);
    assert_string_equal(m.via, "connect");
    assert_string_equal(m.host, "::1");
    assert_int_equal(m.port, 22);
    assert_string_equal(m.client, "192.0.2.1");
    assert_string_equal(m.user, "bob");
    peer_message_free(&m);
    takes(CONN "}");
    takes("{\"t\":\"conn\",\"id\":7,\"via\":\"http\",\"host\":\"a.b\",\"port\":443,"
          "\"client\":\"local\"}");
    refuses(CONN ",\"user\":\"\"}");
    refuses(CONN ",\"user\":7}");
    refuses(CONN ",\"path\":\"/\"}");
    refuses("{\"t\":\"conn\",\"id\":7,\"via\":\"tls\",\"host\":\"a.b\",\"port\":443,"
            "\"client\":\"local\"}");
    refuses("{\"t\":\"conn\",\"id\":7,\"host\":\"a.b\",\"port\":443,\"client\":\"local\"}");
    refuses("{\"t\":\"conn\",\"id\":7,\"via\":\"http\",\"host\":\"a.b\",\"port\":443}");
    refuses("{\"t\":\"conn\",\"id\":7,\"via\":\"http\",\"host\":\"a.b\",\"port\":443,"
            "\"client\":\"\"}");
}

static void reads_a_body(void **state)
{
    struct peer_message m;
    (void)state;
    assert_true(reads(BODY "\"Zm9v\",\"cut\":true}", &m));
    assert_int_equal(m.kind, PEER_BODY);
    assert_int_equal(m.id, 7);
    assert_string_equal(m.data, "Zm9v");
    assert_true(m.cut);
    peer_message_free(&m);
    assert_true(reads(BODY "\"\"}", &m));
    assert_string_equal(m.data, "");
    assert_false(m.cut);
    peer_message_free(&m);
}

static void refuses_bodies_that_are_no_base64(void **state)
{
    static const char *const good[] = {"\"Zg==\"", "\"Zm8=\"", "\"+/+/\"", "\"AAAA\""};
    static const char *const bad[] = {
        "\"Z\"",
        "\"Zg\"",
        "\"Zg=\"",
        "\"Zm8\"",
        "\"=\"",
        "\"====\"",
        "\"Z===\"",
        "\"Zh==\"",
        "\"Zm9=\"",
        "\"Zm-_\"",
        "\"Zm9v\\n\"",
        "\" Zm9\"",
        "\"Zg==Zg==\"",
        "\"Z=9v\"",
        "7",
        "[]",
        "\"Zm9v\",\"cut\":false",
        "\"Zm9v\",\"cut\":1",
        "\"Zm9v\",\"x\":1",
    };
    char text[100];
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof text, BODY "%s}", good[i]);
        takes(text);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(text, sizeof text, BODY "%s}", bad[i]);
        refuses(text);
    }
    refuses("{\"t\":\"body\",\"id\":7}");
}

static void refuses_other_messages(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"t\":\"verdict\",\"id\":7,\"action\":\"allow\"}",
        "{\"t\":\"REQ\"}",
        "{\"t\":7}",
        "[]",
        "",
        "{\"t\":\"hello\",\"proto\":1}{}",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        refuses(texts[i]);
}

static const uint8_t *payload(const struct buf *out, size_t *length)
{
    assert_int_equal(frame_next(buf_data(out), buf_len(out), FRAME_MAX, length), FRAME_OK);
    assert_int_equal(buf_len(out), FRAME_HEAD + *length);
    return buf_data(out) + FRAME_HEAD;
}

static void written_hellos_are_read_by_the_proxy(void **state)
{
    static const char *const allowed[] = {"a.b", "*.c.d:443"};
    static const char *const denied[] = {"::1"};
    (void)state;
    for (unsigned proto = 1; proto <= 2; proto++) {
        struct buf out;
        struct hello h;
        const char *why;
        size_t n = 0;
        buf_init(&out, 1000);
        peer_hello_write(&out, proto, DECIDER_REQUESTS | DECIDER_CONNECTIONS, allowed, 2, denied,
                         1);
        const uint8_t *p = payload(&out, &n);
        assert_true(hello_read(&h, proto, p, n, &why));
        assert_int_equal(h.allowed_count, 2);
        assert_string_equal(h.allowed[1], "*.c.d:443");
        assert_string_equal(h.denied[0], "::1");
        assert_int_equal(h.asks,
                         proto == 1 ? DECIDER_REQUESTS : DECIDER_REQUESTS | DECIDER_CONNECTIONS);
        hello_free(&h);
        buf_free(&out);
    }
    struct buf out;
    buf_init(&out, 1000);
    peer_hello_write(&out, 1, 0, NULL, 0, NULL, 0);
    assert_string_equal(buf_cstr(&out) + FRAME_HEAD,
                        "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[],\"deniedDomains\":[]}");
    buf_free(&out);
}

static void written_verdicts_are_read_by_the_proxy(void **state)
{
    static const char *const values[] = {"1", "t\to \"2\""};
    static const struct decider_header set[] = {{"x-new", values, 2}, {"x-gone", NULL, 0}};
    static const char *const removed[] = {"x-old", "x_old"};
    static const struct {
        struct decider_verdict verdict;
        const char *want;
    } cases[] = {
        {{.action = DECIDER_ALLOW}, "{\"t\":\"verdict\",\"id\":7,\"action\":\"allow\"}"},
        {{.action = DECIDER_ALLOW, .ttl_s = 60, .status = 403, .reason = "x", .max = 1},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"allow\",\"ttl\":60}"},
        {{.action = DECIDER_ALLOW, .ttl_s = DECIDER_TTL_RUN},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"allow\",\"ttl\":86400}"},
        {{.action = DECIDER_ALLOW,
          .set = set,
          .set_count = 2,
          .removed = removed,
          .removed_count = 2,
          .credential_class = "github",
          .credential = "tok"},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"allow\",\"setHeaders\":{\"x-new\":[\"1\","
         "\"t\\u0009o \\\"2\\\"\"],\"x-gone\":[]},\"removeHeaders\":[\"x-old\",\"x_old\"],"
         "\"cred\":\"github\",\"credential\":\"tok\"}"},
        {{.action = DECIDER_DENY, .status = 403},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"deny\",\"status\":403}"},
        {{.action = DECIDER_DENY, .status = 451, .reason = "no", .set = set, .set_count = 1},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"deny\",\"status\":451,\"reason\":\"no\"}"},
        {{.action = DECIDER_NEED_BODY, .max = 65536},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"need_body\",\"max\":65536}"},
        {{.action = DECIDER_UNAVAILABLE},
         "{\"t\":\"verdict\",\"id\":7,\"action\":\"deny\",\"status\":503}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        struct verdict_message m;
        const char *why;
        size_t n = 0;
        buf_init(&out, 1000);
        peer_verdict_write(&out, 7, &cases[i].verdict);
        assert_string_equal(buf_cstr(&out) + FRAME_HEAD, cases[i].want);
        const uint8_t *p = payload(&out, &n);
        assert_true(verdict_read(&m, 2, p, n, &why));
        assert_int_equal(m.id, 7);
        verdict_free(&m);
        buf_free(&out);
    }
}

static void what_the_proxy_writes_is_read(void **state)
{
    static const struct decider_field fields[] = {
        {"Host", 4, "a.b", 3}, {"X-A", 3, "1", 1}, {"x-a", 3, "\t\"\\", 3}};
    const struct decider_request r = {.method = "GET",
                                      .method_len = 3,
                                      .host = "a.b",
                                      .port = 80,
                                      .target = "/p?q",
                                      .target_len = 4,
                                      .fields = fields,
                                      .field_count = 3};
    struct buf out;
    struct peer_message m;
    const char *why;
    size_t n = 0;
    (void)state;
    buf_init(&out, 1 << 20);
    assert_null(request_write(&out, 3, &r));
    const uint8_t *p = payload(&out, &n);
    assert_true(peer_message_read(&m, p, n, &why));
    assert_int_equal(m.id, 3);
    assert_string_equal(m.host_header, "a.b");
    assert_string_equal(m.query, "q");
    const json_t *values = json_object_get(m.headers, "x-a");
    assert_int_equal(json_array_size(values), 2);
    assert_string_equal(json_string_value(json_array_get(values, 1)), "\t\"\\");
    peer_message_free(&m);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_hello),
        cmocka_unit_test(reads_a_request),
        cmocka_unit_test(refuses_other_requests),
        cmocka_unit_test(reads_a_connection),
        cmocka_unit_test(reads_a_body),
        cmocka_unit_test(refuses_bodies_that_are_no_base64),
        cmocka_unit_test(refuses_other_messages),
        cmocka_unit_test(written_hellos_are_read_by_the_proxy),
        cmocka_unit_test(written_verdicts_are_read_by_the_proxy),
        cmocka_unit_test(what_the_proxy_writes_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
