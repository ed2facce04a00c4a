#include "proxy/http/headers.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/http/connection_names.h"
#include "proxy/http/field.h"

/* More than all that is written besides copies of what came in: the version, "Host: ",
 * "Proxy-Authorization: ", a framing field, Date, Connection, Keep-Alive, a space a field. */
enum { FIXED_TEXT_MAX = 256 };

/* Writes without a check at each step: the whole is reserved for its upper bound at first. */
struct writer {
    struct buf *out;
    uint8_t *begin, *at;
    bool scratch; /* the bound does not fit, what is written may */
};

static void writer_open(struct writer *w, struct buf *out, size_t bound)
{
    w->out = out;
    w->begin = buf_reserve(out, bound);
    w->scratch = w->begin == NULL;
    if (w->scratch)
        w->begin = mem_alloc(bound);
    w->at = w->begin;
}

static bool writer_close(struct writer *w)
{
    size_t n = (size_t)(w->at - w->begin);
    if (!w->scratch) {
        buf_commit(w->out, n);
        return true;
    }
    bool ok = buf_append(w->out, w->begin, n);
    explicit_bzero(w->begin, n);
    free(w->begin);
    return ok;
}

static void put(struct writer *w, const void *p, size_t n)
{
    memcpy(w->at, p, n);
    w->at += n;
}

#define PUT(w, literal) put((w), (literal), sizeof(literal) - 1)

static void put_number(struct writer *w, uint64_t value)
{
    char digits[20];
    size_t n = 0;
    do {
        digits[sizeof digits - ++n] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(w, digits + sizeof digits - n, n);
}

static void put_name(struct writer *w, const uint8_t *p, const struct field *f)
{
    put(w, p + f->name.at, f->name.len);
    PUT(w, ": ");
}

static void put_field(struct writer *w, const uint8_t *p, const struct field *f)
{
    put_name(w, p, f);
    put(w, p + f->value.at, f->value.len);
    PUT(w, "\r\n");
}

/* `name: value` with a name of ours. */
static void put_line(struct writer *w, const char *name, const void *value, size_t n)
{
    put(w, name, strlen(name));
    PUT(w, ": ");
    put(w, value, n);
    PUT(w, "\r\n");
}

void fold_name(char *out, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (name[i] == '_' || name[i] == '.')
            out[i] = '-';
        else
            out[i] = (char)text_lower((uint8_t)name[i]);
}

static bool equal_folded(const uint8_t *name, size_t n, const char *folded)
{
    for (size_t i = 0; i < n; i++) {
        char c;
        fold_name(&c, (const char *)name + i, 1);
        if (c != folded[i]) /* also at the end of a shorter `folded` */
            return false;
    }
    return folded[n] == 0;
}

/* What a message loses on its way, whatever its direction. */
struct removal {
    struct connection_names named;
    const char *const *strip;
    bool folded_hop_by_hop;
    uint32_t once_seen; /* bit n: the once-only field n was written */
};

static void removal_init(struct removal *r, const struct head *h, const uint8_t *p, bool folded,
                         const char *const *strip)
{
    connection_names_init(&r->named, h, p, folded);
    r->strip = strip;
    r->folded_hop_by_hop = folded;
    r->once_seen = 0;
}

/* A spelling with '_' or '.' that servers may read as a hop-by-hop name. */
static bool is_folded_hop_by_hop(const struct removal *r, const uint8_t *name, size_t n)
{
    static const char authorization[] = "proxy-authorization";
    if (n > sizeof authorization - 1)
        return false;
    if (n == sizeof authorization - 1 && equal_folded(name, n, authorization))
        return true;
    if (!r->folded_hop_by_hop)
        return false;
    char folded[sizeof authorization];
    uint8_t once;
    fold_name(folded, (const char *)name, n);
    return field_id_is_hop_by_hop(field_identify((const uint8_t *)folded, n, &once));
}

/* True when f may not go on. Once-only fields are taken note of. */
static bool removes(struct removal *r, const uint8_t *p, const struct field *f)
{
    const uint8_t *name = p + f->name.at;
    if (field_id_is_hop_by_hop(f->id) || connection_names_have(&r->named, name, f->name.len))
        return true;
    if (f->id == FIELD_OTHER && is_folded_hop_by_hop(r, name, f->name.len))
        return true;
    for (const char *const *s = r->strip; s != NULL && *s != NULL; s++)
        if (equal_folded(name, f->name.len, *s))
            return true;
    if (f->id == FIELD_ONCE) {
        uint32_t bit = UINT32_C(1) << f->once;
        if ((r->once_seen & bit) != 0)
            return true;
        r->once_seen |= bit;
    }
    return false;
}

enum out_framing request_framing(const struct head *h, const uint8_t *p, uint64_t *length)
{
    static const char *const bodyless[] = {"GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT"};
    *length = 0;
    if (h->framing == BODY_CHUNKED || (h->framing == BODY_LENGTH && h->length_named))
        return OUT_CHUNKED;
    if (h->framing == BODY_LENGTH) {
        *length = h->content_length;
        return OUT_LENGTH;
    }
    for (size_t i = 0; i < sizeof bodyless / sizeof bodyless[0]; i++)
        if (head_method_is(h, p, bodyless[i]))
            return OUT_NONE;
    return OUT_LENGTH;
}

/* True for `protocol-name["/"version]`, both tokens. */
static bool is_protocol(const uint8_t *s, size_t n, size_t *name_len)
{
    const uint8_t *slash = memchr(s, '/', n);
    *name_len = slash != NULL ? (size_t)(slash - s) : n;
    return http_is_token((const char *)s, *name_len) &&
           (slash == NULL || http_is_token((const char *)slash + 1, n - *name_len - 1));
}

bool headers_may_upgrade(const struct head *h, const uint8_t *p)
{
    bool any = false;
    if (!h->connection_upgrade)
        return false;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (f->id != FIELD_UPGRADE)
            continue;
        const uint8_t *at = p + f->value.at, *end = at + f->value.len, *item;
        size_t len, name_len;
        while (list_next(&at, end, &item, &len)) {
            if (!is_protocol(item, len, &name_len) ||
                text_equal_fold((const char *)item, name_len, "h2c", 3))
                return false;
            any = true;
        }
    }
    return any;
}

/* The cookies of all lines after the first as one value. */
static void put_cookies(struct writer *w, const struct head *h, const uint8_t *p, uint32_t first)
{
    put_name(w, p, &h->fields[first]);
    for (uint32_t i = first; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (f->id != FIELD_COOKIE)
            continue;
        if (i != first)
            PUT(w, "; ");
        put(w, p + f->value.at, f->value.len);
    }
    PUT(w, "\r\n");
}

/* The framing field of a message: at the place and in the spelling of the one that came in. */
struct framing_out {
    enum out_framing framing;
    uint64_t length;
    bool written;
};

static void put_framing_value(struct writer *w, struct framing_out *out)
{
    if (out->framing == OUT_LENGTH)
        put_number(w, out->length);
    else
        PUT(w, "chunked");
    PUT(w, "\r\n");
    out->written = true;
}

/* Called for each Content-Length and Transfer-Encoding that came in. */
static void put_framing_at(struct writer *w, const uint8_t *p, const struct field *f,
                           struct framing_out *out)
{
    enum out_framing kind = f->id == FIELD_CONTENT_LENGTH ? OUT_LENGTH : OUT_CHUNKED;
    if (out->written || out->framing != kind)
        return;
    put_name(w, p, f);
    put_framing_value(w, out);
}

static void put_framing_at_end(struct writer *w, struct framing_out *out)
{
    if (out->written || (out->framing != OUT_LENGTH && out->framing != OUT_CHUNKED))
        return;
    if (out->framing == OUT_LENGTH)
        PUT(w, "Content-Length: ");
    else
        PUT(w, "Transfer-Encoding: ");
    put_framing_value(w, out);
}

/* Connection of a request: what this hop says to the next one. */
static void put_request_connection(struct writer *w, bool upgrade, bool close, bool te_trailers)
{
    if (te_trailers)
        PUT(w, "TE: trailers\r\n");
    /* A connection that may become a tunnel is not announced as ending after this answer. */
    if (upgrade)
        close = false;
    if (!upgrade && !close && !te_trailers)
        return;
    PUT(w, "Connection: ");
    if (upgrade)
        PUT(w, "upgrade");
    else if (close)
        PUT(w, "close");
    if (te_trailers) {
        if (upgrade || close)
            PUT(w, ", ");
        PUT(w, "TE");
    }
    PUT(w, "\r\n");
}

static bool edits_take(const struct edits *edits, const uint8_t *p, const struct field *f)
{
    return edits != NULL && edits_drop(edits, (const char *)p + f->name.at, f->name.len);
}

static void put_edits(struct writer *w, const struct edits *edits, size_t size)
{
    struct buf fields;
    if (size == 0)
        return;
    buf_init(&fields, size);
    edits_write(edits, &fields);
    put(w, buf_data(&fields), buf_len(&fields));
    buf_wipe(&fields);
}

/* The request's fields but for what put_request_connection() and the caller add. */
static void put_request_fields(struct writer *w, const struct head *h, const uint8_t *p,
                               const struct request_out *how, bool upgrade)
{
    struct removal removal;
    struct framing_out framing = {.framing = how->framing, .length = how->length};
    size_t host_len = strlen(how->host);
    bool host_written = h->host_count == 0, cookies_written = false;

    removal_init(&removal, h, p, how->folded_hop_by_hop, NULL);
    if (host_written)
        put_line(w, "Host", how->host, host_len);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (f->id == FIELD_HOST) {
            if (!host_written) {
                put_name(w, p, f);
                put(w, how->host, host_len);
                PUT(w, "\r\n");
            }
            host_written = true;
        } else if (f->id == FIELD_CONTENT_LENGTH || f->id == FIELD_TRANSFER_ENCODING) {
            put_framing_at(w, p, f, &framing);
        } else if (f->id == FIELD_UPGRADE && upgrade) {
            put_field(w, p, f);
        } else if (!edits_take(how->edits, p, f) && !removes(&removal, p, f)) {
            if (f->id != FIELD_COOKIE)
                put_field(w, p, f);
            else if (!cookies_written)
                put_cookies(w, h, p, i);
            cookies_written |= f->id == FIELD_COOKIE;
        }
    }
    put_framing_at_end(w, &framing);
    connection_names_free(&removal.named);
}

bool headers_write_request(struct buf *out, const struct head *h, const uint8_t *p,
                           const struct request_out *how)
{
    size_t authorization_len =
        how->proxy_authorization != NULL ? strlen(how->proxy_authorization) : 0;
    size_t edits_len = how->edits != NULL ? edits_size(how->edits) : 0;
    bool upgrade = how->upgrade && headers_may_upgrade(h, p);
    struct writer w;
    writer_open(&w, out,
                (size_t)h->length + h->count + how->target_len + strlen(how->host) +
                    authorization_len + edits_len + FIXED_TEXT_MAX);
    put(&w, p + h->method.at, h->method.len);
    PUT(&w, " ");
    put(&w, how->target, how->target_len);
    PUT(&w, " HTTP/1.1\r\n");
    put_request_fields(&w, h, p, how, upgrade);
    put_edits(&w, how->edits, edits_len);
    if (how->proxy_authorization != NULL)
        put_line(&w, "Proxy-Authorization", how->proxy_authorization, authorization_len);
    put_request_connection(&w, upgrade, how->close, how->te_trailers);
    PUT(&w, "\r\n");
    return writer_close(&w);
}

static void put_status_line(struct writer *w, const struct head *h, const uint8_t *p)
{
    PUT(w, "HTTP/1.1 ");
    put_number(w, h->status);
    PUT(w, " ");
    put(w, p + h->reason.at, h->reason.len);
    PUT(w, "\r\n");
}

/* The response's fields but for those about the connection. */
static void put_response_fields(struct writer *w, const struct head *h, const uint8_t *p,
                                const struct response_out *how)
{
    struct removal removal;
    struct framing_out framing = {.framing = how->framing, .length = how->length};
    bool date_written = false;

    removal_init(&removal, h, p, false, how->strip);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        bool framing_field = f->id == FIELD_CONTENT_LENGTH || f->id == FIELD_TRANSFER_ENCODING;
        if (framing_field && how->framing != OUT_KEEP) {
            put_framing_at(w, p, f, &framing);
        } else if (f->id == FIELD_UPGRADE && how->upgrade) {
            put_field(w, p, f);
        } else if (!removes(&removal, p, f)) {
            put_field(w, p, f);
            date_written |= f->id == FIELD_DATE;
        }
    }
    if (!date_written && how->date != NULL)
        put_line(w, "Date", how->date, strlen(how->date));
    put_framing_at_end(w, &framing);
    connection_names_free(&removal.named);
}

bool headers_write_response(struct buf *out, const struct head *h, const uint8_t *p,
                            const struct response_out *how)
{
    if (how->client_http10 && how->framing == OUT_CHUNKED)
        return false;
    struct writer w;
    writer_open(&w, out,
                (size_t)h->length + h->count + (how->date != NULL ? strlen(how->date) : 0) +
                    FIXED_TEXT_MAX);
    put_status_line(&w, h, p);
    put_response_fields(&w, h, p, how);
    if (how->upgrade) {
        PUT(&w, "Connection: upgrade\r\n");
    } else if (how->keep_alive && !how->client_http10) {
        PUT(&w, "Connection: keep-alive\r\nKeep-Alive: timeout=");
        put_number(&w, how->keep_alive_seconds);
        PUT(&w, "\r\n");
    } else {
        PUT(&w, "Connection: close\r\n");
    }
    PUT(&w, "\r\n");
    return writer_close(&w);
}

bool headers_write_interim(struct buf *out, const struct head *h, const uint8_t *p,
                           const char *const *strip)
{
    struct removal removal;
    struct writer w;
    removal_init(&removal, h, p, false, strip);
    writer_open(&w, out, (size_t)h->length + h->count + FIXED_TEXT_MAX);
    put_status_line(&w, h, p);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (f->id != FIELD_CONTENT_LENGTH && !removes(&removal, p, f))
            put_field(&w, p, f);
    }
    PUT(&w, "\r\n");
    connection_names_free(&removal.named);
    return writer_close(&w);
}

/* Fields that frame, route, authenticate or describe a message count in its head alone. */
static bool is_head_only(const struct field *f, const uint8_t *p)
{
    static const char *const names[] = {
        "authorization", "cache-control",    "content-encoding", "content-range",
        "content-type",  "www-authenticate", "max-forwards",     "range",
    };
    switch (f->id) {
    case FIELD_HOST:
    case FIELD_CONTENT_LENGTH:
    case FIELD_EXPECT:
    case FIELD_DATE:
    case FIELD_COOKIE:
    case FIELD_SET_COOKIE:
        return true;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (field_named(f, p, names[i], strlen(names[i])))
            return true;
    return false;
}

bool headers_write_trailers(struct buf *out, const struct head *h, const uint8_t *p,
                            const char *const *strip)
{
    struct removal removal;
    struct writer w;
    removal_init(&removal, h, p, false, strip);
    writer_open(&w, out, (size_t)h->length + h->count + FIXED_TEXT_MAX);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (!is_head_only(f, p) && !removes(&removal, p, f))
            put_field(&w, p, f);
    }
    PUT(&w, "\r\n");
    connection_names_free(&removal.named);
    return writer_close(&w);
}
