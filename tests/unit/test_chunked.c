/* Both body framings, the chunk grammar, its limits, and that pieces change nothing. */
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

enum { TRAILER_LIMIT = 256 };

struct decoded {
    enum body_result result;
    size_t used;
    struct buf body, trailers;
};

static void decoded_free(struct decoded *got)
{
    buf_free(&got->body);
    buf_free(&got->trailers);
}

/* Feeds s in pieces of `step` bytes, each in memory of exactly its size. */
static struct decoded decode(enum head_framing framing, uint64_t length, const char *s, size_t n,
                             size_t step)
{
    struct decoded got = {.result = BODY_MORE};
    struct body_decoder d;
    buf_init(&got.body, 1 << 20);
    buf_init(&got.trailers, TRAILER_LIMIT);
    body_decoder_init(&d, framing, length, TRAILER_LIMIT);
    if (body_is_done(&d))
        got.result = BODY_DONE;
    while (got.used < n && got.result == BODY_MORE) {
        size_t take = n - got.used < step ? n - got.used : step, used, out;
        uint8_t *piece = mem_alloc(take);
        memcpy(piece, s + got.used, take);
        got.result = body_decode(&d, piece, take, &used, &out);
        assert_true(used <= take && out <= used);
        assert_true(got.result != BODY_MORE || used == take);
        assert_true(buf_append(&got.body, piece, out));
        got.used += used;
        free(piece);
    }
    assert_int_equal(body_is_done(&d), got.result == BODY_DONE);
    if (buf_len(&d.trailers) != 0)
        buf_append(&got.trailers, buf_data(&d.trailers), buf_len(&d.trailers));
    body_decoder_free(&d);
    return got;
}

struct sample {
    const char *input;
    enum body_result result;
    const char *body;
    const char *rest; /* BODY_DONE: what is not consumed */
};

static const struct sample chunked[] = {
    {"0\r\n\r\n", BODY_DONE, "", ""},
    {"0\r\n\r\nGET /", BODY_DONE, "", "GET /"},
    {"5\r\nhello\r\n0\r\n\r\n", BODY_DONE, "hello", ""},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n0", BODY_DONE, "hello world", "0"},
    {"1\r\na\r\n1\r\nb\r\nf\r\n0123456789abcde\r\n00\r\n\r\n", BODY_DONE, "ab0123456789abcde", ""},
    {"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", BODY_DONE, "01234567890123456789", ""},
    {"0000000000000002\r\n\r\n\r\n0000000000000000\r\n\r\n", BODY_DONE, "\r\n", ""},
    {"5\r\nhel", BODY_MORE, "hel", ""},
    {"7FFFFFFFFFFFFFFF\r\nx", BODY_MORE, "x", ""},
    {"8000000000000000\r\nx", BODY_BAD, "", ""},
    {"FFFFFFFFFFFFFFFF\r\nx", BODY_BAD, "", ""},
    {"00000000000000005\r\nhello\r\n", BODY_BAD, "", ""},
    {"10000000000000005\r\nhello\r\n", BODY_BAD, "", ""},
    {"0x5\r\nhello\r\n", BODY_BAD, "", ""},
    {"+5\r\nhello\r\n", BODY_BAD, "", ""},
    {"-5\r\nhello\r\n", BODY_BAD, "", ""},
    {" 5\r\nhello\r\n", BODY_BAD, "", ""},
    {"\t5\r\nhello\r\n", BODY_BAD, "", ""},
    {"5 \r\nhello\r\n", BODY_BAD, "", ""},
    {"5 5\r\nhello\r\n", BODY_BAD, "", ""},
    {"5\nhello\r\n", BODY_BAD, "", ""},
    {"5\rhello\r\n", BODY_BAD, "", ""},
    {"5\r\r\nhello\r\n", BODY_BAD, "", ""},
    {"\r\n5\r\nhello\r\n", BODY_BAD, "", ""},
    {"\r\n", BODY_BAD, "", ""},
    {";a\r\n", BODY_BAD, "", ""},
    {"g\r\n", BODY_BAD, "", ""},
    {"5.\r\n", BODY_BAD, "", ""},
    {"5\r\nhello0\r\n\r\n", BODY_BAD, "hello", ""},
    {"5\r\nhello!\r\n0\r\n\r\n", BODY_BAD, "hello", ""},
    {"5\r\nhello\n0\r\n\r\n", BODY_BAD, "hello", ""},
    {"5\r\nhello\r0\r\n\r\n", BODY_BAD, "hello", ""},
    {"1\r\na\r\n1\r\nb\rX", BODY_BAD, "ab", ""},
    {"1\r\na\r\n1\r\nbXX1\r\nc\r\n", BODY_BAD, "ab", ""},
    {"0\r\nX", BODY_MORE, "", ""},
    {"0\r\n\n", BODY_BAD, "", ""},
    {"0\n\r\n", BODY_BAD, "", ""},
    {"0\r\n\rX", BODY_BAD, "", ""},
};

static const struct sample extensions[] = {
    {"1;a\r\nx\r\n0;b\r\n\r\n", BODY_DONE, "x", ""},
    {"1;a=b\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1 ; a = b ;c\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1\t;\ta\t=\tb\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1;a=\"b c;\\\"\\\\\xc3\xa9\"\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1;a=\"\";b=\"x\" ;c\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1;a ;b\r\nx\r\n0\r\n\r\n", BODY_DONE, "x", ""},
    {"1;\r\nx\r\n", BODY_BAD, "", ""},
    {"1;;a\r\nx\r\n", BODY_BAD, "", ""},
    {"1;=b\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a \r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=b \r\nx\r\n", BODY_BAD, "", ""},
    {"1;a b\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=b c\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=b=c\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\"b\"c\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\"b\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\"b\\\r\n\"\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a\nx\r\n", BODY_BAD, "", ""},
    {"1;a\rx\r\n", BODY_BAD, "", ""},
    {"1;a\x01\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\"\x01\"\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\"\x7f\"\r\nx\r\n", BODY_BAD, "", ""},
    {"1;a=\xc3\r\nx\r\n", BODY_BAD, "", ""},
    {"1,a\r\nx\r\n", BODY_BAD, "", ""},
    {"1 a\r\nx\r\n", BODY_BAD, "", ""},
};

static void check(const struct sample *sample)
{
    size_t n = strlen(sample->input);
    for (size_t step = 1; step <= n; step++) {
        struct decoded got = decode(BODY_CHUNKED, 0, sample->input, n, step);
        if (got.result != sample->result)
            print_error("step %zu of: %s\n", step, sample->input);
        assert_int_equal(got.result, sample->result);
        assert_string_equal(buf_cstr(&got.body), sample->body);
        if (got.result == BODY_DONE)
            assert_string_equal(sample->input + got.used, sample->rest);
        decoded_free(&got);
    }
}

static void chunks_are_strict(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chunked / sizeof chunked[0]; i++)
        check(&chunked[i]);
}

static void extensions_are_dropped(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++)
        check(&extensions[i]);
}

static void nul_is_bad_in_the_framing(void **state)
{
    (void)state;
    static const char good[] = "1;a=\"b\"\r\nx\r\n0\r\n\r\n";
    for (size_t i = 0; i < sizeof good - 1; i++) {
        char bad[sizeof good];
        memcpy(bad, good, sizeof good);
        bad[i] = 0;
        struct decoded got = decode(BODY_CHUNKED, 0, bad, sizeof good - 1, sizeof good);
        assert_int_equal(got.result, good[i] == 'x' ? BODY_DONE : BODY_BAD);
        decoded_free(&got);
    }
}

/* Chunks of one byte, each with extensions of `extension` bytes; how many went through. */
static size_t chunks_with_extension(size_t extension, size_t count)
{
    struct buf chunk;
    buf_init(&chunk, extension + 6);
    assert_true(buf_puts(&chunk, "1"));
    for (size_t i = 0; i < extension; i++)
        assert_true(buf_puts(&chunk, i == 0 ? ";" : "e"));
    assert_true(buf_puts(&chunk, "\r\nx\r\n"));
    size_t n = buf_len(&chunk);
    struct body_decoder d;
    body_decoder_init(&d, BODY_CHUNKED, 0, TRAILER_LIMIT);
    size_t passed = 0, used, out;
    uint8_t *copy = mem_alloc(n);
    for (; passed < count; passed++) {
        memcpy(copy, buf_data(&chunk), n);
        if (body_decode(&d, copy, n, &used, &out) != BODY_MORE)
            break;
        assert_int_equal(out, 1);
    }
    free(copy);
    buf_free(&chunk);
    body_decoder_free(&d);
    return passed;
}

static void extensions_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(chunks_with_extension(0, 100000), 100000);
    assert_int_equal(chunks_with_extension(5, 100000), 100000);
    assert_int_equal(chunks_with_extension(CHUNK_EXTENSIONS_PER_BYTE - 1, 100000), 100000);
    assert_int_equal(chunks_with_extension(CHUNK_EXTENSION_LINE_MAX - 1, 1), 1);
    assert_int_equal(chunks_with_extension(CHUNK_EXTENSION_LINE_MAX + 2, 1), 0);
    size_t passed = chunks_with_extension(4000, 100000);
    assert_in_range(passed, 1, 2 * CHUNK_EXTENSIONS_FREE / 4000);
}

static void length_is_kept(void **state)
{
    (void)state;
    static const char input[] = "0123456789rest";
    for (size_t step = 1; step < sizeof input; step++) {
        struct decoded got = decode(BODY_LENGTH, 10, input, sizeof input - 1, step);
        assert_int_equal(got.result, BODY_DONE);
        assert_int_equal(got.used, 10);
        assert_string_equal(buf_cstr(&got.body), "0123456789");
        decoded_free(&got);
        got = decode(BODY_LENGTH, 100, input, sizeof input - 1, step);
        assert_int_equal(got.result, BODY_MORE);
        assert_string_equal(buf_cstr(&got.body), input);
        decoded_free(&got);
        got = decode(BODY_CLOSE, 0, input, sizeof input - 1, step);
        assert_int_equal(got.result, BODY_MORE);
        assert_string_equal(buf_cstr(&got.body), input);
        decoded_free(&got);
    }
}

static void no_body_is_done_at_once(void **state)
{
    (void)state;
    struct decoded got = decode(BODY_NONE, 0, "rest", 4, 4);
    assert_int_equal(got.result, BODY_DONE);
    assert_int_equal(got.used, 0);
    decoded_free(&got);
    got = decode(BODY_LENGTH, 0, "rest", 4, 4);
    assert_int_equal(got.result, BODY_DONE);
    decoded_free(&got);
    /* Asked all the same, it takes nothing. */
    struct body_decoder d;
    uint8_t byte = 'x';
    size_t used, out;
    body_decoder_init(&d, BODY_NONE, 0, TRAILER_LIMIT);
    assert_int_equal(body_decode(&d, &byte, 1, &used, &out), BODY_DONE);
    assert_int_equal(used, 0);
    assert_int_equal(out, 0);
    body_decoder_free(&d);
}

static void bad_stays_bad(void **state)
{
    (void)state;
    struct body_decoder d;
    uint8_t bad[] = "z", good[] = "0\r\n\r\n";
    size_t used, out;
    body_decoder_init(&d, BODY_CHUNKED, 0, TRAILER_LIMIT);
    assert_int_equal(body_decode(&d, bad, 1, &used, &out), BODY_BAD);
    assert_int_equal(body_decode(&d, good, 5, &used, &out), BODY_BAD);
    assert_int_equal(out, 0);
    assert_false(body_is_done(&d));
    body_decoder_free(&d);
}

static void trailers_are_kept(void **state)
{
    (void)state;
    static const char input[] = "1\r\nx\r\n0\r\nX-One: 1\r\nX-Two:2\r\n\r\nrest";
    for (size_t step = 1; step < sizeof input; step++) {
        struct decoded got = decode(BODY_CHUNKED, 0, input, sizeof input - 1, step);
        assert_int_equal(got.result, BODY_DONE);
        assert_string_equal(input + got.used, "rest");
        assert_string_equal(buf_cstr(&got.trailers), "X-One: 1\r\nX-Two:2\r\n\r\n");
        struct head h;
        head_init(&h);
        assert_true(trailers_parse(&h, buf_data(&got.trailers), buf_len(&got.trailers)));
        assert_int_equal(h.count, 2);
        size_t len;
        assert_memory_equal(head_find(&h, buf_data(&got.trailers), "x-two", 0, &len), "2", 1);
        head_free(&h);
        decoded_free(&got);
    }
}

static void trailer_lines_are_strict(void **state)
{
    (void)state;
    static const struct sample rows[] = {
        {"0\r\nX: 1\n\r\n", BODY_BAD, "", ""}, {"0\r\nX: 1\rY\r\n\r\n", BODY_BAD, "", ""},
        {"0\r\nX: 1\r\n\n", BODY_BAD, "", ""}, {"0\r\nX: 1\r\n\rX", BODY_BAD, "", ""},
        {"0\r\nX: 1\r\n", BODY_MORE, "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(&rows[i]);
    static const char *const malformed[] = {
        "X : 1\r\n\r\n", " X: 1\r\n\r\n",   "X\r\n\r\n", "X: 1\r\n y\r\n\r\n",
        ": 1\r\n\r\n",   "X: \x01\r\n\r\n", "X: 1\r\n",  "\n",
    };
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        struct head h;
        head_init(&h);
        assert_false(trailers_parse(&h, (const uint8_t *)malformed[i], strlen(malformed[i])));
        head_free(&h);
    }
}

static void trailers_are_bounded(void **state)
{
    (void)state;
    for (size_t section = TRAILER_LIMIT - 1; section <= TRAILER_LIMIT + 1; section++) {
        struct buf input;
        buf_init(&input, 1024);
        assert_true(buf_printf(&input, "0\r\nX: %0*d\r\n\r\n", (int)section - 7, 0));
        assert_int_equal(buf_len(&input), section + 3);
        for (size_t step = 1; step < section; step += 7) {
            struct decoded got = decode(BODY_CHUNKED, 0, buf_chars(&input), buf_len(&input), step);
            assert_int_equal(got.result, section <= TRAILER_LIMIT ? BODY_DONE : BODY_BAD);
            decoded_free(&got);
        }
        buf_free(&input);
    }
}

static void no_trailers_parse_as_none(void **state)
{
    (void)state;
    struct head h;
    head_init(&h);
    assert_true(trailers_parse(&h, NULL, 0));
    assert_int_equal(h.count, 0);
    assert_true(trailers_parse(&h, (const uint8_t *)"\r\n", 2));
    assert_int_equal(h.count, 0);
    head_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_strict),
        cmocka_unit_test(extensions_are_dropped),
        cmocka_unit_test(nul_is_bad_in_the_framing),
        cmocka_unit_test(extensions_are_bounded),
        cmocka_unit_test(length_is_kept),
        cmocka_unit_test(no_body_is_done_at_once),
        cmocka_unit_test(bad_stays_bad),
        cmocka_unit_test(trailers_are_kept),
        cmocka_unit_test(trailer_lines_are_strict),
        cmocka_unit_test(trailers_are_bounded),
        cmocka_unit_test(no_trailers_parse_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
