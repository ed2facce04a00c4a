#include <string.h>

#include "base/buf.h"
#include "decider/frame.h"
#include "decider/message.h"

static const char *tail(bool cut)
{
    return cut ? "\",\"cut\":true}" : "\"}";
}

void body_head_write(struct buf *out, int64_t id, size_t bytes, bool cut)
{
    size_t begun = frame_begin(out);
    buf_printf(out, "{\"t\":\"body\",\"id\":%lld,\"data\":\"", (long long)id);
    size_t written = buf_len(out) - begun - FRAME_HEAD;
    frame_put_head(buf_data(out) + begun, written + body_base64_size(bytes) + strlen(tail(cut)));
}

void body_tail_write(struct buf *out, bool cut)
{
    buf_puts(out, tail(cut));
}

size_t body_base64(uint8_t *out, const uint8_t *p, size_t n)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *to = out;
    for (; n >= 3; n -= 3, p += 3) {
        uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        *to++ = (uint8_t)DIGITS[bits >> 18];
        *to++ = (uint8_t)DIGITS[bits >> 12 & 63];
        *to++ = (uint8_t)DIGITS[bits >> 6 & 63];
        *to++ = (uint8_t)DIGITS[bits & 63];
    }
    if (n != 0) {
        uint32_t bits = (uint32_t)p[0] << 16 | (n == 2 ? (uint32_t)p[1] << 8 : 0);
        *to++ = (uint8_t)DIGITS[bits >> 18];
        *to++ = (uint8_t)DIGITS[bits >> 12 & 63];
        *to++ = n == 2 ? (uint8_t)DIGITS[bits >> 6 & 63] : (uint8_t)'=';
        *to++ = '=';
    }
    return (size_t)(to - out);
}
