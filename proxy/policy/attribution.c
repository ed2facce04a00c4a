/*
 * Attribution keys: how an invocation names itself in the user name its clients
 * present to the proxy. A key attributes, it does not authorise. Chapter 10 section 9.
 */
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "proxy/policy/violation.h"

enum {
    USER_MAX = 255,             /* the length byte of RFC 1929 */
    ENCODED_MAX = 4 * KEY_UNITS /* base64 of three bytes a UTF-16 unit */
};

static const char half_pair[] = "\xEF\xBF\xBD";
static const char user_prefix[] = "srt.";
enum { PREFIX_LEN = sizeof user_prefix - 1 };

void attribution_encode(struct buf *encoded, struct buf *user, const char *command, size_t n)
{
    struct buf key, text;
    size_t cut = text_cut(command, n, KEY_UNITS);

    buf_init(&key, 3 * cut + sizeof half_pair);
    text_utf8_repair(&key, command, cut);
    /* The cut is by units: half of a pair at the end shows as U+FFFD. */
    if (cut < n && text_cut(command, n, KEY_UNITS - 1) == cut)
        buf_puts(&key, half_pair);
    buf_init(&text, 2 * buf_len(&key) + 4);
    text_base64(&text, buf_len(&key) != 0 ? buf_data(&key) : NULL, buf_len(&key));

    if (buf_len(&text) == 0 || PREFIX_LEN + buf_len(&text) > USER_MAX) {
        buf_append(user, user_prefix, PREFIX_LEN - 1);
    } else {
        buf_append(user, user_prefix, PREFIX_LEN);
        buf_append(user, buf_data(&text), buf_len(&text));
    }
    buf_puts(encoded, buf_cstr(&text));
    buf_free(&text);
    buf_free(&key);
}

const char *attribution_encoded(const char *user, size_t n, size_t *len)
{
    *len = 0;
    if (n <= PREFIX_LEN || n > USER_MAX || memcmp(user, user_prefix, PREFIX_LEN) != 0)
        return NULL;
    *len = n - PREFIX_LEN;
    return user + PREFIX_LEN;
}

/* A character of the standard or the URL-safe alphabet as the standard one, 0 for others. */
static char standard_base64(char c)
{
    unsigned char lower = text_lower((unsigned char)c);
    if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/')
        return c;
    if (c == '-')
        return '+';
    return c == '_' ? '/' : (char)0;
}

void attribution_decode(struct buf *key, const char *encoded, size_t n)
{
    char text[ENCODED_MAX];
    size_t len = 0;
    struct buf bytes;

    for (size_t i = 0; i < n && len < sizeof text && encoded[i] != '='; i++) {
        char c = standard_base64(encoded[i]);
        if (c != 0)
            text[len++] = c;
    }
    if (len % 4 == 1) /* six bits are no byte */
        len--;
    buf_init(&bytes, sizeof text);
    if (text_base64_decode(&bytes, text, len))
        text_utf8_repair(key, buf_cstr(&bytes), buf_len(&bytes));
    buf_free(&bytes);
}
