/*
 * A stream from a decider: frames, and each as JSON, a hello and a verdict of both protocols. The
 * reader of JSON takes what jansson takes, but for NULs, nulls and depth; what a reader took is
 * within its bounds, and read again when it is written.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decider/entry.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/peer_message.h"
#include "decider/strict_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 32 };

static unsigned depth_of(json_t *value, bool *null)
{
    unsigned most = 0;
    if (json_is_null(value))
        *null = true;
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        unsigned depth = depth_of(json_array_get(value, i), null);
        most = depth > most ? depth : most;
    }
    if (json_is_object(value)) {
        for (void *i = json_object_iter(value); i != NULL; i = json_object_iter_next(value, i)) {
            unsigned depth = depth_of(json_object_iter_value(i), null);
            most = depth > most ? depth : most;
        }
    }
    return json_is_array(value) || json_is_object(value) ? most + 1 : 0;
}

static void check_json(const uint8_t *p, size_t n)
{
    const char *why = NULL;
    json_t *strict = strict_json_read(p, n, &why);
    json_t *other = json_loadb((const char *)p, n, JSON_REJECT_DUPLICATES, NULL);
    bool null = false;
    bool well = json_is_object(other) && depth_of(other, &null) <= DEPTH && !null &&
                memchr(p, 0, n) == NULL;
    assert((strict != NULL) == well);
    assert((strict == NULL) == (why != NULL));
    assert(strict == NULL || json_equal(strict, other));
    json_decref(strict);
    json_decref(other);
}

static void check_entries(const char *const *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(egress_entry_valid(entries[i], strlen(entries[i])));
        assert(i == 0 || strcmp(entries[i], entries[i - 1]) != 0);
    }
}

static void check_hello(unsigned proto, const uint8_t *p, size_t n)
{
    struct hello h, again;
    struct buf out;
    const char *why = NULL;
    if (!hello_read(&h, proto, p, n, &why)) {
        assert(why != NULL && h.json == NULL);
        return;
    }
    check_entries(h.allowed, h.allowed_count);
    check_entries(h.denied, h.denied_count);
    assert(h.asks != 0 && h.asks <= (DECIDER_CONNECTIONS | DECIDER_REQUESTS));
    buf_init(&out, 2 * n + 200);
    peer_hello_write(&out, proto, h.asks, h.allowed, h.allowed_count, h.denied, h.denied_count);
    assert(
        hello_read(&again, proto, buf_data(&out) + FRAME_HEAD, buf_len(&out) - FRAME_HEAD, &why));
    assert(again.asks == h.asks && again.allowed_count == h.allowed_count &&
           again.denied_count == h.denied_count);
    hello_free(&again);
    hello_free(&h);
    buf_free(&out);
}

static void check_bounds(const struct decider_verdict *v, unsigned proto)
{
    size_t entries = 0;
    assert(v->ttl_s <= (proto == 1 ? 0 : TTL_MAX));
    assert((v->credential == NULL) == (v->credential_class == NULL));
    assert(v->credential == NULL ||
           (strlen(v->credential) >= 1 && strlen(v->credential) <= CREDENTIAL_MAX));
    for (size_t i = 0; i < v->set_count; i++) {
        assert(header_may_be_set(v->set[i].name));
        entries += v->set[i].value_count != 0 ? v->set[i].value_count : 1;
        for (size_t j = 0; j < v->set[i].value_count; j++)
            assert(strict_text_valid(v->set[i].values[j], strlen(v->set[i].values[j])));
    }
    assert(entries <= HEADER_VALUES_MAX && v->removed_count <= REMOVED_NAMES_MAX);
    for (size_t i = 0; i < v->removed_count; i++)
        assert(header_may_be_removed(v->removed[i]));
    switch (v->action) {
    case DECIDER_ALLOW:
        assert(v->status == 0 && v->reason == NULL && v->max == 0);
        break;
    case DECIDER_DENY:
        assert(v->status >= 400 && v->status <= 599 && v->max == 0);
        assert(v->reason == NULL || (v->reason[0] != 0 && strlen(v->reason) <= REASON_BYTES_MAX &&
                                     strict_text_valid(v->reason, strlen(v->reason))));
        break;
    case DECIDER_NEED_BODY:
        assert(v->max >= 1 && v->max <= DECIDER_BODY_MAX);
        break;
    case DECIDER_UNAVAILABLE:
        abort();
    }
}

/* Whether the verdict was taken. */
static bool check_verdict(unsigned proto, const uint8_t *p, size_t n)
{
    struct verdict_message m, again;
    struct buf out, once_more;
    const char *why = NULL;
    if (!verdict_read(&m, proto, p, n, &why)) {
        assert(why != NULL && m.json == NULL && m.set == NULL && m.removed == NULL);
        return false;
    }
    assert(m.id >= 1 && m.id <= MESSAGE_ID_MAX);
    check_bounds(&m.verdict, proto);
    buf_init(&out, 6 * n + 200);
    buf_init(&once_more, 6 * n + 200);
    peer_verdict_write(&out, m.id, &m.verdict);
    assert(
        verdict_read(&again, proto, buf_data(&out) + FRAME_HEAD, buf_len(&out) - FRAME_HEAD, &why));
    peer_verdict_write(&once_more, again.id, &again.verdict);
    assert(buf_len(&out) == buf_len(&once_more) &&
           memcmp(buf_data(&out), buf_data(&once_more), buf_len(&out)) == 0);
    verdict_free(&again);
    verdict_free(&m);
    buf_free(&out);
    buf_free(&once_more);
    return true;
}

static void check_payload(const uint8_t *p, size_t n)
{
    check_json(p, n);
    check_hello(1, p, n);
    check_hello(2, p, n);
    bool first = check_verdict(1, p, n);
    bool second = check_verdict(2, p, n);
    assert(!first || second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t length;
    /* The payload alone as well: lengths are hard to guess. */
    if (size != 0)
        check_payload(data, size);
    while (frame_next(data, size, FRAME_MAX, &length) == FRAME_OK) {
        assert(length + FRAME_HEAD <= size);
        if (length != 0)
            check_payload(data + FRAME_HEAD, length);
        data += FRAME_HEAD + length;
        size -= FRAME_HEAD + length;
    }
    return 0;
}
