/* The SSH disconnect for clients that cannot authenticate: chapter 20 section 5.4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proxy/socks/ssh_refusal.h"

#define BANNER "SSH-2.0-policy_refusal\r\n"

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Checks the form and returns the description, to be freed. */
static char *description(const char *reason)
{
    struct buf out;

    buf_init(&out, 65536);
    ssh_refusal(&out, reason);
    size_t n = buf_len(&out);
    const uint8_t *p = buf_data(&out);
    assert_true(n > strlen(BANNER));
    assert_memory_equal(p, BANNER, strlen(BANNER));
    p += strlen(BANNER);
    n -= strlen(BANNER);

    assert_true(n % 8 == 0 && n >= 16);
    assert_int_equal(u32(p), n - 4);
    size_t padding = p[4];
    assert_in_range(padding, 4, 11);
    assert_int_equal(p[5], 1);
    assert_int_equal(u32(p + 6), 1);
    size_t len = u32(p + 10);
    assert_int_equal(14 + len + 4 + padding, n);
    assert_int_equal(u32(p + 14 + len), 0);
    for (size_t i = n - padding; i < n; i++)
        assert_int_equal(p[i], 0);
    char *text = mem_dup_n((const char *)p + 14, len);
    buf_free(&out);
    return text;
}

static void assert_description(const char *reason, const char *expected)
{
    char *text = description(reason);

    assert_string_equal(text, expected);
    free(text);
}

static void test_standard_text(void **state)
{
    (void)state;
    assert_description(NULL, "This proxy requires authentication, and this client did not offer an "
                             "authentication method, so the connection was refused.");
}

static void test_exact_packet(void **state)
{
    static const char expected[] = BANNER "\0\0\0\x14\6\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    struct buf out;

    (void)state;
    buf_init(&out, 1024);
    ssh_refusal(&out, "");
    assert_int_equal(buf_len(&out), sizeof expected - 1);
    assert_memory_equal(buf_data(&out), expected, sizeof expected - 1);
    buf_free(&out);
}

static void test_control_characters(void **state)
{
    (void)state;
    assert_description("no\r\n\tway\x7f!", "no way !");
    assert_description("\x1b[31mred", " [31mred");
    assert_description("a\xc2\x80\xc2\x9f\x01z", "a z");
    assert_description("a \n b", "a   b");
    assert_description("end\n", "end ");
}

static void test_utf8(void **state)
{
    (void)state;
    assert_description("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
                       "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_description("a\xff", "a\xef\xbf\xbd");
}

static void test_cut(void **state)
{
    struct buf reason;

    (void)state;
    buf_init(&reason, 65536);
    for (int i = 0; i < 1200; i++)
        buf_puts(&reason, "x");
    char *text = description(buf_cstr(&reason));
    assert_int_equal(strlen(text), 1000);
    free(text);

    /* 999 units, then a character of two: it does not fit and is not halved. */
    buf_clear(&reason);
    for (int i = 0; i < 999; i++)
        buf_puts(&reason, "y");
    buf_puts(&reason, "\xf0\x9f\x98\x80zzz");
    text = description(buf_cstr(&reason));
    assert_int_equal(strlen(text), 999);
    free(text);
    buf_free(&reason);
}

static void test_every_length(void **state)
{
    char reason[64] = "";

    (void)state;
    for (size_t n = 0; n < sizeof reason - 1; n++) {
        reason[n] = 'a';
        assert_description(reason, reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_text),
        cmocka_unit_test(test_exact_packet),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
