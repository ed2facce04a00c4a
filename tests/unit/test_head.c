/* Request and response heads: what is accepted, what is not, and that pieces change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/http/head.h"

enum { LIMIT = 65536 };

typedef enum head_result parse_function(struct head *, const uint8_t *, size_t, size_t *, size_t);

/* Parses a copy that ends where its memory ends, so that a read past it is seen. */
static enum head_result parse(parse_function *function, struct head *h, const char *s, size_t n,
                              size_t limit)
{
    char *copy = mem_dup_n(s, n);
    copy = mem_resize(copy, n, 1);
    size_t scanned = 0;
    enum head_result result = function(h, (const uint8_t *)copy, n, &scanned, limit);
    free(copy);
    return result;
}

/* The same, byte by byte; the answer of the first call that is not HEAD_MORE. */
static enum head_result parse_slowly(parse_function *function, struct head *h, const char *s,
                                     size_t n, size_t limit)
{
    size_t scanned = 0;
    enum head_result result = HEAD_MORE;
    for (size_t i = 1; i <= n && result == HEAD_MORE; i++) {
        char *copy = mem_resize(mem_dup_n(s, i), i, 1);
        result = function(h, (const uint8_t *)copy, i, &scanned, limit);
        free(copy);
    }
    return result;
}

static void expect_both(parse_function *function, const char *s, size_t n, enum head_result want)
{
    struct head h;
    head_init(&h);
    enum head_result whole = parse(function, &h, s, n, LIMIT);
    enum head_result slow = parse_slowly(function, &h, s, n, LIMIT);
    if (whole != want || slow != want)
        print_error("whole %u, byte by byte %u, wanted %u: %.*s\n", whole, slow, want, (int)n, s);
    assert_int_equal(whole, want);
    assert_int_equal(slow, want);
    head_free(&h);
}

struct sample {
    const char *text;
    enum head_result want;
};

#define LINE "GET http://a.test/ HTTP/1.1\r\n"
#define POST "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n"

static const struct sample request_lines[] = {
    {LINE "Host: a\r\n\r\n", HEAD_OK},
    {"GET http://a.test/ HTTP/1.0\r\n\r\n", HEAD_OK},
    {"get http://a.test/ HTTP/1.0\r\n\r\n", HEAD_OK},
    {"M-SEARCH!#$%&'*+.^_`|~ http://a/ HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET / HTTP/1.0\r\n\r\n", HEAD_OK},
    {"OPTIONS * HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET ftp://a/ HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET http://a/\"<>\\^`{|} HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET http://a?\"<>\\^`{|} HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET //x\"y/ HTTP/1.0\r\n\r\n", HEAD_OK},
    {"GET http://a/ HTTP/1.1\r\n\r\n", HEAD_NO_HOST},
    {"GET  http://a/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/  HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET\thttp://a/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/\tHTTP/1.0\r\n\r\n", HEAD_BAD},
    {" GET http://a/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"G(T http://a/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET:http://a/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/1.2\r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/2.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/0.9\r\n\r\n", HEAD_BAD},
    {"GET http://a/ http/1.1\r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/1.11\r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/1.1 \r\n\r\n", HEAD_BAD},
    {"GET http://a/ HTTP/1\r\n\r\n", HEAD_BAD},
    {"GET http://a/ ICY/1.1\r\n\r\n", HEAD_BAD},
    {"GET http://a/\r\n\r\n", HEAD_BAD},
    {"GET\r\n\r\n", HEAD_BAD},
    {"G\r\n", HEAD_BAD},
    {"GET http://a/b c HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/\x7f HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/\x01 HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a/\xc3\xa9 HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a\"b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a<b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a>b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a\\b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a^b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a`b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a{b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a|b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET http://a}b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"GET HTTPS://u{@b/ HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"CONNECT a.test:443 HTTP/1.1\r\n\r\n", HEAD_OK},
    {"CONNECT a.test:443 HTTP/1.0\r\n\r\n", HEAD_OK},
    {"CONNECT a|b\xc3\xa9 HTTP/1.1\r\n\r\n", HEAD_OK},
    {"CONNECT a.test:44 3 HTTP/1.1\r\n\r\n", HEAD_BAD},
    {"CONNECT a\x7f:443 HTTP/1.1\r\n\r\n", HEAD_BAD},
    {"connect a.test:443 HTTP/1.1\r\n\r\n", HEAD_NO_HOST},
    {"\r\nGET / HTTP/1.0\r\n\r\n", HEAD_OK},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n", HEAD_OK},
    {"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"\nGET / HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"\rGET / HTTP/1.0\r\n\r\n", HEAD_BAD},
    {"\r\n", HEAD_MORE},
    {"\r", HEAD_MORE},
    {"GET / HTTP/1.0\r\n\r", HEAD_MORE},
    {"PRI * HTTP/2.0\r\n", HEAD_BAD},
    {"\x16\x03\x01", HEAD_BAD},
    {"\x05", HEAD_BAD},
};

static const struct sample request_fields[] = {
    {LINE "Host: a\r\nX: \t v \t\r\n\r\n", HEAD_OK},
    {LINE "Host: a\r\nX:v\r\n\r\n", HEAD_OK},
    {LINE "Host: a\r\nX:\r\n\r\n", HEAD_OK},
    {LINE "Host:\r\n\r\n", HEAD_OK},
    {LINE "Host: a\r\nHost: b\r\n\r\n", HEAD_OK},
    {LINE "Host: a\r\nX: a\tb\x80\xff\r\n\r\n", HEAD_OK},
    {LINE "Host: a\r\nX: 12345678\x01\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\x7f\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: 1234567\x7f"
          "12345678\r\n\r\n",
     HEAD_BAD},
    {LINE "Host: a\r\nX: a\rb\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\r\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\nY: b\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\n\n", HEAD_BAD},
    {"GET / HTTP/1.0\n\n", HEAD_BAD},
    {"GET / HTTP/1.0\r\n\n", HEAD_BAD},
    {LINE "Host : a\r\n\r\n", HEAD_BAD},
    {LINE "Host\t: a\r\n\r\n", HEAD_BAD},
    {LINE " Host: a\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\r\n b\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\r\n\tb\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX: a\r\n \r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\n: a\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX(y): a\r\n\r\n", HEAD_BAD},
    {LINE "Host: a\r\nX\xc3\xa9: a\r\n\r\n", HEAD_BAD},
    {LINE "X: a\r\n\r\n", HEAD_NO_HOST},
};

static const struct sample framings[] = {
    {POST "Content-Length: 5\r\n\r\n", HEAD_OK},
    {POST "Content-Length:\t 5 \r\n\r\n", HEAD_OK},
    {POST "content-length: 0000000000000000000000000000000000005\r\n\r\n", HEAD_OK},
    {POST "Content-Length: 9223372036854775807\r\n\r\n", HEAD_OK},
    {POST "Content-Length: 9223372036854775808\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 18446744073709551621\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 99999999999999999999999999\r\n\r\n", HEAD_BAD},
    {POST "Content-Length:\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: +5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: -5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 0x5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5, 5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5,\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5 5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5\r\nContent_Length: 6\r\n\r\n", HEAD_OK},
    {POST "Transfer-Encoding: chunked\r\n\r\n", HEAD_OK},
    {POST "TRANSFER-ENCODING: Chunked\r\n\r\n", HEAD_OK},
    {POST "Transfer-Encoding: \t chunked\t \r\n\r\n", HEAD_OK},
    {POST "Transfer_Encoding: gzip\r\n\r\n", HEAD_OK},
    {POST "Transfer.Encoding: chunked\r\nContent-Length: 5\r\n\r\n", HEAD_OK},
    {POST "Transfer-Encoding: chunked,\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: ,chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: chunked, gzip\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: chunked, chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: chunked;q=1\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: \"chunked\"\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: identity\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: xchunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: \x0b"
          "chunked\r\n\r\n",
     HEAD_BAD},
    {POST "Transfer-Encoding:\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding : chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding\r\n : chunked\r\n\r\n", HEAD_BAD},
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", HEAD_BAD},
    {POST "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n", HEAD_BAD},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
    {"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\n", HEAD_OK},
    {"CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_OK},
    {"CONNECT a:1 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_OK},
    {"CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", HEAD_OK},
    {"CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
};

#define OK200 "HTTP/1.1 200 OK\r\n"

static const struct sample responses[] = {
    {OK200 "\r\n", HEAD_OK},
    {"HTTP/1.0 200 OK\r\n\r\n", HEAD_OK},
    {"HTTP/1.1 200 \r\n\r\n", HEAD_OK},
    {"HTTP/1.1 200\r\n\r\n", HEAD_OK},
    {"HTTP/1.1 999 \xc3\xa9\tx\r\n\r\n", HEAD_OK},
    {"HTTP/1.1 100 Continue\r\n\r\n", HEAD_OK},
    {"HTTP/1.1 099 x\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 20 x\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 2000 x\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 2x0 x\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 +20 x\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1  200 OK\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1\t200 OK\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 200\tOK\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 200 O\x01K\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 200 O\rK\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 200 OK\n\r\n", HEAD_BAD},
    {"HTTP/1.2 200 OK\r\n\r\n", HEAD_BAD},
    {"HTTP/2 200\r\n\r\n", HEAD_BAD},
    {"ICY 200 OK\r\n\r\n", HEAD_BAD},
    {"http/1.1 200 OK\r\n\r\n", HEAD_BAD},
    {"\r\nHTTP/1.1 200 OK\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1\r\n\r\n", HEAD_BAD},
    {"HTTP/1.1 2\r\n\r\n", HEAD_BAD},
    {"HTTP/1.", HEAD_MORE},
    {OK200 "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", HEAD_BAD},
    {OK200 "Content-Length: 5, 5\r\n\r\n", HEAD_BAD},
    {OK200 "Content-Length: 9223372036854775808\r\n\r\n", HEAD_BAD},
    {OK200 "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", HEAD_BAD},
    {OK200 "Transfer-Encoding: gzip\r\n\r\n", HEAD_BAD},
    {OK200 "Transfer-Encoding: gzip, chunked\r\n\r\n", HEAD_BAD},
    {OK200 "Transfer-Encoding: Chunked\r\n\r\n", HEAD_OK},
    {OK200 "X: a\r\n b\r\n\r\n", HEAD_BAD},
    {OK200 "X : a\r\n\r\n", HEAD_BAD},
    {OK200 "X: a\n\r\n", HEAD_BAD},
};

#define RUN(function, table)                                                                    \
    do {                                                                                        \
        for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++)                         \
            expect_both((function), (table)[i].text, strlen((table)[i].text), (table)[i].want); \
    } while (0)

static void request_lines_are_strict(void **state)
{
    (void)state;
    RUN(head_parse_request, request_lines);
}

static void request_fields_are_strict(void **state)
{
    (void)state;
    RUN(head_parse_request, request_fields);
}

static void ambiguous_framing_is_bad(void **state)
{
    (void)state;
    RUN(head_parse_request, framings);
}

static void responses_are_strict(void **state)
{
    (void)state;
    RUN(head_parse_response, responses);
}

static void nul_is_bad_wherever_it_is(void **state)
{
    (void)state;
    static const char good[] = "GET http://a/ HTTP/1.1\r\nHost: abcdefghijkl\r\nX-Y: z\r\n\r\n";
    for (size_t i = 0; i < sizeof good - 1; i++) {
        char bad[sizeof good];
        memcpy(bad, good, sizeof good);
        bad[i] = 0;
        struct head h;
        head_init(&h);
        enum head_result result = parse(head_parse_request, &h, bad, sizeof good - 1, LIMIT);
        /* Without one of its last two line feeds the head is only not complete yet. */
        bool unfinished = i == sizeof good - 2 || i == sizeof good - 4;
        assert_int_equal(result, unfinished ? HEAD_MORE : HEAD_BAD);
        head_free(&h);
    }
}

static void every_split_gives_the_same(void **state)
{
    (void)state;
    static const char text[] = "\r\nPOST http://a.test/x?y HTTP/1.1\r\nHost: a.test\r\n"
                               "Connection: close, X-One\r\nContent-Length: 12\r\nCookie: a=b\r\n"
                               "\r\nbody";
    const size_t n = sizeof text - 1;
    for (size_t cut = 0; cut <= n; cut++) {
        struct head h;
        head_init(&h);
        size_t scanned = 0;
        const uint8_t *p = (const uint8_t *)text;
        enum head_result result = head_parse_request(&h, p, cut, &scanned, LIMIT);
        if (cut < n - 4)
            assert_int_equal(result, HEAD_MORE);
        if (result == HEAD_MORE)
            result = head_parse_request(&h, p, n, &scanned, LIMIT);
        assert_int_equal(result, HEAD_OK);
        assert_int_equal(h.length, n - 4);
        assert_int_equal(h.count, 4);
        assert_true(h.connection_close);
        assert_int_equal(h.content_length, 12);
        assert_memory_equal(text + h.target.at, "http://a.test/x?y", h.target.len);
        head_free(&h);
    }
}

static void limit_counts_every_byte(void **state)
{
    (void)state;
    static const char text[] = "\r\nGET / HTTP/1.0\r\nX-Filler: 0123456789\r\n\r\n";
    const size_t n = sizeof text - 1;
    struct head h;
    head_init(&h);
    assert_int_equal(parse(head_parse_request, &h, text, n, n), HEAD_OK);
    assert_int_equal(parse(head_parse_request, &h, text, n, n - 1), HEAD_TOO_LARGE);
    assert_int_equal(parse_slowly(head_parse_request, &h, text, n, n - 1), HEAD_TOO_LARGE);
    assert_int_equal(parse(head_parse_request, &h, text, n - 2, n - 2), HEAD_TOO_LARGE);
    assert_int_equal(parse(head_parse_request, &h, text, n - 2, n), HEAD_MORE);
    head_free(&h);
}

static void spans_and_ids(void **state)
{
    (void)state;
    static const char text[] =
        "GET http://a/ HTTP/1.1\r\nHOST:  a \r\nX-Host: b\r\ncookie: c\r\nETag: 1\r\netag: 2\r\n"
        "Proxy_Authorization: x\r\nIf-Unmodified-Since: y\r\nx-host: d\r\n\r\n";
    static const struct {
        const char *name, *value;
        uint8_t id;
    } want[] = {
        {"HOST", "a", FIELD_HOST},
        {"X-Host", "b", FIELD_OTHER},
        {"cookie", "c", FIELD_COOKIE},
        {"ETag", "1", FIELD_ONCE},
        {"etag", "2", FIELD_ONCE},
        {"Proxy_Authorization", "x", FIELD_OTHER},
        {"If-Unmodified-Since", "y", FIELD_ONCE},
        {"x-host", "d", FIELD_OTHER},
    };
    struct head h;
    head_init(&h);
    size_t scanned = 0;
    const uint8_t *p = (const uint8_t *)text;
    assert_int_equal(head_parse_request(&h, p, sizeof text - 1, &scanned, LIMIT), HEAD_OK);
    assert_int_equal(h.count, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < h.count; i++) {
        assert_int_equal(h.fields[i].name.len, strlen(want[i].name));
        assert_memory_equal(p + h.fields[i].name.at, want[i].name, strlen(want[i].name));
        assert_int_equal(h.fields[i].value.len, strlen(want[i].value));
        assert_memory_equal(p + h.fields[i].value.at, want[i].value, strlen(want[i].value));
        assert_int_equal(h.fields[i].id, want[i].id);
    }
    assert_int_equal(h.fields[3].once, h.fields[4].once);
    assert_int_not_equal(h.fields[3].once, h.fields[6].once);

    size_t len;
    assert_memory_equal(head_find(&h, p, "X-HOST", 1, &len), "d", 1);
    assert_int_equal(len, 1);
    assert_null(head_find(&h, p, "x-host", 2, &len));
    assert_null(head_find(&h, p, "x-hos", 0, &len));
    assert_true(head_method_is(&h, p, "GET"));
    assert_false(head_method_is(&h, p, "get"));
    assert_false(head_method_is(&h, p, "GE"));
    head_free(&h);
}

static void what_the_fields_say(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        bool close, keep_alive, upgrade, length_named, expect_continue, expect_other;
    } rows[] = {
        {"", false, false, false, false, false, false},
        {"Connection: Close\r\n", true, false, false, false, false, false},
        {"Connection: ,, keep-alive ,x\r\n", false, true, false, false, false, false},
        {"Connection: x\r\nConnection: Upgrade,close\r\n", true, false, true, false, false, false},
        {"Connection: Content-Length\r\n", false, false, false, true, false, false},
        {"Connection: closed, xclose\r\n", false, false, false, false, false, false},
        {"Expect: 100-continue\r\n", false, false, false, false, true, false},
        {"Expect: 100-Continue \r\n", false, false, false, false, true, false},
        {"Expect: 100-continue, x\r\n", false, false, false, false, false, true},
        {"Expect: 200-ok\r\n", false, false, false, false, false, true},
        {"Expect:\r\n", false, false, false, false, false, true},
        {"Expect: 100-continue\r\nExpect: 100-continue\r\n", false, false, false, false, false,
         true},
        {"Expect: x\r\nExpect: 100-continue\r\n", false, false, false, false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        int n = snprintf(text, sizeof text, LINE "Host: a\r\n%s\r\n", rows[i].fields);
        struct head h;
        head_init(&h);
        assert_int_equal(parse(head_parse_request, &h, text, (size_t)n, LIMIT), HEAD_OK);
        assert_int_equal(h.connection_close, rows[i].close);
        assert_int_equal(h.connection_keep_alive, rows[i].keep_alive);
        assert_int_equal(h.connection_upgrade, rows[i].upgrade);
        assert_int_equal(h.length_named, rows[i].length_named);
        assert_int_equal(h.expect_continue, rows[i].expect_continue);
        assert_int_equal(h.expect_other, rows[i].expect_other);
        head_free(&h);
    }
}

static void expect_of_http_1_0_is_not_read(void **state)
{
    (void)state;
    static const char text[] = "GET http://a/ HTTP/1.0\r\nExpect: x\r\n\r\n";
    struct head h;
    head_init(&h);
    assert_int_equal(parse(head_parse_request, &h, text, sizeof text - 1, LIMIT), HEAD_OK);
    assert_false(h.expect_other || h.expect_continue);
    head_free(&h);
}

static void framing_is_told(void **state)
{
    (void)state;
    static const struct {
        parse_function *function;
        const char *text;
        enum head_framing framing;
        uint64_t length;
    } rows[] = {
        {head_parse_request, LINE "Host: a\r\n\r\n", BODY_NONE, 0},
        {head_parse_request, POST "Content-Length: 0\r\n\r\n", BODY_LENGTH, 0},
        {head_parse_request, POST "Content-Length: 9223372036854775807\r\n\r\n", BODY_LENGTH,
         INT64_MAX},
        {head_parse_request, POST "Transfer-Encoding: chunked\r\n\r\n", BODY_CHUNKED, 0},
        {head_parse_request, "CONNECT a:1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", BODY_NONE, 0},
        {head_parse_request, "CONNECT a:1 HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", BODY_NONE,
         0},
        {head_parse_response, OK200 "\r\n", BODY_CLOSE, 0},
        {head_parse_response, OK200 "Content-Length: 7\r\n\r\n", BODY_LENGTH, 7},
        {head_parse_response, OK200 "Transfer-Encoding: chunked\r\n\r\n", BODY_CHUNKED, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct head h;
        head_init(&h);
        assert_int_equal(parse(rows[i].function, &h, rows[i].text, strlen(rows[i].text), LIMIT),
                         HEAD_OK);
        assert_int_equal(h.framing, rows[i].framing);
        assert_int_equal(h.content_length, rows[i].length);
        head_free(&h);
    }
}

static void status_and_reason(void **state)
{
    (void)state;
    static const char text[] = "HTTP/1.0 404 Not  Here\t\r\n\r\nrest";
    struct head h;
    head_init(&h);
    assert_int_equal(parse(head_parse_response, &h, text, sizeof text - 1, LIMIT), HEAD_OK);
    assert_int_equal(h.status, 404);
    assert_int_equal(h.minor, 0);
    assert_int_equal(h.reason.len, strlen("Not  Here\t"));
    assert_int_equal(h.length, sizeof text - 5);
    head_free(&h);
}

/* A head after another one in the same struct owes nothing to it. */
static void a_head_is_reused_clean(void **state)
{
    (void)state;
    static const char first[] = POST "Connection: close, upgrade, content-length\r\n"
                                     "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    static const char second[] = LINE "Host: b\r\n\r\n";
    struct head h;
    head_init(&h);
    assert_int_equal(parse(head_parse_request, &h, first, sizeof first - 1, LIMIT), HEAD_OK);
    assert_int_equal(parse(head_parse_request, &h, second, sizeof second - 1, LIMIT), HEAD_OK);
    assert_false(h.connection_close || h.connection_upgrade || h.length_named);
    assert_false(h.expect_continue);
    assert_int_equal(h.framing, BODY_NONE);
    assert_int_equal(h.content_length, 0);
    assert_int_equal(h.count, 1);
    assert_int_equal(h.host_count, 1);
    head_free(&h);
}

static void many_fields(void **state)
{
    (void)state;
    char text[LIMIT];
    size_t n = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.0\r\n");
    uint32_t count = 0;
    for (; n < sizeof text - 16; count++)
        n += (size_t)snprintf(text + n, sizeof text - n, "a:\r\n");
    n += (size_t)snprintf(text + n, sizeof text - n, "\r\n");
    struct head h;
    head_init(&h);
    assert_int_equal(parse(head_parse_request, &h, text, n, LIMIT), HEAD_OK);
    assert_int_equal(h.count, count);
    assert_int_equal(h.length, n);
    head_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_lines_are_strict),
        cmocka_unit_test(request_fields_are_strict),
        cmocka_unit_test(ambiguous_framing_is_bad),
        cmocka_unit_test(responses_are_strict),
        cmocka_unit_test(nul_is_bad_wherever_it_is),
        cmocka_unit_test(every_split_gives_the_same),
        cmocka_unit_test(limit_counts_every_byte),
        cmocka_unit_test(spans_and_ids),
        cmocka_unit_test(what_the_fields_say),
        cmocka_unit_test(expect_of_http_1_0_is_not_read),
        cmocka_unit_test(framing_is_told),
        cmocka_unit_test(status_and_reason),
        cmocka_unit_test(a_head_is_reused_clean),
        cmocka_unit_test(many_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
