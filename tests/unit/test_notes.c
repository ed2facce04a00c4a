/* Lines about what a file holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/settings/notes.h"

static void a_line_cannot_be_reordered_or_forged(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"plain \\ text", "plain \\ text\n"},
        {"a\nsrt: b\t\x1b[2J\x7f", "a\\x0asrt: b\\x09\\x1b[2J\\x7f\n"},
        {"\xc2\x9b", "\\xc2\\x9b\n"},
        {"\x9b\xff", "\\x9b\\xff\n"},
        {"\xe2\x80", "\\xe2\\x80\n"},
        {"\xe2\x80\x8a|\xe2\x80\x8b\xe2\x80\x8f|\xe2\x80\x90",
         "\xe2\x80\x8a|\\xe2\\x80\\x8b\\xe2\\x80\\x8f|\xe2\x80\x90\n"},
        {"\xe2\x80\xaa\xe2\x80\xae|\xe2\x80\xaf", "\\xe2\\x80\\xaa\\xe2\\x80\\xae|\xe2\x80\xaf\n"},
        {"\xe2\x81\x9f|\xe2\x81\xa0\xe2\x81\xa5\xe2\x81\xa9",
         "\xe2\x81\x9f|\\xe2\\x81\\xa0\\xe2\\x81\\xa5\\xe2\\x81\\xa9\n"},
        {"\xef\xbb\xbf", "\\xef\\xbb\\xbf\n"},
        {"\xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xd7\x90",
         "\xc3\xbc \xe6\xbc\xa2 \xf0\x9f\x98\x80 \xd7\x90\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf out;
        buf_init(&out, 1024);
        settings_line(&out, rows[i].in, strlen(rows[i].in));
        assert_string_equal(buf_cstr(&out), rows[i].out);
        buf_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_cannot_be_reordered_or_forged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
