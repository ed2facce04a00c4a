/* A chunked body: whole and in pieces the same bytes; decoding what was decoded again is stable. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/http/chunked.h"

enum { TRAILER_LIMIT = 512, ROOM = 1 << 20 };

struct outcome {
    enum body_result result;
    size_t used;
    struct buf body, trailers;
};

static struct outcome decode(const uint8_t *p, size_t n, size_t step)
{
    struct outcome o = {.result = BODY_MORE};
    struct body_decoder d;
    buf_init(&o.body, ROOM);
    buf_init(&o.trailers, ROOM);
    body_decoder_init(&d, BODY_CHUNKED, 0, TRAILER_LIMIT);
    while (o.used < n && o.result == BODY_MORE) {
        size_t take = n - o.used < step ? n - o.used : step, used, out;
        uint8_t *piece = mem_alloc(take);
        memcpy(piece, p + o.used, take);
        o.result = body_decode(&d, piece, take, &used, &out);
        assert(out <= used && used <= take && (used == take || o.result != BODY_MORE));
        assert(buf_append(&o.body, piece, out));
        o.used += used;
        free(piece);
    }
    assert(body_is_done(&d) == (o.result == BODY_DONE));
    if (buf_len(&d.trailers) != 0)
        assert(buf_append(&o.trailers, buf_data(&d.trailers), buf_len(&d.trailers)));
    assert(buf_len(&o.trailers) <= TRAILER_LIMIT);
    body_decoder_free(&d);
    return o;
}

static void outcome_free(struct outcome *o)
{
    buf_free(&o->body);
    buf_free(&o->trailers);
}

static bool equal(const struct buf *a, const struct buf *b)
{
    return buf_len(a) == buf_len(b) &&
           (buf_len(a) == 0 || memcmp(buf_data(a), buf_data(b), buf_len(a)) == 0);
}

/* The decoded body as one chunk decodes to itself. */
static void check_round_trip(const struct outcome *o)
{
    struct buf again;
    buf_init(&again, ROOM);
    if (buf_len(&o->body) != 0) {
        assert(buf_printf(&again, "%zx\r\n", buf_len(&o->body)));
        assert(buf_append(&again, buf_data(&o->body), buf_len(&o->body)));
        assert(buf_puts(&again, "\r\n"));
    }
    assert(buf_puts(&again, "0\r\n\r\n"));
    struct outcome second = decode(buf_data(&again), buf_len(&again), 4096);
    assert(second.result == BODY_DONE && equal(&second.body, &o->body));
    outcome_free(&second);
    buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct outcome whole = decode(data, size, size);
    for (size_t step = 1; step <= 7; step += 3) {
        struct outcome pieces = decode(data, size, step);
        assert(pieces.result == whole.result && equal(&pieces.body, &whole.body));
        if (whole.result != BODY_BAD)
            assert(pieces.used == whole.used && equal(&pieces.trailers, &whole.trailers));
        outcome_free(&pieces);
    }
    if (whole.result == BODY_DONE)
        check_round_trip(&whole);
    if (whole.result == BODY_DONE && buf_len(&whole.trailers) != 0) {
        struct head h;
        head_init(&h);
        (void)trailers_parse(&h, buf_data(&whole.trailers), buf_len(&whole.trailers));
        head_free(&h);
    }
    outcome_free(&whole);
    return 0;
}
