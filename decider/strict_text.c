#include "decider/strict_json.h"

#include <string.h>

#include "base/text.h"

/* What a byte of a text asks for. */
enum byte_class {
    PLAIN,     /* is itself, in JSON too */
    ESCAPED,   /* a backslash and one character: '"', '\\', tab */
    CONTROL,   /* C0 but tab, and DEL */
    MULTI_BYTE /* belongs to a sequence of UTF-8 */
};

static enum byte_class byte_class(unsigned char c)
{
    if (c >= 0x80)
        return MULTI_BYTE;
    if (c == '"' || c == '\\' || c == '\t')
        return ESCAPED;
    return c < 0x20 || c == 0x7f ? CONTROL : PLAIN;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static uint64_t zero_bytes(uint64_t x)
{
    return (x - EACH(0x01)) & ~x & EACH(0x80);
}

/* Eight at a time, since nearly all are. */
size_t strict_text_plain(const char *s, size_t n)
{
    size_t i = 0;
    while (n - i >= 8) {
        uint64_t x;
        memcpy(&x, s + i, sizeof x);
        uint64_t low = (x - EACH(0x20)) & ~x & EACH(0x80);
        uint64_t odd = zero_bytes(x ^ EACH('"')) | zero_bytes(x ^ EACH('\\')) |
                       zero_bytes(x ^ EACH(0x7f)) | low | (x & EACH(0x80));
        if (odd != 0)
            break;
        i += 8;
    }
    while (i < n && byte_class((unsigned char)s[i]) == PLAIN)
        i++;
    return i;
}

bool strict_text_measure(const char *s, size_t n, size_t *size)
{
    size_t escaped = 0;
    for (size_t i = strict_text_plain(s, n); i < n; i += strict_text_plain(s + i, n - i)) {
        switch (byte_class((unsigned char)s[i])) {
        case PLAIN:
            break;
        case ESCAPED:
            escaped++;
            i++;
            break;
        case CONTROL:
            return false;
        case MULTI_BYTE: {
            uint32_t code = 0;
            size_t length = text_utf8_decode((const uint8_t *)s + i, n - i, &code);
            if (length == 0 || code < 0xa0)
                return false;
            i += length;
            break;
        }
        }
    }
    *size += n + escaped + 2;
    return true;
}

bool strict_text_valid(const char *s, size_t n)
{
    size_t size = 0;
    return strict_text_measure(s, n, &size);
}

char *strict_json_put(char *to, const char *s, size_t n)
{
    *to++ = '"';
    for (size_t i = 0; i < n;) {
        size_t run = strict_text_plain(s + i, n - i);
        while (i + run < n && (unsigned char)s[i + run] >= 0x80)
            run++;
        memcpy(to, s + i, run);
        to += run;
        i += run;
        if (i < n && byte_class((unsigned char)s[i]) == ESCAPED) {
            *to++ = '\\';
            *to++ = s[i] == '\t' ? 't' : s[i];
            i++;
        }
    }
    *to++ = '"';
    return to;
}

bool strict_json_put_string(struct buf *out, const char *s, size_t n)
{
    size_t size = 2;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        size += c == '"' || c == '\\' ? 2 : c < 0x20 ? 6 : 1;
    }
    char *to = (char *)buf_reserve(out, size);
    if (to == NULL)
        return false;
    *to++ = '"';
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c < 0x20) {
            *to++ = '\\';
            *to++ = 'u';
            *to++ = '0';
            *to++ = '0';
            *to++ = (char)('0' + (c >> 4));
            *to++ = "0123456789abcdef"[c & 0xf];
        } else {
            if (c == '"' || c == '\\')
                *to++ = '\\';
            *to++ = (char)c;
        }
    }
    *to = '"';
    buf_commit(out, size);
    return true;
}
