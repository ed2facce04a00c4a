#include "proxy/http/encode.h"

#include "proxy/http/chunked.h"

static const char *const nothing[] = {NULL};
const char *const *const BODY_TRAILERS_DROPPED = nothing;

void body_encode(struct buf *out, enum out_framing framing, uint8_t *p, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    if (n == 0)
        return;
    if (framing != OUT_CHUNKED) {
        buf_append(out, p, n);
        return;
    }
    uint8_t *size = p;
    *--size = '\n';
    *--size = '\r';
    for (size_t left = n; left != 0; left >>= 4)
        *--size = (uint8_t)hex[left & 15];
    p[n] = '\r';
    p[n + 1] = '\n';
    buf_append(out, size, (size_t)(p - size) + n + ENCODE_TAILROOM);
}

bool body_encode_end(struct buf *out, enum out_framing framing, const struct buf *trailers,
                     const char *const *strip)
{
    const uint8_t *p = buf_data(trailers);
    struct head fields;
    head_init(&fields);
    bool ok = trailers_parse(&fields, p, buf_len(trailers));
    if (ok && framing == OUT_CHUNKED) {
        buf_puts(out, "0\r\n");
        if (strip == BODY_TRAILERS_DROPPED || !headers_write_trailers(out, &fields, p, strip))
            buf_puts(out, "\r\n");
    }
    head_free(&fields);
    return ok;
}
