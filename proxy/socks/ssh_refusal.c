#include "proxy/socks/ssh_refusal.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

#define BANNER "SSH-2.0-policy_refusal\r\n"
#define NO_AUTHENTICATION                                                                  \
    "This proxy requires authentication, and this client did not offer an authentication " \
    "method, so the connection was refused."

enum {
    SSH_MSG_DISCONNECT = 1,
    HOST_NOT_ALLOWED = 1, /* SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT */
    BLOCK = 8,            /* of a packet that is not encrypted */
    PADDING_MIN = 4,
    DESCRIPTION_UNITS = 1000
};

static void put_u32(struct buf *out, size_t value)
{
    uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                        (uint8_t)value};
    buf_append(out, bytes, sizeof bytes);
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* The reason as UTF-8 without control characters: each run of them is one space. */
static void describe(struct buf *out, const char *reason, size_t n)
{
    const uint8_t *p = (const uint8_t *)reason;
    bool in_run = false;

    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = text_utf8_decode(p + i, n - i, &code);
        bool control = len != 0 && is_control(code);
        if (len == 0)
            buf_puts(out, "\xef\xbf\xbd");
        else if (!control)
            buf_append(out, p + i, len);
        else if (!in_run)
            buf_puts(out, " ");
        in_run = control;
        i += len != 0 ? len : 1;
    }
}

void ssh_refusal(struct buf *out, const char *reason)
{
    static const uint8_t padding[PADDING_MIN + BLOCK] = {0};
    struct buf text;

    if (reason == NULL)
        reason = NO_AUTHENTICATION;
    size_t n = strlen(reason);
    buf_init(&text, 3 * n); /* a byte that is not UTF-8 grows to three */
    describe(&text, reason, n);
    size_t len = n == 0 ? 0 : text_cut(buf_chars(&text), buf_len(&text), DESCRIPTION_UNITS);

    /* message number, reason code, description and language tag with their lengths */
    size_t payload = 1 + 4 + 4 + len + 4;
    size_t pad = BLOCK - (4 + 1 + payload) % BLOCK;
    if (pad < PADDING_MIN)
        pad += BLOCK;

    const uint8_t pad_length = (uint8_t)pad;
    const uint8_t message = SSH_MSG_DISCONNECT;
    buf_puts(out, BANNER);
    put_u32(out, 1 + payload + pad);
    buf_append(out, &pad_length, 1);
    buf_append(out, &message, 1);
    put_u32(out, HOST_NOT_ALLOWED);
    put_u32(out, len);
    if (len != 0)
        buf_append(out, buf_data(&text), len);
    put_u32(out, 0);
    buf_append(out, padding, pad);
    buf_free(&text);
}
