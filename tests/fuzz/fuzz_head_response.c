/* A response head: whole and in pieces the same answer; what is accepted is well formed. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/http/head.h"

enum { LIMIT = 2048 };

static enum head_result feed(struct head *h, const uint8_t *p, size_t n, size_t step)
{
    size_t scanned = 0;
    for (size_t have = step < n ? step : n;; have = n - have < step ? n : have + step) {
        uint8_t *copy = malloc(have != 0 ? have : 1);
        assert(copy != NULL);
        memcpy(copy, p, have);
        enum head_result result = head_parse_response(h, copy, have, &scanned, LIMIT);
        free(copy);
        if (result != HEAD_MORE || have == n)
            return result;
    }
}

static void check_head(const struct head *h, const uint8_t *p, size_t n)
{
    assert(h->length <= n && memcmp(p + h->length - 4, "\r\n\r\n", 4) == 0);
    assert(h->status >= 100 && h->status <= 999 && h->minor <= 1);
    assert(h->reason.at + h->reason.len < h->length);
    for (uint32_t k = 0; k < h->reason.len; k++)
        assert(p[h->reason.at + k] == '\t' || p[h->reason.at + k] >= 0x20);
    size_t len;
    const char *length = head_find(h, p, "content-length", 0, &len);
    const char *coding = head_find(h, p, "transfer-encoding", 0, &len);
    assert(head_find(h, p, "content-length", 1, &len) == NULL);
    assert(head_find(h, p, "transfer-encoding", 1, &len) == NULL);
    assert(length == NULL || coding == NULL);
    assert(h->framing == (coding != NULL   ? BODY_CHUNKED
                          : length != NULL ? BODY_LENGTH
                                           : BODY_CLOSE));
    assert(h->content_length <= INT64_MAX);
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
    assert(result != HEAD_NO_HOST);
    assert(result == feed(&pieces, data, size, 1));
    assert(result == feed(&pieces, data, size, 5));
    if (result == HEAD_OK) {
        check_head(&whole, data, size);
        assert(whole.count == pieces.count && whole.length == pieces.length);
    }
    head_free(&whole);
    head_free(&pieces);
    return 0;
}
