/* Cleaned text holds nothing unsafe and stays as it is when cleaned again; base64 round-trips. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0xAD || c == 0x61C ||
           (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF ||
           (c >= 0xE0000 && c <= 0xE007F) || c == '<' || c == '>';
}

static size_t check_safe(struct buf *b)
{
    const uint8_t *p = (const uint8_t *)buf_cstr(b);
    size_t n = buf_len(b), units = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t len = text_utf8_decode(p + i, n - i, &c);
        assert(len != 0 && !is_unsafe(c));
        units += c > 0xFFFF ? 2 : 1;
        i += len;
    }
    assert(n == 0 || p[0] != ' ');
    return units;
}

static void check_same(struct buf *a, struct buf *b)
{
    assert(buf_len(a) == buf_len(b));
    assert(memcmp(buf_cstr(a), buf_cstr(b), buf_len(a)) == 0);
}

typedef void text_maker(struct buf *out, const char *s, size_t n);

static void check_maker(text_maker *make, const char *s, size_t n, size_t most)
{
    struct buf once, twice;
    buf_init(&once, 3 * n + 1);
    buf_init(&twice, 9 * n + 1);
    make(&once, s, n);
    assert(check_safe(&once) <= most);
    make(&twice, buf_cstr(&once), buf_len(&once));
    if (make != text_clean_key) /* a key is not trimmed after its cut */
        check_same(&once, &twice);
    buf_free(&once);
    buf_free(&twice);
}

static void check_phrase(const char *s, size_t n)
{
    struct buf out;
    buf_init(&out, 3 * n + 1);
    text_phrase(&out, s, n);
    assert(buf_len(&out) <= REASON_UNITS);
    for (size_t i = 0; i < buf_len(&out); i++)
        assert(buf_data(&out)[i] >= 0x20 && buf_data(&out)[i] <= 0x7E);
    buf_free(&out);
}

static void check_json(const char *s, size_t n)
{
    struct buf out;
    buf_init(&out, 6 * n + 2);
    text_json(&out, s, n);
    const char *text = buf_cstr(&out);
    size_t len = buf_len(&out);
    assert(len >= 2 && text[0] == '"' && text[len - 1] == '"' && text_utf8_valid(text, len));
    for (size_t i = 1; i + 1 < len; i++) {
        assert((unsigned char)text[i] >= 0x20 && text[i] != '"');
        if (text[i] == '\\')
            i++;
    }
    buf_free(&out);
}

static void check_base64(const char *s, size_t n)
{
    struct buf encoded, plain;
    buf_init(&encoded, 2 * n + 8);
    buf_init(&plain, n + 1);
    text_base64(&encoded, s, n);
    assert(buf_len(&encoded) == (n + 2) / 3 * 4);
    assert(text_base64_decode(&plain, buf_cstr(&encoded), buf_len(&encoded)));
    assert(buf_len(&plain) == n && memcmp(buf_cstr(&plain), s, n) == 0);
    buf_clear(&plain);
    if (!text_base64_decode(&plain, s, n))
        assert(buf_len(&plain) == 0);
    buf_free(&encoded);
    buf_free(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = size != 0 ? (const char *)data : "";
    struct buf repaired;

    check_maker(text_clean, s, size, SIZE_MAX);
    check_maker(text_clean_reason, s, size, REASON_UNITS);
    check_maker(text_clean_key, s, size, KEY_UNITS);
    check_phrase(s, size);
    check_json(s, size);
    check_base64(s, size);
    buf_init(&repaired, 3 * size + 1);
    text_utf8_repair(&repaired, s, size);
    assert(text_utf8_valid(buf_cstr(&repaired), buf_len(&repaired)));
    if (text_utf8_valid(s, size))
        assert(buf_len(&repaired) == size);
    for (size_t units = 0; units < 4; units++) {
        size_t cut = text_cut(s, size, units);
        assert(cut <= size);
        assert(!text_utf8_valid(s, size) || text_utf8_valid(s, cut));
    }
    buf_free(&repaired);
    return 0;
}
