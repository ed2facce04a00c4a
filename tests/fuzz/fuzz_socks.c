/* The SOCKS handshake: the outcome does not depend on how the bytes arrive. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "proxy/socks/handshake.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum socks_step step;
    size_t used;
    struct buf replies;
    struct socks_handshake s;
};

static void check_step(const struct socks_handshake *s, enum socks_step step)
{
    static const uint8_t zeros[6] = {0};

    assert(s->reply_len <= sizeof s->reply);
    assert(step != SOCKS_REQUEST || (s->error == ERR_NONE && s->reply_len == 0));
    assert((step == SOCKS_REFUSED) == (s->error != ERR_NONE));
    assert(s->error != ERR_INTERNAL);
    assert(!s->authenticated || s->method_selected);
    assert(!s->anonymous || (!s->authenticated && s->method_selected && !s->optional));
    assert(s->user_known || !s->authenticated || s->token == NULL || s->optional);
    if (s->reply_len == 10)
        assert(s->reply[0] == 5 && s->reply[2] == 0 && s->reply[3] == 1 &&
               memcmp(s->reply + 4, zeros, sizeof zeros) == 0 && s->authenticated);
    else
        assert(s->reply_len == 0 || s->reply_len == 2 || s->reply_len == 8);
}

static void run(struct outcome *o, const char *token, bool optional, const uint8_t *p, size_t n,
                size_t piece)
{
    buf_init(&o->replies, 64);
    socks_init(&o->s, token, optional);
    o->step = SOCKS_MORE;
    o->used = 0;
    while (o->used < n && o->step == SOCKS_MORE) {
        size_t part = n - o->used < piece ? n - o->used : piece;
        size_t used = 0;
        o->step = socks_feed(&o->s, p + o->used, part, &used);
        assert(used > 0 && used <= part);
        check_step(&o->s, o->step);
        assert(buf_append(&o->replies, o->s.reply, o->s.reply_len));
        o->used += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole;
    struct outcome pieces;

    if (size < 2)
        return 0;
    const char *token = (data[0] & 1) ? TOKEN : NULL;
    size_t piece = 1 + (data[0] >> 1) % 16;
    bool optional = (data[0] & 0x20) != 0;
    run(&whole, token, optional, data + 1, size - 1, size);
    run(&pieces, token, optional, data + 1, size - 1, piece);
    assert(whole.step == pieces.step);
    assert(buf_len(&whole.replies) == buf_len(&pieces.replies));
    if (buf_len(&whole.replies) != 0)
        assert(memcmp(buf_data(&whole.replies), buf_data(&pieces.replies),
                      buf_len(&whole.replies)) == 0);
    if (whole.step != SOCKS_REFUSED)
        assert(whole.used == pieces.used);
    assert(whole.s.error == pieces.s.error);
    assert(whole.s.authenticated == pieces.s.authenticated);
    assert(whole.s.anonymous == pieces.s.anonymous);
    assert(whole.s.user_known == pieces.s.user_known);
    assert(whole.s.host_len == pieces.s.host_len && whole.s.port == pieces.s.port);
    assert(memcmp(whole.s.host, pieces.s.host, sizeof whole.s.host) == 0);
    assert(memcmp(whole.s.user, pieces.s.user, sizeof whole.s.user) == 0);
    buf_free(&whole.replies);
    buf_free(&pieces.replies);
    return 0;
}
