#include "decider/frame.h"

#include <assert.h>

enum frame_result frame_next(const uint8_t *p, size_t n, size_t max, size_t *length)
{
    *length = 0;
    if (n < FRAME_HEAD)
        return FRAME_MORE;
    size_t announced = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
    if (announced > max)
        return FRAME_TOO_LARGE;
    *length = announced;
    return n - FRAME_HEAD < announced ? FRAME_MORE : FRAME_OK;
}

uint8_t *frame_put_head(uint8_t *to, size_t length)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)(length >> shift);
    return to;
}

size_t frame_begin(struct buf *out)
{
    static const uint8_t UNKNOWN[FRAME_HEAD] = {0};
    size_t begun = buf_len(out);
    buf_append(out, UNKNOWN, sizeof UNKNOWN);
    return begun;
}

void frame_end(struct buf *out, size_t begun)
{
    uint8_t *frames = buf_data(out);
    assert(frames != NULL && buf_len(out) >= begun + FRAME_HEAD);
    frame_put_head(frames + begun, buf_len(out) - begun - FRAME_HEAD);
}
