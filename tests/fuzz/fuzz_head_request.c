/* A request head: whole and in pieces the same answer; what is accepted is well formed. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/http/head.h"

enum { LIMIT = 2048 };

static void check_span(struct span s, const struct head *h)
{
    assert(s.at <= h->length && s.len <= h->length - s.at);
}

static void check_head(const struct head *h, const uint8_t *p, size_t n)
{
    assert(h->length <= n && h->length <= LIMIT);
    assert(memcmp(p + h->length - 4, "\r\n\r\n", 4) == 0);
    check_span(h->method, h);
    check_span(h->target, h);
    assert(http_is_token((const char *)p + h->method.at, h->method.len));
    assert(h->target.len != 0);
    uint32_t lengths = 0, codings = 0, hosts = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        check_span(f->name, h);
        check_span(f->value, h);
        assert(http_is_token((const char *)p + f->name.at, f->name.len));
        for (uint32_t k = 0; k < f->value.len; k++) {
            uint8_t c = p[f->value.at + k];
            assert(c == '\t' || (c >= 0x20 && c != 0x7F));
        }
        lengths += f->id == FIELD_CONTENT_LENGTH;
        codings += f->id == FIELD_TRANSFER_ENCODING;
        hosts += f->id == FIELD_HOST;
    }
    assert(hosts == h->host_count);
    assert(lengths <= 1 && (lengths == 0 || codings == 0));
    bool connect = head_method_is(h, p, "CONNECT");
    assert(connect || codings <= 1);
    assert(h->framing == (connect        ? BODY_NONE
                          : codings != 0 ? BODY_CHUNKED
                          : lengths != 0 ? BODY_LENGTH
                                         : BODY_NONE));
    assert(h->content_length <= INT64_MAX);
    assert(!(h->expect_continue && h->expect_other));
}

/* Feeds p in pieces of `step` bytes until there is an answer; *used is what it took. */
static enum head_result feed(struct head *h, const uint8_t *p, size_t n, size_t step)
{
    size_t scanned = 0;
    for (size_t have = step < n ? step : n;; have = n - have < step ? n : have + step) {
        uint8_t *copy = malloc(have != 0 ? have : 1);
        assert(copy != NULL);
        memcpy(copy, p, have);
        enum head_result result = head_parse_request(h, copy, have, &scanned, LIMIT);
        free(copy);
        if (result != HEAD_MORE || have == n)
            return result;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head whole, pieces;
    if (size == 0)
        return 0;
    head_init(&whole);
    head_init(&pieces);
    enum head_result result = feed(&whole, data, size, size);
    assert(result == feed(&pieces, data, size, 1));
    assert(result == feed(&pieces, data, size, 7));
    if (result == HEAD_OK || result == HEAD_NO_HOST) {
        check_head(&whole, data, size);
        assert(whole.count == pieces.count && whole.length == pieces.length);
        assert(whole.count == 0 ||
               memcmp(whole.fields, pieces.fields, whole.count * sizeof *whole.fields) == 0);
        assert((result == HEAD_NO_HOST) == (whole.minor == 1 && whole.host_count == 0 &&
                                            !head_method_is(&whole, data, "CONNECT")));
    }
    if (result == HEAD_MORE)
        assert(size < LIMIT);
    if (result == HEAD_TOO_LARGE)
        assert(size >= LIMIT);
    head_free(&whole);
    head_free(&pieces);
    return 0;
}
