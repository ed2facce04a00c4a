/* Names and their ids, tokens, comma-separated lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/text.h"
#include "proxy/http/field.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static uint8_t identify(const char *name, uint8_t *once)
{
    return field_identify((const uint8_t *)name, strlen(name), once);
}

static void known_names_have_their_ids(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t id;
    } rows[] = {
        {"Connection", FIELD_CONNECTION},
        {"KEEP-ALIVE", FIELD_KEEP_ALIVE},
        {"proxy-authenticate", FIELD_PROXY_AUTHENTICATE},
        {"Proxy-Authorization", FIELD_PROXY_AUTHORIZATION},
        {"Proxy-Connection", FIELD_PROXY_CONNECTION},
        {"tE", FIELD_TE},
        {"Trailer", FIELD_TRAILER},
        {"Transfer-Encoding", FIELD_TRANSFER_ENCODING},
        {"Upgrade", FIELD_UPGRADE},
        {"Host", FIELD_HOST},
        {"Content-Length", FIELD_CONTENT_LENGTH},
        {"Expect", FIELD_EXPECT},
        {"Date", FIELD_DATE},
        {"Cookie", FIELD_COOKIE},
        {"Set-Cookie", FIELD_SET_COOKIE},
        {"", FIELD_OTHER},
        {"x", FIELD_OTHER},
        {"Hos", FIELD_OTHER},
        {"Hosts", FIELD_OTHER},
        {"Hose", FIELD_OTHER},
        {"Content_Length", FIELD_OTHER},
        {"Transfer.Encoding", FIELD_OTHER},
        {"Proxy-Authorizations", FIELD_OTHER},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t once;
        assert_int_equal(identify(rows[i].name, &once), rows[i].id);
        assert_int_equal(once, 0);
    }
}

static void once_only_names_have_their_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Age",     "Authorization",       "Content-Type",  "ETag",     "Expires",
        "From",    "If-Modified-Since",   "Last-Modified", "Location", "Max-Forwards",
        "Referer", "If-Unmodified-Since", "Retry-After",   "Server",   "User-Agent",
    };
    uint32_t seen = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        uint8_t once;
        assert_int_equal(identify(names[i], &once), FIELD_ONCE);
        assert_in_range(once, 0, 14);
        assert_int_equal(seen & (UINT32_C(1) << once), 0);
        seen |= UINT32_C(1) << once;
    }
}

/* No byte but the two cases of a letter may stand for it. */
static void one_byte_off_is_another_name(void **state)
{
    (void)state;
    static const char name[] = "content-length";
    for (size_t i = 0; i < sizeof name - 1; i++) {
        for (unsigned c = 0; c < 256; c++) {
            uint8_t other[sizeof name], once;
            memcpy(other, name, sizeof name);
            other[i] = (uint8_t)c;
            if (!http_is_token((const char *)other, sizeof name - 1))
                continue;
            bool same = text_lower((uint8_t)c) == (uint8_t)name[i];
            assert_int_equal(field_identify(other, sizeof name - 1, &once),
                             same ? FIELD_CONTENT_LENGTH : FIELD_OTHER);
        }
    }
}

static void tokens(void **state)
{
    (void)state;
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (unsigned c = 0; c < 256; c++) {
        char s = (char)c;
        unsigned char lower = text_lower((unsigned char)c);
        bool want = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
                    (c != 0 && strchr(marks, (int)c) != NULL);
        assert_int_equal(http_is_token(&s, 1), want);
    }
    assert_false(http_is_token("", 0));
    assert_true(http_is_token("x-Y", 3));
    assert_false(http_is_token("x y", 3));
}

static void byte_classes(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        uint8_t b = (uint8_t)c;
        assert_int_equal(byte_is(b, BYTE_TARGET), c > 0x20 && c < 0x7F);
        assert_int_equal(byte_is(b, BYTE_VISIBLE), c > 0x20 && c != 0x7F);
        assert_int_equal(byte_is(b, BYTE_TEXT), c == '\t' || (c >= 0x20 && c != 0x7F));
        assert_int_equal(byte_is(b, BYTE_NO_AUTHORITY),
                         c != 0 && strchr("\"<>\\^`{|}", (int)c) != NULL);
    }
}

static void lists(void **state)
{
    (void)state;
    static const struct {
        const char *text, *items; /* each item and a '|' */
    } rows[] = {
        {"", ""},     {"a", "a|"},    {" a ", "a|"},     {"a,b", "a|b|"},
        {",", ""},    {", ,\t,", ""}, {"a,,b,", "a|b|"}, {"\ta \t, b c ", "a|b c|"},
        {",a", "a|"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const uint8_t *at = (const uint8_t *)rows[i].text, *end = at + strlen(rows[i].text), *item;
        size_t len;
        struct buf got;
        buf_init(&got, 100);
        while (list_next(&at, end, &item, &len)) {
            assert_true(buf_append(&got, item, len));
            assert_true(buf_puts(&got, "|"));
        }
        assert_string_equal(buf_cstr(&got), rows[i].items);
        buf_free(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names_have_their_ids),
        cmocka_unit_test(once_only_names_have_their_numbers),
        cmocka_unit_test(one_byte_off_is_another_name),
        cmocka_unit_test(tokens),
        cmocka_unit_test(byte_classes),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
