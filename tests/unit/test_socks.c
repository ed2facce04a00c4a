/* The SOCKS handshake: chapter 20 sections 2.2 and 5. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proxy/socks/handshake.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

/* Feeds bytes in pieces of `piece`, gathers all replies; the last step. */
static enum socks_step feed(struct socks_handshake *s, const uint8_t *p, size_t n, size_t piece,
                            struct buf *replies, size_t *consumed)
{
    enum socks_step step = SOCKS_MORE;
    size_t at = 0;

    while (at < n && step == SOCKS_MORE) {
        size_t end = at + piece < n ? at + piece : n;
        while (at < end && step == SOCKS_MORE) {
            size_t used = 0;
            step = socks_feed(s, p + at, end - at, &used);
            assert_true(used > 0 && used <= end - at);
            assert_true(s->reply_len <= sizeof s->reply);
            buf_append(replies, s->reply, s->reply_len);
            at += used;
        }
    }
    *consumed = at;
    return step;
}

struct handshake_case {
    const char *name;
    const char *token;
    const uint8_t *in;
    size_t in_len;
    const uint8_t *out;
    size_t out_len;
    enum socks_step step;
    enum err error;
};

#define ZEROS "\0\0\0\0\0\0"
#define NAME_REQUEST(command) "\5" command "\0\3\7ok.test\0\120"
#define AUTH(user_len, user) "\1" user_len user "\40" TOKEN

static const struct handshake_case cases[] = {
    {"socks4", TOKEN, BYTES("\4\1\0\120\1\2\3\4\0"), BYTES("\0\x5b" ZEROS), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"socks4 without token", NULL, BYTES("\4\1\0\120\1\2\3\4\0"), BYTES("\0\x5b" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"another version", NULL, BYTES("\6\1\0"), BYTES(""), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"no methods", NULL, BYTES("\5\0"), BYTES(""), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"no methods, token", TOKEN, BYTES("\5\0"), BYTES(""), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"only gssapi", NULL, BYTES("\5\1\1"), BYTES("\5\xff"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"only gssapi, token", TOKEN, BYTES("\5\2\1\3"), BYTES("\5\xff"), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"only password, no token", NULL, BYTES("\5\1\2"), BYTES("\5\xff"), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"both, no token", NULL, BYTES("\5\2\2\0"), BYTES("\5\0"), SOCKS_MORE, ERR_NONE},
    {"both, token", TOKEN, BYTES("\5\2\0\2"), BYTES("\5\2"), SOCKS_MORE, ERR_NONE},
    {"password, token", TOKEN, BYTES("\5\3\1\2\200"), BYTES("\5\2"), SOCKS_MORE, ERR_NONE},
    {"none only, token", TOKEN, BYTES("\5\1\0"), BYTES("\5\0"), SOCKS_MORE, ERR_NONE},

    {"good password", TOKEN, BYTES("\5\1\2" AUTH("\3", "srt")), BYTES("\5\2\1\0"), SOCKS_MORE,
     ERR_NONE},
    {"user with key", TOKEN, BYTES("\5\1\2" AUTH("\10", "srt.bHM=")), BYTES("\5\2\1\0"), SOCKS_MORE,
     ERR_NONE},
    {"user with empty key", TOKEN, BYTES("\5\1\2" AUTH("\4", "srt.")), BYTES("\5\2\1\0"),
     SOCKS_MORE, ERR_NONE},
    {"version of the sub-negotiation", TOKEN,
     BYTES("\5\1\2"
           "\5\3srt\40" TOKEN),
     BYTES("\5\2\1\0"), SOCKS_MORE, ERR_NONE},
    {"user in capitals", TOKEN, BYTES("\5\1\2" AUTH("\3", "SRT")), BYTES("\5\2\1\1"), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"user that only starts so", TOKEN, BYTES("\5\1\2" AUTH("\4", "srtx")), BYTES("\5\2\1\1"),
     SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"another user", TOKEN, BYTES("\5\1\2" AUTH("\5", "admin")), BYTES("\5\2\1\1"), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"empty user", TOKEN, BYTES("\5\1\2" AUTH("\0", "")), BYTES("\5\2\1\1"), SOCKS_REFUSED,
     ERR_SOCKS_PROTOCOL},
    {"empty password", TOKEN,
     BYTES("\5\1\2"
           "\1\3srt\0"),
     BYTES("\5\2\1\1"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"start of the token", TOKEN,
     BYTES("\5\1\2"
           "\1\3srt\5"
           "01234"),
     BYTES("\5\2\1\1"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"token and more", TOKEN,
     BYTES("\5\1\2"
           "\1\3srt\41" TOKEN "0"),
     BYTES("\5\2\1\1"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},

    {"connect", NULL, BYTES("\5\1\0" NAME_REQUEST("\1")), BYTES("\5\0"), SOCKS_REQUEST, ERR_NONE},
    {"connect with token", TOKEN, BYTES("\5\1\2" AUTH("\3", "srt") NAME_REQUEST("\1")),
     BYTES("\5\2\1\0"), SOCKS_REQUEST, ERR_NONE},
    {"version of the request", NULL, BYTES("\5\1\0\4\1\0\3\7ok.test\0\120"), BYTES("\5\0"),
     SOCKS_REQUEST, ERR_NONE},
    {"reserved byte", NULL, BYTES("\5\1\0\5\1\377\3\7ok.test\0\120"), BYTES("\5\0"), SOCKS_REQUEST,
     ERR_NONE},
    {"bind", NULL, BYTES("\5\1\0" NAME_REQUEST("\2")), BYTES("\5\0\5\7\0\1" ZEROS), SOCKS_REFUSED,
     ERR_SOCKS_COMMAND},
    {"udp associate", TOKEN, BYTES("\5\1\2" AUTH("\3", "srt") "\5\3\0\1\0\0\0\0\0\0"),
     BYTES("\5\2\1\0\5\7\0\1" ZEROS), SOCKS_REFUSED, ERR_SOCKS_COMMAND},
    {"command 0", NULL, BYTES("\5\1\0" NAME_REQUEST("\0")), BYTES("\5\0\5\7\0\1" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_COMMAND},
    {"tor resolve", NULL, BYTES("\5\1\0" NAME_REQUEST("\360")), BYTES("\5\0\5\7\0\1" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_COMMAND},
    {"address type 9", NULL, BYTES("\5\1\0\5\1\0\11\1\2\3\4\0\120"), BYTES("\5\0\5\10\0\1" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_ADDRESS_TYPE},
    {"address type 0", NULL, BYTES("\5\1\0\5\1\0\0"), BYTES("\5\0\5\10\0\1" ZEROS), SOCKS_REFUSED,
     ERR_SOCKS_ADDRESS_TYPE},
    {"command and address type", NULL, BYTES("\5\1\0\5\2\0\11"), BYTES("\5\0\5\7\0\1" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_COMMAND},

    {"unauthenticated connect", TOKEN, BYTES("\5\1\0" NAME_REQUEST("\1")), BYTES("\5\0"),
     SOCKS_REQUEST, ERR_NONE},
    {"unauthenticated bind", TOKEN, BYTES("\5\1\0" NAME_REQUEST("\2")), BYTES("\5\0"),
     SOCKS_REFUSED, ERR_SOCKS_COMMAND},
    {"unauthenticated address type", TOKEN, BYTES("\5\1\0\5\1\0\11"), BYTES("\5\0"), SOCKS_REFUSED,
     ERR_SOCKS_ADDRESS_TYPE},
};

/* The same with a token that clients may leave out. */
static const struct handshake_case optional_cases[] = {
    {"both", TOKEN, BYTES("\5\2\0\2"), BYTES("\5\2"), SOCKS_MORE, ERR_NONE},
    {"none only", TOKEN, BYTES("\5\1\0" NAME_REQUEST("\1")), BYTES("\5\0"), SOCKS_REQUEST,
     ERR_NONE},
    {"neither", TOKEN, BYTES("\5\1\1"), BYTES("\5\xff"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"no token at all", NULL, BYTES("\5\1\2"), BYTES("\5\xff"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"refusals are told", TOKEN, BYTES("\5\1\0" NAME_REQUEST("\2")), BYTES("\5\0\5\7\0\1" ZEROS),
     SOCKS_REFUSED, ERR_SOCKS_COMMAND},
    {"good password", TOKEN, BYTES("\5\1\2" AUTH("\3", "srt") NAME_REQUEST("\1")),
     BYTES("\5\2\1\0"), SOCKS_REQUEST, ERR_NONE},
    {"empty password", TOKEN,
     BYTES("\5\2\0\2"
           "\1\3srt\0" NAME_REQUEST("\1")),
     BYTES("\5\2\1\0"), SOCKS_REQUEST, ERR_NONE},
    {"empty password of another user", TOKEN,
     BYTES("\5\2\0\2"
           "\1\4root\0" NAME_REQUEST("\1")),
     BYTES("\5\2\1\0"), SOCKS_REQUEST, ERR_NONE},
    {"nothing but lengths", TOKEN,
     BYTES("\5\1\2"
           "\1\0\0" NAME_REQUEST("\1")),
     BYTES("\5\2\1\0"), SOCKS_REQUEST, ERR_NONE},
    {"wrong password", TOKEN,
     BYTES("\5\2\0\2"
           "\1\3srt\1x"),
     BYTES("\5\2\1\1"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"start of the token", TOKEN,
     BYTES("\5\1\2"
           "\1\3srt\5"
           "01234"),
     BYTES("\5\2\1\1"), SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
    {"token of another user", TOKEN, BYTES("\5\1\2" AUTH("\5", "admin")), BYTES("\5\2\1\1"),
     SOCKS_REFUSED, ERR_SOCKS_PROTOCOL},
};

static void check_case(const struct handshake_case *c, bool optional, size_t piece)
{
    struct socks_handshake s;
    struct buf replies;
    size_t consumed = 0;

    buf_init(&replies, 256);
    socks_init(&s, c->token, optional);
    enum socks_step step = feed(&s, c->in, c->in_len, piece, &replies, &consumed);
    if (step != c->step || s.error != c->error || buf_len(&replies) != c->out_len ||
        (c->out_len != 0 && memcmp(buf_data(&replies), c->out, c->out_len) != 0))
        fail_msg("%s, in pieces of %zu: step %d, error %d, %zu bytes of reply", c->name, piece,
                 (int)step, (int)s.error, buf_len(&replies));
    if (step != SOCKS_REFUSED)
        assert_int_equal(consumed, c->in_len);
    buf_free(&replies);
}

static void test_conversations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece <= cases[i].in_len; piece++)
            check_case(&cases[i], false, piece);
    for (size_t i = 0; i < sizeof optional_cases / sizeof optional_cases[0]; i++)
        for (size_t piece = 1; piece <= optional_cases[i].in_len; piece++)
            check_case(&optional_cases[i], true, piece);
}

/* Such a client is served, and has no shorter time than others. */
static void test_optional_token(void **state)
{
    struct socks_handshake s;
    size_t used = 0;

    (void)state;
    socks_init(&s, TOKEN, true);
    assert_int_equal(socks_feed(&s, BYTES("\5\1\0"), &used), SOCKS_MORE);
    assert_true(s.authenticated && !s.anonymous && s.method_selected);
    socks_init(&s, TOKEN, true);
    assert_int_equal(socks_feed(&s, BYTES("\5\2\0\2"), &used), SOCKS_MORE);
    assert_false(s.authenticated || s.anonymous);
    assert_int_equal(socks_feed(&s, BYTES("\1\4root\0"), &used), SOCKS_MORE);
    assert_true(s.authenticated && !s.anonymous);
    socks_init(&s, TOKEN, false);
    assert_int_equal(socks_feed(&s, BYTES("\5\1\0"), &used), SOCKS_MORE);
    assert_true(s.anonymous && !s.authenticated);
}

/* A user name is one only when it is whole. */
static void test_user_in_pieces(void **state)
{
    struct socks_handshake s;
    size_t used = 0;

    (void)state;
    socks_init(&s, TOKEN, false);
    assert_int_equal(socks_feed(&s, BYTES("\5\1\2"), &used), SOCKS_MORE);
    assert_int_equal(socks_feed(&s, BYTES("\1\10srt.bH"), &used), SOCKS_MORE);
    assert_false(s.user_known);
    assert_int_equal(socks_feed(&s, BYTES("M="), &used), SOCKS_MORE);
    assert_true(s.user_known);
    assert_int_equal(s.user_len, 8);
}

static void test_255_methods(void **state)
{
    uint8_t greeting[257] = {5, 255};
    struct socks_handshake s;
    size_t used = 0;

    (void)state;
    for (size_t i = 2; i < sizeof greeting; i++)
        greeting[i] = 0x80;
    greeting[256] = 2;
    socks_init(&s, TOKEN, false);
    assert_int_equal(socks_feed(&s, greeting, sizeof greeting, &used), SOCKS_MORE);
    assert_int_equal(used, sizeof greeting);
    assert_int_equal(s.reply_len, 2);
    assert_memory_equal(s.reply, "\5\2", 2);
    assert_true(s.method_selected);
    assert_false(s.authenticated);
}

static void request(struct socks_handshake *s, const char *token, const uint8_t *p, size_t n)
{
    struct buf replies;
    size_t consumed = 0;

    buf_init(&replies, 256);
    socks_init(s, token, false);
    assert_int_equal(feed(s, p, n, n, &replies, &consumed), SOCKS_REQUEST);
    buf_free(&replies);
}

static void assert_host(const struct socks_handshake *s, const char *host, uint16_t port)
{
    assert_int_equal(s->host_len, strlen(host));
    assert_memory_equal(s->host, host, strlen(host));
    assert_int_equal(s->port, port);
}

static void test_hosts(void **state)
{
    struct socks_handshake s;

    (void)state;
    request(&s, NULL, BYTES("\5\1\0" NAME_REQUEST("\1")));
    assert_int_equal(s.atyp, 3);
    assert_host(&s, "ok.test", 80);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\1\12\0\0\1\1\273"));
    assert_int_equal(s.atyp, 1);
    assert_host(&s, "10.0.0.1", 443);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\4 \1\r\270\0\0\0\0\0\0\0\0\0\0\0\1\377\377"));
    assert_int_equal(s.atyp, 4);
    assert_host(&s, "2001:db8::1", 65535);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\4\0\0\0\0\0\0\0\0\0\0\377\377\177\0\0\1\0\26"));
    assert_host(&s, "127.0.0.1", 22);
}

/* What the policy has to refuse is delivered as it came. */
static void test_strange_hosts(void **state)
{
    struct socks_handshake s;

    (void)state;
    request(&s, NULL, BYTES("\5\1\0\5\1\0\3\3b\303\274\0\120"));
    assert_host(&s, "b\303\274", 80);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\3\4a\0\nb\0\120"));
    assert_int_equal(s.host_len, 4);
    assert_memory_equal(s.host, "a\0\nb", 4);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\3\0\0\120"));
    assert_host(&s, "", 80);
    request(&s, NULL, BYTES("\5\1\0\5\1\0\3\7ok.test\0\0"));
    assert_host(&s, "ok.test", 0);
}

static void test_longest_name(void **state)
{
    uint8_t in[3 + 5 + 255 + 2] = {5, 1, 0, 5, 1, 0, 3, 255};
    struct socks_handshake s;

    (void)state;
    memset(in + 8, 'a', 255);
    in[sizeof in - 1] = 80;
    request(&s, NULL, in, sizeof in);
    assert_int_equal(s.host_len, 255);
    assert_int_equal(s.host[254], 'a');
    assert_int_equal(s.port, 80);
}

static void test_user_is_kept_and_password_is_not(void **state)
{
    struct socks_handshake s;

    (void)state;
    request(&s, TOKEN, BYTES("\5\1\2" AUTH("\10", "srt.bHM=") NAME_REQUEST("\1")));
    assert_true(s.authenticated);
    assert_int_equal(s.user_len, 8);
    assert_memory_equal(s.user, "srt.bHM=", 8);
    assert_host(&s, "ok.test", 80);
    for (size_t i = s.host_len; i < sizeof s.host; i++)
        assert_int_equal(s.host[i], 0);
}

static void test_authenticated(void **state)
{
    struct socks_handshake s;

    (void)state;
    request(&s, NULL, BYTES("\5\1\0" NAME_REQUEST("\1")));
    assert_true(s.authenticated);
    request(&s, TOKEN, BYTES("\5\2\0\1" NAME_REQUEST("\1")));
    assert_false(s.authenticated);
    assert_true(s.method_selected);
}

static void test_early_data_is_left(void **state)
{
    static const uint8_t in[] = "\5\1\0" NAME_REQUEST("\1") "GET / HTTP/1.1";
    struct socks_handshake s;
    size_t used = 0;
    size_t more = 0;

    (void)state;
    socks_init(&s, NULL, false);
    assert_int_equal(socks_feed(&s, in, sizeof in - 1, &used), SOCKS_MORE);
    assert_int_equal(used, 3);
    assert_int_equal(socks_feed(&s, in + used, sizeof in - 1 - used, &more), SOCKS_REQUEST);
    assert_memory_equal(in + used + more, "GET /", 5);
    assert_int_equal(s.reply_len, 0);
}

static void test_nothing_is_no_step(void **state)
{
    struct socks_handshake s;
    size_t used = 1;

    (void)state;
    socks_init(&s, TOKEN, false);
    assert_int_equal(socks_feed(&s, NULL, 0, &used), SOCKS_MORE);
    assert_int_equal(used, 0);
    assert_int_equal(s.reply_len, 0);
}

static void test_reply(void **state)
{
    uint8_t out[10];

    (void)state;
    memset(out, 0xff, sizeof out);
    socks_reply(4, out);
    assert_memory_equal(out, "\5\4\0\1\0\0\0\0\0\0", 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversations),
        cmocka_unit_test(test_optional_token),
        cmocka_unit_test(test_user_in_pieces),
        cmocka_unit_test(test_255_methods),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_strange_hosts),
        cmocka_unit_test(test_longest_name),
        cmocka_unit_test(test_user_is_kept_and_password_is_not),
        cmocka_unit_test(test_authenticated),
        cmocka_unit_test(test_early_data_is_left),
        cmocka_unit_test(test_nothing_is_no_step),
        cmocka_unit_test(test_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
