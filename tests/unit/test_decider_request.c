#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/frame.h"
#include "decider/message.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define FIELD(n, v)                            \
    {                                          \
        (n), sizeof(n) - 1, (v), sizeof(v) - 1 \
    }
#define FIELDS(a) .fields = (a), .field_count = COUNT(a)

static const char HEADER[] = "request header the decider cannot be asked about";
static const char HOSTS[] = "more than one Host header";
static const char HEADERS[] = "request headers too large";
static const char REQUEST[] = "request the decider cannot be asked about";
static const char TARGET[] = "request target too large";
static const char FRAME[] = "request too large for the decider";

/* A request that is well, to be changed. */
static struct decider_request request(void)
{
    return (struct decider_request){.method = "GET",
                                    .method_len = 3,
                                    .host = "a.b",
                                    .port = 443,
                                    .target = "/",
                                    .target_len = 1};
}

static void set_target(struct decider_request *r, const char *target)
{
    r->target = target;
    r->target_len = strlen(target);
}

static char *repeated(char c, size_t n)
{
    char *s = mem_alloc(n + 1);
    memset(s, c, n);
    return s;
}

static void assert_payload(struct buf *out, const char *want)
{
    size_t length = 0;
    assert_int_equal(frame_next(buf_data(out), buf_len(out), FRAME_MAX, &length), FRAME_OK);
    assert_int_equal(buf_len(out), FRAME_HEAD + length);
    assert_string_equal(buf_cstr(out) + FRAME_HEAD, want);
}

static void assert_written(const struct decider_request *r, int64_t id, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 22);
    assert_null(request_write(&out, id, r));
    assert_payload(&out, want);
    buf_free(&out);
}

static void assert_refused(const struct decider_request *r, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 22);
    buf_puts(&out, "kept");
    const char *why = request_write(&out, 1, r);
    assert_non_null(why);
    assert_string_equal(why, want);
    assert_string_equal(buf_cstr(&out), "kept");
    buf_free(&out);
}

static void a_request_goes_out_as_one_frame(void **state)
{
    static const struct decider_field fields[] = {FIELD("Host", "api.example.com"),
                                                  FIELD("Accept", "*/*")};
    (void)state;
    struct decider_request r = {
        .method = "POST",
        .method_len = 4,
        .host = "api.example.com",
        .port = 443,
        .server_name = "api.example.com",
        FIELDS(fields),
    };
    set_target(&r, "/v1/things?limit=10");
    assert_written(&r, 7,
                   "{\"t\":\"req\",\"id\":7,\"method\":\"POST\",\"host\":\"api.example.com\","
                   "\"port\":443,\"hostHeader\":\"api.example.com\",\"sni\":\"api.example.com\","
                   "\"path\":\"/v1/things\",\"query\":\"limit=10\","
                   "\"headers\":{\"accept\":[\"*/*\"]}}");
}

static void what_is_not_there_is_left_out(void **state)
{
    static const struct decider_field empty_host[] = {FIELD("Host", "")};
    (void)state;
    struct decider_request r = request();
    static const char want[] = "{\"t\":\"req\",\"id\":1,\"method\":\"GET\",\"host\":\"a.b\","
                               "\"port\":443,\"path\":\"/\"}";
    assert_written(&r, 1, want);
    r.server_name = "";
    set_target(&r, "/?");
    assert_written(&r, 1, want);
    r.fields = empty_host;
    r.field_count = 1;
    assert_written(&r, 1, want);
}

static void the_target_is_cut_at_its_first_question_mark(void **state)
{
    static const struct {
        const char *target, *want;
    } cases[] = {
        {"/a?b?c", "\"path\":\"/a\",\"query\":\"b?c\""},
        {"/a??", "\"path\":\"/a\",\"query\":\"?\""},
        {"/%2e%2E/../a//b;c=%00", "\"path\":\"/%2e%2E/../a//b;c=%00\""},
        {"*", "\"path\":\"*\""},
        {"/\xc3\xa9?\"\\", "\"path\":\"/\xc3\xa9\",\"query\":\"\\\"\\\\\""},
        {"/a?b#c", "\"path\":\"/a\",\"query\":\"b#c\""},
    };
    char want[200];
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct decider_request r = request();
        set_target(&r, cases[i].target);
        snprintf(want, sizeof want,
                 "{\"t\":\"req\",\"id\":9007199254740991,\"method\":\"GET\",\"host\":\"a.b\","
                 "\"port\":443,%s}",
                 cases[i].want);
        assert_written(&r, MESSAGE_ID_MAX, want);
    }
}

static void values_of_one_name_go_together(void **state)
{
    static const struct decider_field fields[] = {
        FIELD("B", "1"),      FIELD("A", "2"),       FIELD("b", "3"),    FIELD("x-y", "4"),
        FIELD("hOsT", "h:1"), FIELD("X_Y", "5"),     FIELD("a", "\t\""), FIELD("B", ""),
        FIELD("X-Y", "6"),    FIELD("hosts", "\\e"), FIELD("ab", "7"),
    };
    (void)state;
    struct decider_request r = request();
    r.fields = fields;
    r.field_count = COUNT(fields);
    assert_written(&r, 1,
                   "{\"t\":\"req\",\"id\":1,\"method\":\"GET\",\"host\":\"a.b\",\"port\":443,"
                   "\"hostHeader\":\"h:1\",\"path\":\"/\",\"headers\":{\"b\":[\"1\",\"3\",\"\"],"
                   "\"a\":[\"2\",\"\\t\\\"\"],\"x-y\":[\"4\",\"6\"],\"x_y\":[\"5\"],"
                   "\"hosts\":[\"\\\\e\"],\"ab\":[\"7\"]}}");
}

static void refuses_headers_that_are_no_text(void **state)
{
    static const struct decider_field fields[] = {
        FIELD("", "x"),
        FIELD("a b", "x"),
        FIELD("a:", "x"),
        FIELD("a\0", "x"),
        FIELD("\xc3\xa9", "x"),
        FIELD("(a)", "x"),
        FIELD("a\"", "x"),
        FIELD("a\t", "x"),
        FIELD("a\x7f", "x"),
        FIELD("a", "x\ny"),
        FIELD("a", "\r"),
        FIELD("a", "\0"),
        FIELD("a", "x\x01"),
        FIELD("a", "\x1f"),
        FIELD("a", "\x7f"),
        FIELD("a", "\xc2\x80"),
        FIELD("a", "\xc2\x9f"),
        FIELD("a", "caf\xe9"),
        FIELD("a", "\xff"),
        FIELD("a", "\xc0\x80"),
        FIELD("a", "\xed\xa0\x80"),
        FIELD("a", "\xf0\x9f\x98"),
        FIELD("Host", "a.b\x01"),
        FIELD("Host", "\xe9"),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(fields); i++) {
        struct decider_request r = request();
        r.fields = &fields[i];
        r.field_count = 1;
        assert_refused(&r, HEADER);
    }
}

static void refuses_a_second_host_header(void **state)
{
    static const struct decider_field same[] = {FIELD("Host", "a.b"), FIELD("host", "a.b")};
    static const struct decider_field empty[] = {FIELD("Host", ""), FIELD("Accept", "*/*"),
                                                 FIELD("HOST", "")};
    (void)state;
    struct decider_request r = request();
    r.fields = same;
    r.field_count = COUNT(same);
    assert_refused(&r, HOSTS);
    r.fields = empty;
    r.field_count = COUNT(empty);
    assert_refused(&r, HOSTS);
}

static void header_values_are_counted(void **state)
{
    enum { MOST = HEADER_VALUES_MAX + 2 };
    char names[MOST][8];
    struct decider_field fields[MOST];
    (void)state;
    for (unsigned distinct = 0; distinct < 2; distinct++) {
        for (size_t i = 0; i < MOST; i++) {
            snprintf(names[i], sizeof names[i], "x%zu", distinct != 0 ? i : 0);
            fields[i] = (struct decider_field){names[i], strlen(names[i]), "v", 1};
        }
        fields[5] = (struct decider_field)FIELD("Host", "a.b"); /* does not count */
        struct decider_request r = request();
        r.fields = fields;
        r.field_count = HEADER_VALUES_MAX + 1;
        struct buf out;
        buf_init(&out, 1 << 20);
        assert_null(request_write(&out, 1, &r));
        buf_free(&out);
        r.field_count++;
        assert_refused(&r, HEADERS);
    }
}

static void header_bytes_are_counted_with_each_name_once(void **state)
{
    char *value = repeated('v', HEADER_BYTES_MAX);
    (void)state;
    for (size_t over = 0; over < 2; over++) {
        struct decider_field fields[] = {FIELD("Host", "not.counted"), FIELD("name", "1234"),
                                         FIELD("NAME", ""), FIELD("Name", ""), FIELD("b", "")};
        fields[2].value = fields[3].value = value;
        fields[2].value_len = HEADER_BYTES_MAX / 2;
        fields[3].value_len = HEADER_BYTES_MAX / 2 - 4 - 4 - 1 + over;
        struct decider_request r = request();
        r.fields = fields;
        r.field_count = COUNT(fields);
        if (over != 0) {
            assert_refused(&r, HEADERS);
        } else {
            struct buf out;
            buf_init(&out, 1 << 20);
            assert_null(request_write(&out, 1, &r));
            buf_free(&out);
        }
    }
    free(value);
}

static void refuses_what_lacks_its_parts(void **state)
{
    (void)state;
    struct decider_request r = request();
    r.method_len = 0;
    assert_refused(&r, REQUEST);
    r = request();
    r.host = "";
    assert_refused(&r, REQUEST);
    r = request();
    r.port = 0;
    assert_refused(&r, REQUEST);
    r = request();
    r.target = NULL;
    r.target_len = 0;
    assert_refused(&r, REQUEST);
    set_target(&r, "?query");
    assert_refused(&r, REQUEST);
}

static void refuses_parts_that_are_no_text(void **state)
{
    static const char *const bad[] = {"/\xff", "/?\xff", "/\x01", "/?\n", "/\xc2\x80", "/?\x7f"};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct decider_request r = request();
        set_target(&r, bad[i]);
        assert_refused(&r, REQUEST);
        r = request();
        r.method = bad[i];
        r.method_len = strlen(bad[i]);
        assert_refused(&r, REQUEST);
        r = request();
        r.host = bad[i];
        assert_refused(&r, REQUEST);
        r = request();
        r.server_name = bad[i];
        assert_refused(&r, REQUEST);
    }
    struct decider_request r = request();
    r.target = "/a\0b";
    r.target_len = 4;
    assert_refused(&r, REQUEST);
}

static void names_and_paths_are_bounded_each(void **state)
{
    (void)state;
    for (size_t n = NAME_BYTES_MAX; n <= NAME_BYTES_MAX + 1; n++) {
        char *name = repeated('/', n);
        struct decider_field host = FIELD("Host", "");
        host.value = name;
        host.value_len = n;
        struct decider_request cases[4];
        for (size_t i = 0; i < 4; i++)
            cases[i] = request();
        cases[0].host = name;
        cases[1].server_name = name;
        set_target(&cases[2], name);
        cases[3].fields = &host;
        cases[3].field_count = 1;
        for (size_t i = 0; i < 4; i++) {
            if (n > NAME_BYTES_MAX) {
                assert_refused(&cases[i], TARGET);
                continue;
            }
            struct buf out;
            buf_init(&out, 1 << 20);
            assert_null(request_write(&out, 1, &cases[i]));
            buf_free(&out);
        }
        free(name);
    }
}

static void a_frame_fits_with_the_largest_id(void **state)
{
    static const char around[] = "{\"t\":\"req\",\"id\":9007199254740991,\"method\":\"GET\","
                                 "\"host\":\"a.b\",\"port\":443,\"path\":\"/\",\"query\":\"\"}";
    size_t fits = FRAME_MAX - (sizeof around - 1);
    char *target = repeated('q', fits + 3);
    (void)state;
    memcpy(target, "/?", 2);
    struct decider_request r = request();
    r.target = target;
    r.target_len = 2 + fits;
    struct buf out;
    buf_init(&out, 1 << 21);
    assert_null(request_write(&out, MESSAGE_ID_MAX, &r));
    assert_int_equal(buf_len(&out), FRAME_HEAD + FRAME_MAX);
    buf_free(&out);
    assert_null(request_write(&out, 1, &r));
    assert_int_equal(buf_len(&out), FRAME_HEAD + FRAME_MAX - 15);
    buf_free(&out);
    r.target_len++;
    assert_refused(&r, FRAME);
    /* Escapes count as they are written. */
    r.target_len--;
    target[100] = '"';
    assert_refused(&r, FRAME);
    free(target);
}

static void nothing_is_written_without_room(void **state)
{
    struct buf out;
    (void)state;
    struct decider_request r = request();
    buf_init(&out, 40);
    assert_string_equal(request_write(&out, 1, &r), FRAME);
    assert_int_equal(buf_len(&out), 0);
    struct decider_connection c = {.via = "connect", .host = "a.b", .port = 1, .client = "local"};
    for (size_t max = 0; max < 78; max++) {
        buf_init(&out, max);
        assert_non_null(connection_write(&out, 1, &c));
        assert_int_equal(buf_len(&out), 0);
        buf_free(&out);
    }
    buf_init(&out, 78);
    assert_null(connection_write(&out, 1, &c));
    buf_free(&out);
}

static void assert_asked(const struct decider_connection *c, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_null(connection_write(&out, 7, c));
    assert_payload(&out, want);
    buf_free(&out);
}

static void a_connection_goes_out_as_one_frame(void **state)
{
    (void)state;
    struct decider_connection c = {
        .via = "connect", .host = "api.example.com", .port = 443, .client = "192.0.2.1"};
    static const char without[] = "{\"t\":\"conn\",\"id\":7,\"via\":\"connect\","
                                  "\"host\":\"api.example.com\",\"port\":443,"
                                  "\"client\":\"192.0.2.1\"}";
    assert_asked(&c, without);
    c.user = "";
    assert_asked(&c, without);
    c.user = "a\"b:c";
    c.user_len = 3;
    c.via = "socks";
    c.client = "local";
    assert_asked(&c, "{\"t\":\"conn\",\"id\":7,\"via\":\"socks\",\"host\":\"api.example.com\","
                     "\"port\":443,\"client\":\"local\",\"user\":\"a\\\"b\"}");
}

/* A decider must not take somebody for nobody. */
static void refuses_connections_of_users_that_cannot_be_named(void **state)
{
    char *longest = repeated('u', NAME_BYTES_MAX + 1);
    const struct {
        const char *user;
        size_t n;
    } cases[] = {{"bo\nb", 4}, {"b\xff", 2}, {"b\0", 2}, {longest, NAME_BYTES_MAX + 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        assert_non_null(connection_write(&out, 7,
                                         &(struct decider_connection){.via = "http",
                                                                      .host = "a.test",
                                                                      .port = 80,
                                                                      .client = "local",
                                                                      .user = cases[i].user,
                                                                      .user_len = cases[i].n}));
        assert_int_equal(buf_len(&out), 0);
        buf_free(&out);
    }
    free(longest);
}

static void refuses_connections_without_a_destination(void **state)
{
    char *longest = repeated('h', NAME_BYTES_MAX + 1);
    const struct decider_connection cases[] = {
        {.via = "http", .host = "", .port = 80, .client = "local"},
        {.via = "http", .host = "a.b", .port = 0, .client = "local"},
        {.via = "http", .host = "a.b", .port = 80, .client = ""},
        {.via = "http", .host = "a\x01", .port = 80, .client = "local"},
        {.via = "http", .host = longest, .port = 80, .client = "local"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        assert_non_null(connection_write(&out, 1, &cases[i]));
        assert_int_equal(buf_len(&out), 0);
        buf_free(&out);
    }
    free(longest);
}

static void a_hello_is_these_bytes(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 100);
    hello_write(&out, 1);
    assert_int_equal(buf_len(&out), 27);
    assert_memory_equal(buf_data(&out), "\0\0\0\x17{\"t\":\"hello\",\"proto\":1}", 27);
    buf_clear(&out);
    hello_write(&out, 2);
    assert_payload(&out, "{\"t\":\"hello\",\"proto\":2}");
    buf_free(&out);
}

static void a_body_frame_is_its_three_parts(void **state)
{
    static const struct {
        const char *bytes;
        bool cut;
        const char *want;
    } cases[] = {
        {"", false, "{\"t\":\"body\",\"id\":7,\"data\":\"\"}"},
        {"f", false, "{\"t\":\"body\",\"id\":7,\"data\":\"Zg==\"}"},
        {"fo", false, "{\"t\":\"body\",\"id\":7,\"data\":\"Zm8=\"}"},
        {"foo", true, "{\"t\":\"body\",\"id\":7,\"data\":\"Zm9v\",\"cut\":true}"},
        {"\xff\xfe\xfd\xfb\xef\xbe", false, "{\"t\":\"body\",\"id\":7,\"data\":\"//79++++\"}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t n = strlen(cases[i].bytes);
        struct buf out;
        buf_init(&out, 200);
        body_head_write(&out, 7, n, cases[i].cut);
        uint8_t *to = buf_reserve(&out, body_base64_size(n));
        size_t wrote = body_base64(to, (const uint8_t *)cases[i].bytes, n);
        assert_int_equal(wrote, body_base64_size(n));
        buf_commit(&out, wrote);
        body_tail_write(&out, cases[i].cut);
        assert_payload(&out, cases[i].want);
        buf_free(&out);
    }
}

static void base64_of_every_byte_can_be_read_back(void **state)
{
    uint8_t bytes[256 + 2];
    uint8_t text[400];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        size_t split = n / 2 / 3 * 3;
        size_t wrote = body_base64(text, bytes, split);
        wrote += body_base64(text + wrote, bytes + split, n - split);
        assert_int_equal(wrote, body_base64_size(n));
        struct buf back;
        buf_init(&back, sizeof bytes);
        assert_true(text_base64_decode(&back, (const char *)text, wrote));
        assert_int_equal(buf_len(&back), n);
        if (n != 0)
            assert_memory_equal(buf_data(&back), bytes, n);
        buf_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_goes_out_as_one_frame),
        cmocka_unit_test(what_is_not_there_is_left_out),
        cmocka_unit_test(the_target_is_cut_at_its_first_question_mark),
        cmocka_unit_test(values_of_one_name_go_together),
        cmocka_unit_test(refuses_headers_that_are_no_text),
        cmocka_unit_test(refuses_a_second_host_header),
        cmocka_unit_test(header_values_are_counted),
        cmocka_unit_test(header_bytes_are_counted_with_each_name_once),
        cmocka_unit_test(refuses_what_lacks_its_parts),
        cmocka_unit_test(refuses_parts_that_are_no_text),
        cmocka_unit_test(names_and_paths_are_bounded_each),
        cmocka_unit_test(a_frame_fits_with_the_largest_id),
        cmocka_unit_test(nothing_is_written_without_room),
        cmocka_unit_test(a_connection_goes_out_as_one_frame),
        cmocka_unit_test(refuses_connections_of_users_that_cannot_be_named),
        cmocka_unit_test(refuses_connections_without_a_destination),
        cmocka_unit_test(a_hello_is_these_bytes),
        cmocka_unit_test(a_body_frame_is_its_three_parts),
        cmocka_unit_test(base64_of_every_byte_can_be_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
