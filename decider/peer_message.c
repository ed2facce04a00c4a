#include "decider/peer_message.h"

#include <string.h>

#include "decider/frame.h"
#include "decider/message.h"
#include "decider/message_fields.h"
#include "decider/strict_json.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool read_hello(struct peer_message *m)
{
    json_t *t, *proto;
    const struct message_field fields[] = {{"t", &t}, {"proto", &proto}};
    int64_t number = 0;
    if (!message_fields(m->json, fields, COUNT(fields)) ||
        !strict_json_integer(proto, 1, 2, &number))
        return false;
    m->kind = PEER_HELLO;
    m->proto = (unsigned)number;
    return true;
}

static bool read_id(struct peer_message *m, const json_t *id)
{
    return strict_json_integer(id, 1, MESSAGE_ID_MAX, &m->id);
}

static bool read_host(struct peer_message *m, const json_t *host, const json_t *port)
{
    int64_t number = 0;
    if (!message_string(host, NAME_BYTES_MAX, &m->host) ||
        !strict_json_integer(port, 1, UINT16_MAX, &number))
        return false;
    m->port = (uint16_t)number;
    return true;
}

static bool read_request(struct peer_message *m)
{
    json_t *t, *id, *method, *host, *port, *host_header, *sni, *path, *query, *headers;
    const struct message_field fields[] = {
        {"t", &t},           {"id", &id},
        {"method", &method}, {"host", &host},
        {"port", &port},     {"hostHeader", &host_header},
        {"sni", &sni},       {"path", &path},
        {"query", &query},   {"headers", &headers},
    };
    size_t values = 0;
    m->kind = PEER_REQUEST;
    if (!message_fields(m->json, fields, COUNT(fields)) || !read_id(m, id) ||
        !message_string(method, FRAME_MAX, &m->method) || !read_host(m, host, port) ||
        !message_optional_string(host_header, NAME_BYTES_MAX, &m->host_header) ||
        !message_optional_string(sni, NAME_BYTES_MAX, &m->server_name) ||
        !message_string(path, NAME_BYTES_MAX, &m->path) || strchr(m->path, '?') != NULL ||
        !message_optional_string(query, FRAME_MAX, &m->query))
        return false;
    m->headers = headers;
    if (m->host_header != NULL && !strict_text_valid(m->host_header, strlen(m->host_header)))
        return false;
    return headers == NULL ||
           (message_headers(headers, &values) && json_object_get(headers, "host") == NULL);
}

static bool read_connection(struct peer_message *m)
{
    json_t *t, *id, *via, *host, *port, *client, *user;
    const struct message_field fields[] = {
        {"t", &t},       {"id", &id},         {"via", &via},   {"host", &host},
        {"port", &port}, {"client", &client}, {"user", &user},
    };
    m->kind = PEER_CONNECTION;
    return message_fields(m->json, fields, COUNT(fields)) && read_id(m, id) &&
           (message_says(via, "connect") || message_says(via, "socks") ||
            message_says(via, "http")) &&
           message_string(via, SIZE_MAX, &m->via) && read_host(m, host, port) &&
           message_string(client, NAME_BYTES_MAX, &m->client) &&
           message_optional_string(user, NAME_BYTES_MAX, &m->user);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* RFC 4648 section 4, with its padding, and without stray bits in the last digit. */
static bool is_base64(const char *s, size_t n)
{
    if (n % 4 != 0)
        return false;
    size_t padding = 0;
    while (padding < 2 && padding < n && s[n - 1 - padding] == '=')
        padding++;
    int digit = 0;
    for (size_t i = 0; i < n - padding; i++) {
        digit = base64_digit(s[i]);
        if (digit < 0)
            return false;
    }
    return padding == 0 || (digit & (padding == 2 ? 0xf : 0x3)) == 0;
}

static bool read_body(struct peer_message *m)
{
    json_t *t, *id, *data, *cut;
    const struct message_field fields[] = {{"t", &t}, {"id", &id}, {"data", &data}, {"cut", &cut}};
    m->kind = PEER_BODY;
    if (!message_fields(m->json, fields, COUNT(fields)) || !read_id(m, id) ||
        !json_is_string(data) || (cut != NULL && !json_is_true(cut)) ||
        !is_base64(json_string_value(data), json_string_length(data)))
        return false;
    m->data = json_string_value(data);
    m->cut = cut != NULL;
    return json_string_length(data) <= body_base64_size(DECIDER_BODY_MAX);
}

bool peer_message_read(struct peer_message *m, const uint8_t *p, size_t n, const char **why)
{
    *m = (struct peer_message){.json = strict_json_read(p, n, why)};
    if (m->json == NULL)
        return false;
    const json_t *t = json_object_get(m->json, "t");
    bool well = false;
    if (message_says(t, "hello"))
        well = read_hello(m);
    else if (message_says(t, "req"))
        well = read_request(m);
    else if (message_says(t, "conn"))
        well = read_connection(m);
    else if (message_says(t, "body"))
        well = read_body(m);
    if (well)
        return true;
    peer_message_free(m);
    *why = "bad frame from the proxy";
    return false;
}

void peer_message_free(struct peer_message *m)
{
    json_decref(m->json);
    *m = (struct peer_message){0};
}

static void put_text(struct buf *out, const char *before, const char *text)
{
    buf_puts(out, before);
    strict_json_put_string(out, text, strlen(text));
}

static void put_list(struct buf *out, const char *before, const char *const *items, size_t count)
{
    buf_puts(out, before);
    for (size_t i = 0; i < count; i++)
        put_text(out, i == 0 ? "[" : ",", items[i]);
    buf_puts(out, count == 0 ? "[]" : "]");
}

void peer_hello_write(struct buf *out, unsigned proto, unsigned asks, const char *const *allowed,
                      size_t allowed_count, const char *const *denied, size_t denied_count)
{
    size_t begun = frame_begin(out);
    buf_printf(out, "{\"t\":\"hello\",\"proto\":%u", proto);
    if (proto >= 2) {
        const char *items[2];
        size_t count = 0;
        if ((asks & DECIDER_CONNECTIONS) != 0)
            items[count++] = "connection";
        if ((asks & DECIDER_REQUESTS) != 0)
            items[count++] = "request";
        put_list(out, ",\"asks\":", items, count);
    }
    put_list(out, ",\"allowedDomains\":", allowed, allowed_count);
    put_list(out, ",\"deniedDomains\":", denied, denied_count);
    buf_puts(out, "}");
    frame_end(out, begun);
}

static void put_allow(struct buf *out, const struct decider_verdict *v)
{
    buf_puts(out, "\"allow\"");
    for (size_t i = 0; i < v->set_count; i++) {
        put_text(out, i == 0 ? ",\"setHeaders\":{" : ",", v->set[i].name);
        put_list(out, ":", v->set[i].values, v->set[i].value_count);
    }
    if (v->set_count != 0)
        buf_puts(out, "}");
    if (v->removed_count != 0)
        put_list(out, ",\"removeHeaders\":", v->removed, v->removed_count);
    if (v->credential != NULL) {
        put_text(out, ",\"cred\":", v->credential_class);
        put_text(out, ",\"credential\":", v->credential);
    }
    if (v->ttl_s != 0)
        buf_printf(out, ",\"ttl\":%u", v->ttl_s < TTL_MAX ? v->ttl_s : TTL_MAX);
}

void peer_verdict_write(struct buf *out, int64_t id, const struct decider_verdict *v)
{
    size_t begun = frame_begin(out);
    buf_printf(out, "{\"t\":\"verdict\",\"id\":%lld,\"action\":", (long long)id);
    switch (v->action) {
    case DECIDER_ALLOW:
        put_allow(out, v);
        break;
    case DECIDER_DENY:
        buf_printf(out, "\"deny\",\"status\":%u", v->status);
        if (v->reason != NULL)
            put_text(out, ",\"reason\":", v->reason);
        break;
    case DECIDER_NEED_BODY:
        buf_printf(out, "\"need_body\",\"max\":%u", v->max);
        break;
    case DECIDER_UNAVAILABLE: /* has no word of its own */
        buf_puts(out, "\"deny\",\"status\":503");
        break;
    }
    buf_puts(out, "}");
    frame_end(out, begun);
}
