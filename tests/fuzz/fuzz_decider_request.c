/*
 * A client's request as a decider is asked about it. Lines of the input are its method, host,
 * server name and target, then its header fields. What is written is read by the decider's side
 * with the same fields; what is refused has a reason to be.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/frame.h"
#include "decider/message.h"
#include "decider/peer_message.h"
#include "decider/strict_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FIELDS_MAX = 256 };

struct span {
    const char *s;
    size_t n;
};

/* The next line of what is left. */
static struct span line(struct span *left)
{
    const char *end = left->n != 0 ? memchr(left->s, '\n', left->n) : NULL;
    struct span taken = {left->s, end != NULL ? (size_t)(end - left->s) : left->n};
    size_t skip = taken.n + (end != NULL);
    left->s += skip;
    left->n -= skip;
    return taken;
}

static bool is_token(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c <= 0x20 || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
            return false;
    }
    return n != 0;
}

static bool is_host(const struct decider_field *f)
{
    return text_equal_fold(f->name, f->name_len, "host", 4);
}

/* As the contract says it, not as it is done: no frame here comes near the largest. */
static bool is_askable(const struct decider_request *r)
{
    size_t hosts = 0, values = 0;
    const char *mark = memchr(r->target, '?', r->target_len);
    size_t path = mark != NULL ? (size_t)(mark - r->target) : r->target_len;
    for (size_t i = 0; i < r->field_count; i++) {
        const struct decider_field *f = &r->fields[i];
        if (!is_token(f->name, f->name_len) || !strict_text_valid(f->value, f->value_len))
            return false;
        hosts += is_host(f);
        values += !is_host(f);
        if (is_host(f) && f->value_len > NAME_BYTES_MAX)
            return false;
    }
    return hosts <= 1 && values <= HEADER_VALUES_MAX && r->method_len != 0 && path != 0 &&
           path <= NAME_BYTES_MAX && r->host[0] != 0 && strlen(r->host) <= NAME_BYTES_MAX &&
           strlen(r->server_name) <= NAME_BYTES_MAX && r->port != 0 &&
           strict_text_valid(r->method, r->method_len) &&
           strict_text_valid(r->target, r->target_len) &&
           strict_text_valid(r->host, strlen(r->host)) &&
           strict_text_valid(r->server_name, strlen(r->server_name));
}

static bool equals(const char *got, const char *want, size_t n)
{
    return n == 0 ? got == NULL : got != NULL && strlen(got) == n && memcmp(got, want, n) == 0;
}

/* Each field is the next value of its name, and no name has more. */
static void check_headers(const struct peer_message *m, const struct decider_request *r)
{
    size_t next[FIELDS_MAX] = {0};
    size_t total = 0, found = 0;
    for (size_t i = 0; i < r->field_count; i++) {
        const struct decider_field *f = &r->fields[i];
        if (is_host(f)) {
            assert(equals(m->host_header, f->value, f->value_len));
            continue;
        }
        char *name = mem_dup_n(f->name, f->name_len);
        for (size_t j = 0; j < f->name_len; j++)
            name[j] = (char)text_lower((unsigned char)name[j]);
        for (size_t j = 0; j < i; j++)
            next[i] += text_equal_fold(r->fields[j].name, r->fields[j].name_len, name, f->name_len);
        const json_t *value = json_array_get(json_object_get(m->headers, name), next[i]);
        assert(json_string_length(value) == f->value_len);
        assert(f->value_len == 0 || memcmp(json_string_value(value), f->value, f->value_len) == 0);
        free(name);
        found++;
    }
    json_t *headers = (json_t *)(uintptr_t)m->headers;
    for (void *i = json_object_iter(headers); i != NULL; i = json_object_iter_next(headers, i))
        total += json_array_size(json_object_iter_value(i));
    assert(total == found && (m->headers == NULL) == (found == 0));
}

static void check_written(const struct buf *out, const struct decider_request *r, int64_t id)
{
    struct peer_message m;
    const char *why = NULL;
    size_t length = 0;
    assert(frame_next(buf_data(out), buf_len(out), FRAME_MAX, &length) == FRAME_OK);
    assert(buf_len(out) == FRAME_HEAD + length);
    assert(peer_message_read(&m, buf_data(out) + FRAME_HEAD, length, &why));
    const char *mark = memchr(r->target, '?', r->target_len);
    size_t path = mark != NULL ? (size_t)(mark - r->target) : r->target_len;
    assert(m.kind == PEER_REQUEST && m.id == id && m.port == r->port);
    assert(equals(m.method, r->method, r->method_len));
    assert(strcmp(m.host, r->host) == 0);
    assert(equals(m.server_name, r->server_name, strlen(r->server_name)));
    assert(equals(m.path, r->target, path));
    assert(
        equals(m.query, mark != NULL ? mark + 1 : "", mark != NULL ? r->target_len - path - 1 : 0));
    check_headers(&m, r);
    peer_message_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > 16384)
        return 0;
    struct decider_field fields[FIELDS_MAX];
    struct decider_request r = {.port = (uint16_t)(data[0] << 8 | data[1]), .fields = fields};
    int64_t id = data[2] == 'x' ? MESSAGE_ID_MAX : data[2] + 1;
    struct span left = {(const char *)data + 3, size - 3};
    struct span method = line(&left), host = line(&left), name = line(&left), target = line(&left);
    char *host_text = mem_dup_n(host.s, host.n);
    char *name_text = mem_dup_n(name.s, name.n);
    r.method = method.s;
    r.method_len = method.n;
    r.host = host_text;
    r.server_name = name_text;
    r.target = target.s;
    r.target_len = target.n;
    while (left.n != 0 && r.field_count < FIELDS_MAX) {
        struct span field = line(&left);
        const char *colon = field.n != 0 ? memchr(field.s, ':', field.n) : NULL;
        size_t n = colon != NULL ? (size_t)(colon - field.s) : field.n;
        fields[r.field_count++] = (struct decider_field){field.s, n, field.s + n + (colon != NULL),
                                                         field.n - n - (colon != NULL)};
    }
    struct buf out;
    buf_init(&out, 4 * FRAME_MAX);
    const char *refused = request_write(&out, id, &r);
    assert((refused == NULL) == is_askable(&r));
    if (refused != NULL)
        assert(refused[0] != 0 && buf_len(&out) == 0);
    else
        check_written(&out, &r, id);
    buf_free(&out);
    free(host_text);
    free(name_text);
    return 0;
}
