/*
 * Messages as a decider reads them. What was read is within its bounds and read again when it is
 * written; a request and a connection that the proxy would write are the same afterwards.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/peer_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_same(const struct peer_message *a, const struct peer_message *b)
{
    assert(a->kind == b->kind && a->proto == b->proto && a->id == b->id && a->port == b->port &&
           a->cut == b->cut);
    assert(same(a->method, b->method) && same(a->host, b->host) &&
           same(a->host_header, b->host_header) && same(a->server_name, b->server_name) &&
           same(a->path, b->path) && same(a->query, b->query) && same(a->via, b->via) &&
           same(a->client, b->client) && same(a->user, b->user) && same(a->data, b->data));
}

static void check_bounds(const struct peer_message *m)
{
    assert(m->kind == PEER_HELLO ? m->proto == 1 || m->proto == 2
                                 : m->id >= 1 && m->id <= MESSAGE_ID_MAX);
    if (m->kind == PEER_REQUEST || m->kind == PEER_CONNECTION)
        assert(m->port != 0 && m->host[0] != 0 && strlen(m->host) <= NAME_BYTES_MAX);
    if (m->kind == PEER_REQUEST)
        assert(m->method[0] != 0 && m->path[0] != 0 && strchr(m->path, '?') == NULL);
    if (m->kind == PEER_CONNECTION)
        assert(m->client[0] != 0 && m->via[0] != 0);
    if (m->kind == PEER_BODY) {
        struct buf bytes, again;
        size_t n = strlen(m->data);
        buf_init(&bytes, n);
        buf_init(&again, n);
        assert(text_base64_decode(&bytes, m->data, n));
        text_base64(&again, buf_data(&bytes), buf_len(&bytes));
        assert(buf_len(&again) == n && (n == 0 || memcmp(buf_data(&again), m->data, n) == 0));
        buf_free(&bytes);
        buf_free(&again);
    }
}

static size_t collect(const struct peer_message *m, struct decider_field *fields)
{
    json_t *headers = (json_t *)(uintptr_t)m->headers;
    size_t count = 0;
    if (m->host_header != NULL)
        fields[count++] = (struct decider_field){"Host", 4, m->host_header, strlen(m->host_header)};
    for (void *i = json_object_iter(headers); i != NULL; i = json_object_iter_next(headers, i)) {
        const json_t *list = json_object_iter_value(i);
        const char *name = json_object_iter_key(i);
        for (size_t j = 0; j < json_array_size(list); j++) {
            const json_t *value = json_array_get(list, j);
            fields[count++] = (struct decider_field){name, strlen(name), json_string_value(value),
                                                     json_string_length(value)};
        }
    }
    return count;
}

/* Writes it as the proxy does; control characters in names and paths it would have refused. */
static bool write_again(struct buf *out, const struct peer_message *m)
{
    if (m->kind == PEER_CONNECTION) {
        const struct decider_connection c = {.via = m->via,
                                             .host = m->host,
                                             .port = m->port,
                                             .client = m->client,
                                             .user = m->user,
                                             .user_len = m->user != NULL ? strlen(m->user) : 0};
        return connection_write(out, m->id, &c) == NULL;
    }
    struct decider_field fields[HEADER_VALUES_MAX + 1];
    struct buf target;
    buf_init(&target, 2 * FRAME_MAX);
    buf_puts(&target, m->path);
    if (m->query != NULL)
        buf_printf(&target, "?%s", m->query);
    const struct decider_request r = {.method = m->method,
                                      .method_len = strlen(m->method),
                                      .host = m->host,
                                      .port = m->port,
                                      .server_name = m->server_name,
                                      .target = buf_chars(&target),
                                      .target_len = buf_len(&target),
                                      .fields = fields,
                                      .field_count = collect(m, fields)};
    bool well = request_write(out, m->id, &r) == NULL;
    buf_free(&target);
    return well;
}

static bool has_values(const struct peer_message *m)
{
    json_t *headers = (json_t *)(uintptr_t)m->headers;
    for (void *i = json_object_iter(headers); i != NULL; i = json_object_iter_next(headers, i))
        if (json_array_size(json_object_iter_value(i)) == 0)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer_message m, again;
    const char *why = NULL;
    if (size == 0)
        return 0;
    if (!peer_message_read(&m, data, size, &why)) {
        assert(why != NULL && m.json == NULL);
        return 0;
    }
    check_bounds(&m);
    char *text = json_dumps(m.json, JSON_COMPACT);
    assert(peer_message_read(&again, (const uint8_t *)text, strlen(text), &why));
    check_same(&m, &again);
    peer_message_free(&again);
    free(text);
    if (m.kind == PEER_REQUEST || m.kind == PEER_CONNECTION) {
        struct buf out;
        buf_init(&out, 4 * FRAME_MAX);
        if (write_again(&out, &m)) {
            assert(peer_message_read(&again, buf_data(&out) + FRAME_HEAD,
                                     buf_len(&out) - FRAME_HEAD, &why));
            if (again.user == NULL) /* may be no text */
                again.user = m.user;
            check_same(&m, &again);
            assert(!has_values(&m) || json_equal(m.headers, again.headers) ||
                   m.headers == again.headers);
            peer_message_free(&again);
        }
        buf_free(&out);
    }
    peer_message_free(&m);
    return 0;
}
