#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "decider/frame.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define SPAN(s) (const uint8_t *)(s), sizeof(s) - 1

static void finds_the_frame_that_bytes_begin_with(void **state)
{
    static const struct {
        const uint8_t *p;
        size_t n;
        enum frame_result want;
        size_t length;
    } cases[] = {
        {SPAN(""), FRAME_MORE, 0},
        {SPAN("\0\0\0"), FRAME_MORE, 0},
        {SPAN("\0\0\0\0"), FRAME_OK, 0},
        {SPAN("\0\0\0\2{"), FRAME_MORE, 2},
        {SPAN("\0\0\0\2{}"), FRAME_OK, 2},
        {SPAN("\0\0\0\2{}\0\0\0\1"), FRAME_OK, 2},
        {SPAN("\0\x10\0\0"), FRAME_MORE, FRAME_MAX},
        {SPAN("\0\x10\0\1"), FRAME_TOO_LARGE, 0},
        {SPAN("\1\0\0\0"), FRAME_TOO_LARGE, 0},
        {SPAN("\xff\xff\xff\xff"), FRAME_TOO_LARGE, 0},
        {SPAN("\x80\0\0\0{}"), FRAME_TOO_LARGE, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t length = 99;
        assert_int_equal(frame_next(cases[i].p, cases[i].n, FRAME_MAX, &length), cases[i].want);
        assert_int_equal(length, cases[i].length);
    }
}

static void the_maximum_is_the_callers(void **state)
{
    size_t length;
    (void)state;
    assert_int_equal(frame_next(SPAN("\0\0\0\2{}"), 1, &length), FRAME_TOO_LARGE);
    assert_int_equal(frame_next(SPAN("\2\xaa\xaa\xa6"), 44739302, &length), FRAME_MORE);
    assert_int_equal(length, 44739238);
}

static void writes_the_length_that_was_appended(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 1 << 20);
    for (size_t n = 0; n < 70000; n = n * 3 + 1) {
        size_t before = buf_len(&out);
        size_t begun = frame_begin(&out);
        for (size_t i = 0; i < n; i++)
            buf_append(&out, "x", 1);
        frame_end(&out, begun);
        size_t length = 0;
        assert_int_equal(
            frame_next(buf_data(&out) + before, buf_len(&out) - before, FRAME_MAX, &length),
            FRAME_OK);
        assert_int_equal(length, n);
        assert_int_equal(buf_len(&out), before + FRAME_HEAD + n);
    }
    buf_free(&out);
}

static void a_frame_is_found_behind_consumed_bytes(void **state)
{
    struct buf out;
    (void)state;
    buf_init(&out, 1 << 20);
    buf_puts(&out, "consumed");
    buf_puts(&out, "kept");
    buf_consume(&out, 8);
    size_t begun = frame_begin(&out);
    buf_puts(&out, "{}");
    frame_end(&out, begun);
    assert_int_equal(buf_len(&out), 10);
    assert_memory_equal(buf_data(&out), "kept\0\0\0\2{}", 10);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_frame_that_bytes_begin_with),
        cmocka_unit_test(the_maximum_is_the_callers),
        cmocka_unit_test(writes_the_length_that_was_appended),
        cmocka_unit_test(a_frame_is_found_behind_consumed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
