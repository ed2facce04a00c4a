/* Rewritten heads parse again, hold no hop-by-hop field, and say the framing that was asked for. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proxy/http/chunked.h"
#include "proxy/http/headers.h"

enum { LIMIT = 65536, ROOM = 1 << 20 };

static const char *const strip[] = {"x-secret", NULL};

static bool lists(const char *list, size_t n, const char *name, size_t name_len)
{
    for (size_t i = 0; i <= n; i++) {
        size_t from = i;
        while (i < n && list[i] != ',')
            i++;
        size_t to = i;
        while (from < to && (list[from] == ' ' || list[from] == '\t'))
            from++;
        while (from < to && (list[to - 1] == ' ' || list[to - 1] == '\t'))
            to--;
        if (to - from == name_len && strncasecmp(list + from, name, name_len) == 0)
            return true;
    }
    return false;
}

/* Names the input's Connection lists, and proxy-authorization however spelled, are gone. */
static void check_gone(const struct head *in, const uint8_t *p, const struct head *out,
                       const uint8_t *q)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const struct field *f = &out->fields[i];
        const char *name = (const char *)q + f->name.at;
        char folded[64] = "";
        if (f->name.len < sizeof folded) {
            fold_name(folded, name, f->name.len);
            assert(strcmp(folded, "proxy-authorization") != 0);
            assert(strcmp(folded, "x-secret") != 0 || in->status == 0);
        }
        if (f->id != FIELD_OTHER)
            continue;
        size_t len;
        const char *list;
        for (uint32_t k = 0; (list = head_find(in, p, "connection", k, &len)) != NULL; k++)
            assert(!lists(list, len, name, f->name.len));
    }
}

static void check_once(const struct head *h)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->fields[i].id != FIELD_ONCE)
            continue;
        uint32_t bit = UINT32_C(1) << h->fields[i].once;
        assert((seen & bit) == 0);
        seen |= bit;
    }
}

static uint32_t count_id(const struct head *h, unsigned id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->count; i++)
        count += h->fields[i].id == id;
    return count;
}

static void check_request(const struct head *h, const uint8_t *p, bool upgrade, bool folded)
{
    struct buf out;
    struct head again;
    uint64_t length;
    size_t scanned = 0;
    struct request_out how = {.target = "/t", .target_len = 2, .host = "h.test"};
    how.framing = request_framing(h, p, &length);
    how.length = length;
    how.upgrade = upgrade;
    how.folded_hop_by_hop = folded;
    buf_init(&out, ROOM);
    head_init(&again);
    assert(headers_write_request(&out, h, p, &how));
    enum head_result result =
        head_parse_request(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2);
    const uint8_t *q = buf_data(&out);
    assert(result == HEAD_OK && again.length == buf_len(&out));
    assert(again.host_count == 1 && again.minor == 1);
    assert(again.framing == (how.framing == OUT_NONE     ? BODY_NONE
                             : how.framing == OUT_LENGTH ? BODY_LENGTH
                                                         : BODY_CHUNKED));
    assert(again.content_length == length);
    assert(h->framing == BODY_NONE || again.framing != BODY_NONE);
    bool may = upgrade && headers_may_upgrade(h, p);
    assert((count_id(&again, FIELD_UPGRADE) != 0) == may && again.connection_upgrade == may);
    for (unsigned id = FIELD_KEEP_ALIVE; id < FIELD_UPGRADE; id++)
        assert(id == FIELD_TRANSFER_ENCODING || count_id(&again, id) == 0);
    assert(count_id(&again, FIELD_COOKIE) <= 1);
    check_once(&again);
    check_gone(h, p, &again, q);
    buf_free(&out);
    head_free(&again);
}

static void check_response(const struct head *h, const uint8_t *p, unsigned framing)
{
    struct buf out;
    struct head again;
    size_t scanned = 0;
    struct response_out how = {.framing = (enum out_framing)(framing % 5),
                               .length = 7,
                               .keep_alive = true,
                               .keep_alive_seconds = 5,
                               .strip = strip,
                               .date = "Sun, 06 Nov 1994 08:49:37 GMT"};
    buf_init(&out, ROOM);
    head_init(&again);
    assert(headers_write_response(&out, h, p, &how));
    assert(head_parse_response(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2) ==
           HEAD_OK);
    const uint8_t *q = buf_data(&out);
    assert(again.length == buf_len(&out) && again.status == h->status);
    assert(again.reason.len == h->reason.len);
    if (how.framing == OUT_LENGTH)
        assert(again.framing == BODY_LENGTH && again.content_length == 7);
    else if (how.framing == OUT_CHUNKED)
        assert(again.framing == BODY_CHUNKED);
    else if (how.framing != OUT_KEEP)
        assert(again.framing == BODY_CLOSE);
    assert(count_id(&again, FIELD_DATE) >= 1 && count_id(&again, FIELD_UPGRADE) == 0);
    assert(count_id(&again, FIELD_CONNECTION) == 1 && count_id(&again, FIELD_KEEP_ALIVE) == 1);
    assert(count_id(&again, FIELD_PROXY_AUTHENTICATE) == 0);
    check_once(&again);
    check_gone(h, p, &again, q);
    buf_clear(&out);
    assert(headers_write_interim(&out, h, p, strip));
    scanned = 0;
    assert(head_parse_response(&again, buf_data(&out), buf_len(&out), &scanned, LIMIT * 2) ==
           HEAD_OK);
    assert(again.framing == BODY_CLOSE && count_id(&again, FIELD_CONNECTION) == 0);
    buf_free(&out);
    head_free(&again);
}

static void check_trailers(const uint8_t *p, size_t n)
{
    struct head h, again;
    struct buf out;
    head_init(&h);
    head_init(&again);
    buf_init(&out, ROOM);
    if (trailers_parse(&h, p, n)) {
        assert(headers_write_trailers(&out, &h, p, strip));
        assert(trailers_parse(&again, buf_data(&out), buf_len(&out)));
        assert(again.count <= h.count);
        for (unsigned id = FIELD_CONNECTION; id <= FIELD_SET_COOKIE; id++)
            assert(count_id(&again, id) == 0);
        check_once(&again);
    }
    buf_free(&out);
    head_free(&h);
    head_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the variant, the rest is a head. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const uint8_t *p = data + 1;
    size_t n = size - 1, scanned = 0;
    struct head h;
    head_init(&h);
    enum head_result result = head_parse_request(&h, p, n, &scanned, LIMIT);
    if ((result == HEAD_OK || result == HEAD_NO_HOST) && !head_method_is(&h, p, "CONNECT"))
        check_request(&h, p, (data[0] & 1) != 0, (data[0] & 2) != 0);
    scanned = 0;
    if (head_parse_response(&h, p, n, &scanned, LIMIT) == HEAD_OK)
        check_response(&h, p, data[0]);
    check_trailers(p, n);
    head_free(&h);
    return 0;
}
