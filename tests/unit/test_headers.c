/* Heads and trailers as they leave: what goes, what stays, what is set, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/http/chunked.h"
#include "proxy/http/headers.h"

enum { ROOM = 1 << 20, LIMIT = 65536 };

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const uint8_t *bytes(const char *s)
{
    return (const uint8_t *)s;
}

static void parse_request(struct head *h, const char *text)
{
    size_t scanned = 0;
    enum head_result result = head_parse_request(h, bytes(text), strlen(text), &scanned, LIMIT);
    assert_true(result == HEAD_OK || result == HEAD_NO_HOST);
}

static void parse_response(struct head *h, const char *text)
{
    size_t scanned = 0;
    assert_int_equal(head_parse_response(h, bytes(text), strlen(text), &scanned, LIMIT), HEAD_OK);
}

static const struct request_out plain = {.target = "/t", .target_len = 2, .host = "h.test"};

#define GET "GET http://a.test/ HTTP/1.1\r\n"
#define GET_OUT "GET /t HTTP/1.1\r\n"

/* Writes the request of these field lines as `how` says and compares the whole. */
static void expect_request_as(const struct request_out *how, const char *fields, const char *want)
{
    char text[2048], wanted[2048];
    struct head h;
    struct buf out;
    snprintf(text, sizeof text, GET "%s\r\n", fields);
    snprintf(wanted, sizeof wanted, GET_OUT "%s\r\n", want);
    head_init(&h);
    buf_init(&out, ROOM);
    parse_request(&h, text);
    assert_true(headers_write_request(&out, &h, bytes(text), how));
    assert_string_equal(buf_cstr(&out), wanted);
    /* Into a buffer of exactly its size, and into one a byte smaller. */
    size_t n = buf_len(&out);
    buf_free(&out);
    buf_init(&out, n);
    assert_true(headers_write_request(&out, &h, bytes(text), how));
    assert_string_equal(buf_cstr(&out), wanted);
    buf_free(&out);
    buf_init(&out, n - 1);
    assert_false(headers_write_request(&out, &h, bytes(text), how));
    assert_int_equal(buf_len(&out), 0);
    buf_free(&out);
    head_free(&h);
}

static void expect_request(const char *fields, const char *want)
{
    expect_request_as(&plain, fields, want);
}

static void host_is_set(void **state)
{
    (void)state;
    expect_request("Host: other\r\n", "Host: h.test\r\n");
    expect_request("A: 1\r\nhOsT:other\r\nB: 2\r\n", "A: 1\r\nhOsT: h.test\r\nB: 2\r\n");
    expect_request("Host: x\r\nHost: y\r\nA: 1\r\n", "Host: h.test\r\nA: 1\r\n");
    expect_request("A: 1\r\n", "Host: h.test\r\nA: 1\r\n");
    expect_request("Host: x\r\nConnection: host\r\n", "Host: h.test\r\n");
}

static void hop_by_hop_fields_are_removed(void **state)
{
    (void)state;
    static const char *const gone[] = {
        "Connection: x\r\n",
        "KEEP-ALIVE: timeout=5\r\n",
        "Proxy-Authenticate: Basic\r\n",
        "proxy-authorization: Basic eA==\r\n",
        "Proxy_Authorization: Basic eA==\r\n",
        "PROXY.AUTHORIZATION: Basic eA==\r\n",
        "proxy-Authorization: a\r\nproxy_authorization: b\r\n",
        "Proxy-Connection: keep-alive\r\n",
        "TE: trailers\r\n",
        "Trailer: X-T\r\n",
        "Upgrade: websocket\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "Connection: x-one, X-Two\r\nX-ONE: 1\r\nx-two: 2\r\nX-One: 3\r\n",
        "X-One: 1\r\nConnection: close\r\nConnection: ,x-one,,\r\n",
        "Connection: cookie, authorization\r\nCookie: a\r\nAuthorization: b\r\nCookie: c\r\n",
        "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m\r\nJ: 1\r\nA: 1\r\nM: 1\r\n",
    };
    for (size_t i = 0; i < COUNT(gone); i++) {
        char fields[512];
        snprintf(fields, sizeof fields, "Host: x\r\nKeep-A: 1\r\n%sXY: 2\r\n", gone[i]);
        expect_request(fields, "Host: h.test\r\nKeep-A: 1\r\nXY: 2\r\n");
    }
}

static void other_fields_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const stays[] = {
        "x-LoWeR: a\tb\r\n",
        "Keep.Alive: 1\r\n",
        "Transfer_Encoding: gzip\r\n",
        "Content_Length: 7\r\n",
        "X_Proxy_Authorization: a\r\n",
        "Via: 1.1 x\r\nVia: 1.1 y\r\n",
        "Accept: a\r\nX: b\r\nAccept: c\r\n",
        "Expect: 100-continue\r\n",
        "Empty: \r\n",
        "High: \x80\xff\r\n",
        "Connection-X: 1\r\n",
    };
    for (size_t i = 0; i < COUNT(stays); i++) {
        char fields[512], want[512];
        snprintf(fields, sizeof fields, "Host: x\r\n%s", stays[i]);
        snprintf(want, sizeof want, "Host: h.test\r\n%s", stays[i]);
        expect_request(fields, want);
    }
}

static void folded_hop_by_hop(void **state)
{
    (void)state;
    struct request_out how = plain;
    how.folded_hop_by_hop = true;
    expect_request_as(&how,
                      "Host: x\r\nKeep.Alive: 1\r\nproxy_connection: a\r\nTransfer_Encoding: b\r\n"
                      "Connection: x-one\r\nX_One: 1\r\nX.Two: 2\r\n",
                      "Host: h.test\r\nX.Two: 2\r\n");
    static const char *const gone[] = {
        "Keep_Alive: 1\r\n",
        "Proxy.Authenticate: 1\r\n",
        "PROXY_AUTHORIZATION: 1\r\nproxy.authorization: 2\r\n",
        "Proxy.Connection: 1\r\n",
        "transfer.encoding: chunked\r\n",
        "Connection: x_one\r\nX-One: 1\r\nX_One: 2\r\nx.ONE: 3\r\n",
        "Connection: a, X.One-Two\r\nX_One.Two: 1\r\n",
        "Connection: user_agent\r\nUser-Agent: 1\r\nUSER.AGENT: 2\r\n",
    };
    for (size_t i = 0; i < COUNT(gone); i++) {
        char fields[512];
        snprintf(fields, sizeof fields, "Host: x\r\nKeep-A: 1\r\n%sXY: 2\r\n", gone[i]);
        expect_request_as(&how, fields, "Host: h.test\r\nKeep-A: 1\r\nXY: 2\r\n");
    }
    /* A name in parts is not the name. */
    expect_request_as(&how, "Host: x\r\nConnection: x_one\r\nX-One-Two: 1\r\nXOne: 2\r\nT.E: 3\r\n",
                      "Host: h.test\r\nX-One-Two: 1\r\nXOne: 2\r\nT.E: 3\r\n");
}

/* With these edits: each first character `-` removes a name, `=` sets one to a value. */
static void expect_edited(const struct request_out *base, const char *const *edits,
                          const char *fields, const char *want)
{
    struct request_out how = *base;
    struct edits *e = edits_new();
    for (; *edits != NULL; edits++) {
        char name[64];
        int n = (int)strcspn(*edits + 1, ":");
        snprintf(name, sizeof name, "%.*s", n, *edits + 1);
        **edits == '-' ? edits_remove(e, name) : edits_set(e, name, *edits + 1 + n + 1);
    }
    how.edits = e;
    expect_request_as(&how, fields, want);
    edits_free(e);
}

#define EDITS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void edits_remove_every_spelling(void **state)
{
    (void)state;
    expect_edited(&plain, EDITS("-x-api-key"),
                  "Host: x\r\nX-API-Key: 1\r\nX_Api.Key: 2\r\nx.api_key: 3\r\nX-Api: 4\r\n"
                  "X-API-Keys: 5\r\n",
                  "Host: h.test\r\nX-Api: 4\r\nX-API-Keys: 5\r\n");
    expect_edited(&plain, EDITS("-User_Agent", "-cookie"),
                  "Cookie: a\r\nHost: x\r\nUSER-AGENT: 1\r\nuser.agent: 2\r\nUser-Agent: 3\r\n"
                  "ETag: 4\r\nCOOKIE: b\r\nETAG: 5\r\n",
                  "Host: h.test\r\nETag: 4\r\n");
    expect_edited(&plain, EDITS("-etag"),
                  "Host: x\r\nCookie: a\r\nE-Tag: 1\r\nETag: 2\r\nCookie: b\r\n",
                  "Host: h.test\r\nCookie: a; b\r\nE-Tag: 1\r\n");
}

static void edits_set_after_the_client_s_fields(void **state)
{
    (void)state;
    expect_edited(&plain, EDITS("=X_New:1", "=authorization:Bearer b", "=x-new:2"),
                  "Authorization: Basic a\r\nX.New: 0\r\nHost: x\r\nA: 1\r\n",
                  "Host: h.test\r\nA: 1\r\nx_new: 1\r\nx_new: 2\r\nauthorization: Bearer b\r\n");
    /* What Connection lists is the client's field, not the one that is set. */
    expect_edited(&plain, EDITS("=x-new:1"), "Host: x\r\nConnection: x-new\r\nX-New: 0\r\n",
                  "Host: h.test\r\nx-new: 1\r\n");
    struct request_out how = plain;
    how.close = true;
    how.proxy_authorization = "Basic p";
    how.framing = OUT_LENGTH;
    how.length = 3;
    expect_edited(&how, EDITS("=x-new:1"), "Host: x\r\nTransfer-Encoding: chunked\r\n",
                  "Host: h.test\r\nContent-Length: 3\r\nx-new: 1\r\n"
                  "Proxy-Authorization: Basic p\r\nConnection: close\r\n");
}

static void edits_touch_no_framing(void **state)
{
    (void)state;
    struct request_out how = plain;
    how.framing = OUT_LENGTH;
    how.length = 3;
    expect_edited(&how,
                  EDITS("-host", "-Content_Length", "=content-length:9", "=host:evil", "=te:x"),
                  "Host: x\r\nContent-Length: 3\r\nContent_Length: 4\r\n",
                  "Host: h.test\r\nContent-Length: 3\r\nContent_Length: 4\r\n");
    how = plain;
    how.upgrade = true;
    expect_edited(&how, EDITS("-upgrade", "-connection", "=connection:close"),
                  "Host: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
                  "Host: h.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n");
}

static void once_only_fields_are_cut(void **state)
{
    (void)state;
    static const char *const names[] = {
        "age",     "authorization",       "content-type",  "etag",     "expires",
        "from",    "if-modified-since",   "last-modified", "location", "max-forwards",
        "referer", "if-unmodified-since", "retry-after",   "server",   "user-agent",
    };
    for (size_t i = 0; i < COUNT(names); i++) {
        char fields[512], want[512];
        snprintf(fields, sizeof fields, "Host: x\r\n%s: 1\r\nA: 0\r\n%s: 2\r\n%s: 1\r\n", names[i],
                 names[i], names[i]);
        snprintf(want, sizeof want, "Host: h.test\r\n%s: 1\r\nA: 0\r\n", names[i]);
        expect_request(fields, want);
    }
    expect_request("Host: x\r\nETAG: 1\r\nAge: 2\r\netag: 3\r\n",
                   "Host: h.test\r\nETAG: 1\r\nAge: 2\r\n");
}

static void cookies_are_joined(void **state)
{
    (void)state;
    expect_request("Cookie: a=1\r\nX: y\r\ncookie: b=2\r\nCOOKIE:c=3\r\nHost: x\r\n",
                   "Cookie: a=1; b=2; c=3\r\nX: y\r\nHost: h.test\r\n");
}

static void framing_is_ours(void **state)
{
    (void)state;
    struct request_out how = plain;
    how.framing = OUT_LENGTH;
    how.length = 12;
    expect_request_as(&how, "Host: x\r\ncontent-LENGTH: 00012\r\nA: 1\r\n",
                      "Host: h.test\r\ncontent-LENGTH: 12\r\nA: 1\r\n");
    expect_request_as(&how, "Host: x\r\nTransfer-Encoding: chunked\r\nA: 1\r\n",
                      "Host: h.test\r\nA: 1\r\nContent-Length: 12\r\n");
    expect_request_as(&how, "Host: x\r\nContent-Length: 7\r\nConnection: content-length\r\n",
                      "Host: h.test\r\nContent-Length: 12\r\n");
    how.length = UINT64_MAX;
    expect_request_as(&how, "Host: x\r\nContent-Length: 1\r\n",
                      "Host: h.test\r\nContent-Length: 18446744073709551615\r\n");
    how.length = 0;
    expect_request_as(&how, "Host: x\r\n", "Host: h.test\r\nContent-Length: 0\r\n");
    how.framing = OUT_CHUNKED;
    expect_request_as(&how, "Host: x\r\nContent-Length: 7\r\nA: 1\r\n",
                      "Host: h.test\r\nA: 1\r\nTransfer-Encoding: chunked\r\n");
    expect_request_as(&how, "Host: x\r\ntransfer-encoding: CHUNKED\r\nA: 1\r\n",
                      "Host: h.test\r\ntransfer-encoding: chunked\r\nA: 1\r\n");
    how.framing = OUT_NONE;
    expect_request_as(&how, "Host: x\r\nContent-Length: 7\r\n", "Host: h.test\r\n");
}

static void framing_of_a_request(void **state)
{
    (void)state;
    static const struct {
        const char *method, *fields;
        enum out_framing framing;
        uint64_t length;
    } rows[] = {
        {"GET", "", OUT_NONE, 0},
        {"HEAD", "", OUT_NONE, 0},
        {"DELETE", "", OUT_NONE, 0},
        {"OPTIONS", "", OUT_NONE, 0},
        {"TRACE", "", OUT_NONE, 0},
        {"POST", "", OUT_LENGTH, 0},
        {"PUT", "", OUT_LENGTH, 0},
        {"PATCH", "", OUT_LENGTH, 0},
        {"get", "", OUT_LENGTH, 0},
        {"GET", "Content-Length: 0\r\n", OUT_LENGTH, 0},
        {"GET", "Content-Length: 5\r\n", OUT_LENGTH, 5},
        {"POST", "Content-Length: 5\r\n", OUT_LENGTH, 5},
        {"GET", "Transfer-Encoding: chunked\r\n", OUT_CHUNKED, 0},
        {"POST", "Transfer-Encoding: chunked\r\n", OUT_CHUNKED, 0},
        {"POST", "Content-Length: 5\r\nConnection: content-length\r\n", OUT_CHUNKED, 0},
        {"GET", "Content-Length: 5\r\nConnection: close, Content-Length\r\n", OUT_CHUNKED, 0},
        {"GET", "Connection: content-length\r\n", OUT_NONE, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        struct head h;
        uint64_t length = 99;
        snprintf(text, sizeof text, "%s http://a/ HTTP/1.1\r\nHost: a\r\n%s\r\n", rows[i].method,
                 rows[i].fields);
        head_init(&h);
        parse_request(&h, text);
        assert_int_equal(request_framing(&h, bytes(text), &length), rows[i].framing);
        assert_int_equal(length, rows[i].length);
        head_free(&h);
    }
}

static void what_the_next_hop_is_told(void **state)
{
    (void)state;
    struct request_out how = plain;
    how.close = true;
    expect_request_as(&how, "Host: x\r\nConnection: keep-alive\r\n",
                      "Host: h.test\r\nConnection: close\r\n");
    how.proxy_authorization = "Basic eDp5";
    expect_request_as(&how, "Host: x\r\nProxy-Authorization: Basic bXk=\r\n",
                      "Host: h.test\r\nProxy-Authorization: Basic eDp5\r\nConnection: close\r\n");
    how = plain;
    how.te_trailers = true;
    expect_request_as(&how, "Host: x\r\n", "Host: h.test\r\nTE: trailers\r\nConnection: TE\r\n");
    how.close = true;
    expect_request_as(&how, "Host: x\r\n",
                      "Host: h.test\r\nTE: trailers\r\nConnection: close, TE\r\n");
}

static void upgrades(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        bool may;
    } rows[] = {
        {"Connection: upgrade\r\nUpgrade: websocket\r\n", true},
        {"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket, foo/1.0\r\n", true},
        {"Connection: upgrade\r\n", false},
        {"Upgrade: websocket\r\n", false},
        {"Connection: upgrade\r\nUpgrade:\r\n", false},
        {"Connection: upgrade\r\nUpgrade: ,\r\n", false},
        {"Connection: upgrade\r\nUpgrade: h2c\r\n", false},
        {"Connection: upgrade\r\nUpgrade: H2C\r\n", false},
        {"Connection: upgrade\r\nUpgrade: h2c/1\r\n", false},
        {"Connection: upgrade\r\nUpgrade: websocket, h2c\r\n", false},
        {"Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", false},
        {"Connection: upgrade\r\nUpgrade: h2c;x\r\n", false},
        {"Connection: upgrade\r\nUpgrade: \"h2c\"\r\n", false},
        {"Connection: upgrade\r\nUpgrade: web socket\r\n", false},
        {"Connection: upgrade\r\nUpgrade: a/\r\n", false},
    };
    struct request_out how = plain;
    how.upgrade = true;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        struct head h;
        snprintf(text, sizeof text, GET "Host: a\r\n%s\r\n", rows[i].fields);
        head_init(&h);
        parse_request(&h, text);
        assert_int_equal(headers_may_upgrade(&h, bytes(text)), rows[i].may);
        head_free(&h);
        if (!rows[i].may)
            expect_request_as(&how, rows[i].fields, "Host: h.test\r\n");
    }
    expect_request_as(&how,
                      "Host: x\r\nUPGRADE: websocket\r\nConnection: Upgrade, X-A\r\nX-A: 1\r\n"
                      "Sec-WebSocket-Key: k\r\n",
                      "Host: h.test\r\nUPGRADE: websocket\r\nSec-WebSocket-Key: k\r\n"
                      "Connection: upgrade\r\n");
}

static void expect_response(const struct response_out *how, const char *in, const char *want)
{
    struct head h;
    struct buf out;
    head_init(&h);
    buf_init(&out, ROOM);
    parse_response(&h, in);
    assert_true(headers_write_response(&out, &h, bytes(in), how));
    assert_string_equal(buf_cstr(&out), want);
    size_t n = buf_len(&out);
    buf_free(&out);
    buf_init(&out, n - 1);
    assert_false(headers_write_response(&out, &h, bytes(in), how));
    buf_free(&out);
    head_free(&h);
}

static const char date[] = "Sun, 06 Nov 1994 08:49:37 GMT";
#define DATED "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define KEPT "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n"

static void responses_are_rewritten(void **state)
{
    (void)state;
    struct response_out how = {.framing = OUT_LENGTH,
                               .length = 5,
                               .keep_alive = true,
                               .keep_alive_seconds = 5,
                               .date = date};
    expect_response(&how,
                    "HTTP/1.0 299 Odd \xe9\r\nserver: x\r\nServer: y\r\nContent-length: 5\r\n"
                    "Set-Cookie: a\r\nset-cookie: b\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n"
                    "Proxy-Authenticate: Basic\r\nKeep-Alive: timeout=9\r\nUpgrade: h2\r\n"
                    "Trailer: a\r\nX: y\r\n\r\n",
                    "HTTP/1.1 299 Odd \xe9\r\nserver: x\r\nContent-length: 5\r\nSet-Cookie: a\r\n"
                    "set-cookie: b\r\nX: y\r\n" DATED KEPT "\r\n");
    expect_response(&how, "HTTP/1.1 200\r\nDate: then\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "HTTP/1.1 200 \r\nDate: then\r\nContent-Length: 5\r\n" KEPT "\r\n");
    /* A Date that Connection lists is the upstream's to its own hop. */
    expect_response(&how, "HTTP/1.1 200 OK\r\nDate: then\r\nConnection: date\r\n\r\n",
                    "HTTP/1.1 200 OK\r\n" DATED "Content-Length: 5\r\n" KEPT "\r\n");
}

static void framing_of_a_response(void **state)
{
    (void)state;
    static const char in[] = "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 9\r\n\r\n";
    struct response_out how = {.framing = OUT_CHUNKED, .keep_alive = true, .keep_alive_seconds = 5};
    expect_response(&how, in,
                    "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n" KEPT "\r\n");
    how.framing = OUT_KEEP;
    expect_response(&how, in, "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 9\r\n" KEPT "\r\n");
    expect_response(&how, "HTTP/1.1 304 x\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "HTTP/1.1 304 x\r\nDate: d\r\n" KEPT "\r\n");
    how.framing = OUT_NONE;
    expect_response(&how, in, "HTTP/1.1 200 OK\r\nDate: d\r\n" KEPT "\r\n");
    how.framing = OUT_CLOSE;
    how.keep_alive = false;
    expect_response(&how, in, "HTTP/1.1 200 OK\r\nDate: d\r\nConnection: close\r\n\r\n");
}

static void http_1_0_clients(void **state)
{
    (void)state;
    static const char in[] = "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 9\r\n\r\n";
    struct response_out how = {.framing = OUT_LENGTH,
                               .length = 9,
                               .keep_alive = true,
                               .keep_alive_seconds = 5,
                               .client_http10 = true};
    expect_response(&how, in,
                    "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 9\r\nConnection: close\r\n\r\n");
    struct head h;
    struct buf out;
    head_init(&h);
    buf_init(&out, ROOM);
    parse_response(&h, in);
    how.framing = OUT_CHUNKED;
    assert_false(headers_write_response(&out, &h, bytes(in), &how));
    assert_int_equal(buf_len(&out), 0);
    buf_free(&out);
    head_free(&h);
}

static void stripped_names_are_compared_folded(void **state)
{
    (void)state;
    static const char *const strip[] = {"x-secret", "etag", NULL};
    struct response_out how = {.framing = OUT_NONE, .strip = strip};
    static const char in[] = "HTTP/1.1 200 OK\r\nDate: d\r\nX-Secret: 1\r\nX_SECRET: 2\r\n"
                             "x.Secret: 3\r\nX-Secrets: 4\r\nX-Secre: 5\r\nETag: 6\r\n\r\n";
    expect_response(&how, in,
                    "HTTP/1.1 200 OK\r\nDate: d\r\nX-Secrets: 4\r\nX-Secre: 5\r\n"
                    "Connection: close\r\n\r\n");
}

static void a_101_keeps_its_upgrade(void **state)
{
    (void)state;
    struct response_out how = {.framing = OUT_NONE, .upgrade = true, .date = date};
    expect_response(&how,
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Accept: x\r\n" DATED "Connection: upgrade\r\n\r\n");
}

static void interim_responses(void **state)
{
    (void)state;
    static const char *const strip[] = {"x-secret", NULL};
    static const char in[] = "HTTP/1.1 103 Early Hints\r\nLink: a\r\nLink: b\r\nX_Secret: 1\r\n"
                             "Connection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 3\r\n\r\n";
    struct head h;
    struct buf out;
    head_init(&h);
    buf_init(&out, ROOM);
    parse_response(&h, in);
    assert_true(headers_write_interim(&out, &h, bytes(in), strip));
    assert_string_equal(buf_cstr(&out), "HTTP/1.1 103 Early Hints\r\nLink: a\r\nLink: b\r\n\r\n");
    buf_free(&out);
    head_free(&h);
}

static void trailers_are_filtered(void **state)
{
    (void)state;
    static const char *const strip[] = {"x-secret", NULL};
    static const char in[] =
        "X-One: 1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n"
        "Connection: x\r\nTE: x\r\nTrailer: x\r\nProxy-Authorization: x\r\n"
        "Proxy_Authorization: x\r\nAuthorization: x\r\nCookie: x\r\nSet-Cookie: x\r\nDate: x\r\n"
        "Expect: x\r\nContent-Type: x\r\nContent-Encoding: x\r\nX.Secret: 1\r\n"
        "grpc-status:0\r\nETag: a\r\nETag: b\r\n\r\n";
    struct head h;
    struct buf out;
    head_init(&h);
    buf_init(&out, ROOM);
    assert_true(trailers_parse(&h, bytes(in), sizeof in - 1));
    assert_true(headers_write_trailers(&out, &h, bytes(in), strip));
    assert_string_equal(buf_cstr(&out), "X-One: 1\r\ngrpc-status: 0\r\nETag: a\r\n\r\n");
    buf_clear(&out);
    assert_true(trailers_parse(&h, NULL, 0));
    assert_true(headers_write_trailers(&out, &h, NULL, NULL));
    assert_string_equal(buf_cstr(&out), "\r\n");
    buf_free(&out);
    head_free(&h);
}

/* Thousands of names against thousands of fields, which must not take the square of that. */
static void many_connection_names(void **state)
{
    (void)state;
    char text[LIMIT];
    size_t n = (size_t)snprintf(text, sizeof text, GET "Host: x\r\nConnection: ");
    for (unsigned i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "x%x,", i * 7919 % 5000);
    n += (size_t)snprintf(text + n, sizeof text - n, "\r\n");
    for (unsigned i = 0; i < 5000; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "X%X:\r\n", i);
    n += (size_t)snprintf(text + n, sizeof text - n, "y: z\r\n\r\n");
    assert_true(n < sizeof text);
    struct head h;
    struct buf out;
    head_init(&h);
    buf_init(&out, ROOM);
    parse_request(&h, text);
    assert_true(headers_write_request(&out, &h, bytes(text), &plain));
    assert_string_equal(buf_cstr(&out), GET_OUT "Host: h.test\r\ny: z\r\n\r\n");
    buf_free(&out);
    head_free(&h);
}

static void names_are_folded(void **state)
{
    (void)state;
    char out[9] = "";
    fold_name(out, "A_b.C-9z", 8);
    assert_string_equal(out, "a-b-c-9z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_is_set),
        cmocka_unit_test(hop_by_hop_fields_are_removed),
        cmocka_unit_test(other_fields_stay_as_they_are),
        cmocka_unit_test(folded_hop_by_hop),
        cmocka_unit_test(edits_remove_every_spelling),
        cmocka_unit_test(edits_set_after_the_client_s_fields),
        cmocka_unit_test(edits_touch_no_framing),
        cmocka_unit_test(once_only_fields_are_cut),
        cmocka_unit_test(cookies_are_joined),
        cmocka_unit_test(framing_is_ours),
        cmocka_unit_test(framing_of_a_request),
        cmocka_unit_test(what_the_next_hop_is_told),
        cmocka_unit_test(upgrades),
        cmocka_unit_test(responses_are_rewritten),
        cmocka_unit_test(framing_of_a_response),
        cmocka_unit_test(http_1_0_clients),
        cmocka_unit_test(stripped_names_are_compared_folded),
        cmocka_unit_test(a_101_keeps_its_upgrade),
        cmocka_unit_test(interim_responses),
        cmocka_unit_test(trailers_are_filtered),
        cmocka_unit_test(many_connection_names),
        cmocka_unit_test(names_are_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
