#include "base/text.h"

#include <string.h>

#include "base/limits.h"

enum {
    REPLACEMENT = 0xFFFD /* what an ill-formed part of UTF-8 becomes */
};

struct code_range {
    uint32_t first, last;
};

/* Characters a terminal or a log reader may obey or hide: a run of them becomes one space. */
static const struct code_range unsafe_codes[] = {
    {0x0000, 0x001F}, {0x007F, 0x009F}, {0x00AD, 0x00AD}, {0x061C, 0x061C}, {0x200B, 0x200F},
    {0x2028, 0x202E}, {0x2060, 0x2064}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF}, {0xE0000, 0xE007F},
};

/* Unicode White_Space without what unsafe_codes has already turned into spaces. */
static const struct code_range space_codes[] = {
    {0x0020, 0x0020}, {0x00A0, 0x00A0}, {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

static bool in_ranges(const struct code_range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count && ranges[i].first <= code; i++) {
        if (code <= ranges[i].last)
            return true;
    }
    return false;
}

static bool is_unsafe(uint32_t code)
{
    return in_ranges(unsafe_codes, sizeof unsafe_codes / sizeof unsafe_codes[0], code);
}

bool text_is_unsafe(uint32_t code)
{
    enum { UNASSIGNED = 0x2065 }; /* in the midst of such characters, and left out by cleaning */
    return is_unsafe(code) || code == UNASSIGNED;
}

static bool is_space(uint32_t code)
{
    return in_ranges(space_codes, sizeof space_codes / sizeof space_codes[0], code);
}

bool text_equal_fold(const char *a, size_t na, const char *b, size_t nb)
{
    if (na != nb)
        return false;
    for (size_t i = 0; i < na; i++) {
        if (text_lower((unsigned char)a[i]) != text_lower((unsigned char)b[i]))
            return false;
    }
    return true;
}

/*
 * Reads one character at p[0..n), n > 0. Returns the bytes it takes; for
 * ill-formed input those of the maximal subpart (Unicode 3.9, D93b), *good false.
 */
static size_t scan(const uint8_t *p, size_t n, uint32_t *code, bool *good)
{
    uint8_t lead = p[0];
    uint8_t low = 0x80, high = 0xBF; /* bounds of the next byte; narrower for the second */
    size_t more = 0;
    uint32_t value = lead;

    *code = REPLACEMENT;
    *good = false;
    if (lead >= 0x80) {
        if (lead >= 0xC2 && lead <= 0xDF) {
            more = 1;
            value = lead & 0x1F;
        } else if (lead >= 0xE0 && lead <= 0xEF) {
            more = 2;
            value = lead & 0x0F;
            low = lead == 0xE0 ? 0xA0 : low;
            high = lead == 0xED ? 0x9F : high;
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            more = 3;
            value = lead & 0x07;
            low = lead == 0xF0 ? 0x90 : low;
            high = lead == 0xF4 ? 0x8F : high;
        } else {
            return 1;
        }
    }
    for (size_t i = 1; i <= more; i++) {
        if (i >= n || p[i] < low || p[i] > high)
            return i;
        value = value << 6 | (p[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *code = value;
    *good = true;
    return more + 1;
}

size_t text_utf8_decode(const uint8_t *p, size_t n, uint32_t *code)
{
    bool good = false;
    size_t len = 0;

    *code = 0;
    if (n != 0)
        len = scan(p, n, code, &good);
    if (!good) {
        *code = 0;
        return 0;
    }
    return len;
}

bool text_utf8_valid(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t len = text_utf8_decode(p + i, n - i, &code);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

/* Appends the character scan() read: its own bytes, or U+FFFD for an ill-formed part. */
static void append_scanned(struct buf *out, const char *s, size_t len, bool good)
{
    if (good)
        buf_append(out, s, len);
    else
        buf_puts(out, "\xEF\xBF\xBD");
}

void text_utf8_repair(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        bool good;
        size_t len = scan((const uint8_t *)s + i, n - i, &code, &good);
        append_scanned(out, s + i, len, good);
        i += len;
    }
}

/* The same text without white space at its ends. */
static void trim(const char **s, size_t *n)
{
    size_t first = *n, last = 0;
    for (size_t i = 0; i < *n;) {
        uint32_t code;
        bool good;
        size_t len = scan((const uint8_t *)*s + i, *n - i, &code, &good);
        if (!is_space(code)) {
            first = i < first ? i : first;
            last = i + len;
        }
        i += len;
    }
    *s += first;
    *n = last > first ? last - first : 0;
}

/* Fills the empty *cleaned with s cleaned; *text and *len are what is left after trimming it. */
static void clean(struct buf *cleaned, const char *s, size_t n, const char **text, size_t *len)
{
    bool in_run = false;

    buf_init(cleaned, 3 * n + 1); /* an ill-formed byte grows to three */
    for (size_t i = 0; i < n;) {
        uint32_t code;
        bool good;
        size_t taken = scan((const uint8_t *)s + i, n - i, &code, &good);
        if (is_unsafe(code)) {
            if (!in_run)
                buf_puts(cleaned, " ");
            in_run = true;
        } else {
            in_run = false;
            if (code != '<' && code != '>')
                append_scanned(cleaned, s + i, taken, good);
        }
        i += taken;
    }
    *text = buf_cstr(cleaned);
    *len = buf_len(cleaned);
    trim(text, len);
}

/* As names, methods and rules nearly always are: nothing to clean, nothing to trim. */
static bool is_clean(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~' || s[i] == '<' || s[i] == '>')
            return false;
    return true;
}

void text_clean(struct buf *out, const char *s, size_t n)
{
    struct buf cleaned;
    const char *text;
    size_t len;

    if (is_clean(s, n)) {
        buf_append(out, s, n);
        return;
    }
    clean(&cleaned, s, n, &text, &len);
    buf_append(out, text, len);
    buf_free(&cleaned);
}

size_t text_cut(const char *s, size_t n, size_t units)
{
    size_t used = 0, i = 0;
    if (n <= units) /* no character has more units than bytes */
        return n;
    while (i < n) {
        uint32_t code;
        bool good;
        size_t len = scan((const uint8_t *)s + i, n - i, &code, &good);
        used += code > 0xFFFF ? 2 : 1;
        if (used > units)
            break;
        i += len;
    }
    return i;
}

void text_clean_reason(struct buf *out, const char *s, size_t n)
{
    struct buf cleaned;
    const char *text;
    size_t len;

    clean(&cleaned, s, n, &text, &len);
    len = text_cut(text, len, REASON_UNITS);
    trim(&text, &len);
    buf_append(out, text, len);
    buf_free(&cleaned);
}

void text_clean_key(struct buf *out, const char *s, size_t n)
{
    struct buf cleaned;
    const char *text;
    size_t len;

    clean(&cleaned, s, n, &text, &len);
    buf_append(out, text, text_cut(text, len, KEY_UNITS));
    buf_free(&cleaned);
}

void text_phrase(struct buf *out, const char *s, size_t n)
{
    struct buf reason;

    buf_init(&reason, 3 * n + 1);
    text_clean_reason(&reason, s, n);
    const char *text = buf_cstr(&reason);
    size_t len = buf_len(&reason);
    for (size_t i = 0; i < len;) {
        uint32_t code;
        bool good;
        i += scan((const uint8_t *)text + i, len - i, &code, &good);
        char shown = code >= 0x20 && code <= 0x7E ? (char)code : '?';
        buf_append(out, &shown, 1);
    }
    buf_free(&reason);
}

/* The letter of a two-character JSON escape, 0 when the character has none. */
static char json_letter(uint32_t code)
{
    switch (code) {
    case '"':
    case '\\':
        return (char)code;
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

void text_json(struct buf *out, const char *s, size_t n)
{
    buf_puts(out, "\"");
    for (size_t i = 0; i < n;) {
        uint32_t code;
        bool good;
        size_t len = scan((const uint8_t *)s + i, n - i, &code, &good);
        char letter = json_letter(code);
        if (letter != 0)
            buf_printf(out, "\\%c", letter);
        else if (code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029)
            buf_printf(out, "\\u%04x", (unsigned)code); /* a terminal shows the log as it is */
        else
            append_scanned(out, s + i, len, good);
        i += len;
    }
    buf_puts(out, "\"");
}

static const char base64_alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64(struct buf *out, const void *p, size_t n)
{
    const uint8_t *in = p;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t bits = (uint32_t)in[i] << 16;
        if (left > 1)
            bits |= (uint32_t)in[i + 1] << 8;
        if (left > 2)
            bits |= in[i + 2];
        char group[4] = {base64_alphabet[bits >> 18], base64_alphabet[bits >> 12 & 63],
                         left > 1 ? base64_alphabet[bits >> 6 & 63] : '=',
                         left > 2 ? base64_alphabet[bits & 63] : '='};
        buf_append(out, group, sizeof group);
    }
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool text_base64_decode(struct buf *out, const char *s, size_t n)
{
    for (int padding = 0; padding < 2 && n != 0 && s[n - 1] == '='; padding++)
        n--;
    if (n % 4 == 1)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (base64_value(s[i]) < 0)
            return false;
    }
    uint8_t *to = buf_reserve(out, n / 4 * 3 + n % 4 * 3 / 4);
    if (to == NULL)
        return false;
    uint32_t bits = 0;
    size_t made = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 6 | (uint32_t)base64_value(s[i]);
        if (i % 4 != 0)
            to[made++] = (uint8_t)(bits >> (6 - i % 4 * 2));
    }
    buf_commit(out, made);
    return true;
}
