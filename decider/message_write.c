#include <assert.h>
#include <string.h>

#include "decider/frame.h"
#include "decider/header_names.h"
#include "decider/message.h"
#include "decider/strict_json.h"

static const char NOT_ASKABLE[] = "request the decider cannot be asked about";
static const char TOO_LARGE[] = "request too large for the decider";

/* One value of a header. The first one of its name leads a chain of the others, in order. */
struct entry {
    const struct decider_field *field;
    uint32_t hash;
    uint16_t next, last; /* indices; last: of the chain that this one leads */
    bool leads;
};
enum { NO_ENTRY = UINT16_MAX };

/* What goes into a frame; size counts its bytes, all but those of the id. */
struct request_parts {
    const struct decider_field *host; /* Host header, NULL: none, or an empty one */
    size_t host_count;
    const char *path, *query;
    size_t path_len, query_len;
    size_t entry_count;  /* may pass HEADER_VALUES_MAX: then only that many are there */
    size_t header_bytes; /* as HEADER_BYTES_MAX counts */
    size_t size;
    struct entry entries[HEADER_VALUES_MAX];
};

static char *put(char *to, const char *s, size_t n)
{
    memcpy(to, s, n);
    return to + n;
}
#define PUT(to, literal) put(to, literal, sizeof(literal) - 1)

static size_t decimal_size(uint64_t value)
{
    size_t digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

static char *put_decimal(char *to, uint64_t value)
{
    size_t digits = decimal_size(value);
    for (size_t i = digits; i-- > 0; value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + digits;
}

/* Hash of the lower-cased name (FNV-1a); false when it is no token. */
static bool hash_name(const char *name, size_t n, uint32_t *hash)
{
    uint32_t h = 2166136261U;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = header_name_lower[(unsigned char)name[i]];
        if (c == 0)
            return false;
        h = (h ^ c) * 16777619U;
    }
    *hash = h;
    return n != 0;
}

static bool same_name(const struct decider_field *a, const struct decider_field *b)
{
    if (a->name_len != b->name_len)
        return false;
    for (size_t i = 0; i < a->name_len; i++)
        if (header_name_lower[(unsigned char)a->name[i]] !=
            header_name_lower[(unsigned char)b->name[i]])
            return false;
    return true;
}

static bool is_host(const struct decider_field *f)
{
    return f->name_len == 4 && (f->name[0] | 0x20) == 'h' && (f->name[1] | 0x20) == 'o' &&
           (f->name[2] | 0x20) == 's' && (f->name[3] | 0x20) == 't';
}

/* Puts entry `i` behind the others of its name. */
static void chain_entry(struct request_parts *r, size_t i)
{
    struct entry *e = &r->entries[i];
    for (size_t j = 0; j < i; j++) {
        struct entry *first = &r->entries[j];
        if (first->hash == e->hash && first->leads && same_name(first->field, e->field)) {
            r->entries[first->last].next = (uint16_t)i;
            first->last = (uint16_t)i;
            return;
        }
    }
    e->leads = true;
    e->last = (uint16_t)i;
    r->header_bytes += e->field->name_len;
    r->size += e->field->name_len + sizeof("\"\":[],") - 2; /* the first value has no comma */
}

/* Takes a checked field that is not Host. */
static void add_entry(struct request_parts *r, const struct decider_field *f, uint32_t hash)
{
    size_t i = r->entry_count++;
    if (i >= HEADER_VALUES_MAX)
        return;
    r->entries[i] = (struct entry){.field = f, .hash = hash, .next = NO_ENTRY};
    r->header_bytes += f->value_len;
    r->size++; /* the comma before it, or before its name */
    chain_entry(r, i);
}

static const char *take_fields(struct request_parts *r, const struct decider_request *q)
{
    for (size_t i = 0; i < q->field_count; i++) {
        const struct decider_field *f = &q->fields[i];
        uint32_t hash = 0;
        size_t size = 0;
        if (!hash_name(f->name, f->name_len, &hash) ||
            !strict_text_measure(f->value, f->value_len, &size))
            return "request header the decider cannot be asked about";
        if (is_host(f)) {
            r->host_count++;
            r->host = f->value_len != 0 ? f : NULL;
            if (r->host != NULL)
                r->size += sizeof(",\"hostHeader\":") - 1 + size;
        } else {
            r->size += size;
            add_entry(r, f, hash);
        }
    }
    if (r->host_count > 1)
        return "more than one Host header";
    if (r->entry_count > HEADER_VALUES_MAX || r->header_bytes > HEADER_BYTES_MAX)
        return "request headers too large";
    return NULL;
}

static void split_target(struct request_parts *r, const struct decider_request *q)
{
    const char *mark = q->target_len != 0 ? memchr(q->target, '?', q->target_len) : NULL;
    r->path = q->target;
    r->path_len = mark != NULL ? (size_t)(mark - q->target) : q->target_len;
    if (mark != NULL) {
        r->query = mark + 1;
        r->query_len = q->target_len - r->path_len - 1;
    }
}

static size_t name_length(const struct decider_request *q)
{
    return q->server_name != NULL ? strlen(q->server_name) : 0;
}

/* Everything but the headers. */
static const char *take_line(struct request_parts *r, const struct decider_request *q)
{
    size_t host_len = strlen(q->host);
    size_t name_len = name_length(q);
    if (q->method_len == 0 || host_len == 0 || r->path_len == 0 || q->port == 0)
        return NOT_ASKABLE;
    if (host_len > NAME_BYTES_MAX || name_len > NAME_BYTES_MAX || r->path_len > NAME_BYTES_MAX ||
        (r->host != NULL && r->host->value_len > NAME_BYTES_MAX))
        return "request target too large";
    if (!strict_text_measure(q->method, q->method_len, &r->size) ||
        !strict_text_measure(q->host, host_len, &r->size) ||
        !strict_text_measure(r->path, r->path_len, &r->size))
        return NOT_ASKABLE;
    r->size += sizeof("{\"t\":\"req\",\"id\":,\"method\":,\"host\":,\"port\":,\"path\":}") - 1 +
               decimal_size(q->port);
    if (name_len != 0) {
        if (!strict_text_measure(q->server_name, name_len, &r->size))
            return NOT_ASKABLE;
        r->size += sizeof(",\"sni\":") - 1;
    }
    if (r->query_len != 0) {
        if (!strict_text_measure(r->query, r->query_len, &r->size))
            return NOT_ASKABLE;
        r->size += sizeof(",\"query\":") - 1;
    }
    if (r->entry_count != 0)
        r->size += sizeof(",\"headers\":{}") - 2; /* the first name has no comma */
    return NULL;
}

static char *put_lower(char *to, const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)header_name_lower[(unsigned char)name[i]];
    return to + n;
}

static char *put_headers(char *to, const struct request_parts *r)
{
    to = PUT(to, ",\"headers\":{");
    for (size_t i = 0; i < r->entry_count; i++) {
        const struct entry *e = &r->entries[i];
        if (!e->leads)
            continue;
        if (i != 0)
            *to++ = ',';
        *to++ = '"';
        to = put_lower(to, e->field->name, e->field->name_len);
        to = PUT(to, "\":[");
        to = strict_json_put(to, e->field->value, e->field->value_len);
        for (size_t j = e->next; j != NO_ENTRY; j = r->entries[j].next) {
            *to++ = ',';
            to = strict_json_put(to, r->entries[j].field->value, r->entries[j].field->value_len);
        }
        *to++ = ']';
    }
    *to++ = '}';
    return to;
}

static char *put_request(char *to, int64_t id, const struct request_parts *r,
                         const struct decider_request *q)
{
    size_t name_len = name_length(q);
    to = PUT(to, "{\"t\":\"req\",\"id\":");
    to = put_decimal(to, (uint64_t)id);
    to = PUT(to, ",\"method\":");
    to = strict_json_put(to, q->method, q->method_len);
    to = PUT(to, ",\"host\":");
    to = strict_json_put(to, q->host, strlen(q->host));
    to = PUT(to, ",\"port\":");
    to = put_decimal(to, q->port);
    if (r->host != NULL) {
        to = PUT(to, ",\"hostHeader\":");
        to = strict_json_put(to, r->host->value, r->host->value_len);
    }
    if (name_len != 0) {
        to = PUT(to, ",\"sni\":");
        to = strict_json_put(to, q->server_name, name_len);
    }
    to = PUT(to, ",\"path\":");
    to = strict_json_put(to, r->path, r->path_len);
    if (r->query_len != 0) {
        to = PUT(to, ",\"query\":");
        to = strict_json_put(to, r->query, r->query_len);
    }
    if (r->entry_count != 0)
        to = put_headers(to, r);
    *to++ = '}';
    return to;
}

const char *request_write(struct buf *out, int64_t id, const struct decider_request *q)
{
    struct request_parts r; /* entries are set as they are counted */
    r.host = NULL;
    r.host_count = r.entry_count = r.header_bytes = r.size = r.query_len = 0;
    r.query = NULL;
    split_target(&r, q);
    const char *refused = take_fields(&r, q);
    if (refused == NULL)
        refused = take_line(&r, q);
    if (refused != NULL)
        return refused;
    if (r.size + decimal_size((uint64_t)MESSAGE_ID_MAX) > FRAME_MAX)
        return TOO_LARGE;
    size_t length = r.size + decimal_size((uint64_t)id);
    uint8_t *frame = buf_reserve(out, FRAME_HEAD + length);
    if (frame == NULL)
        return TOO_LARGE;
    char *end = put_request((char *)frame_put_head(frame, length), id, &r, q);
    assert(end == (char *)frame + FRAME_HEAD + length);
    buf_commit(out, FRAME_HEAD + length);
    return NULL;
}

static bool put_member(struct buf *out, const char *key, const char *value, size_t n)
{
    return buf_puts(out, key) && strict_json_put_string(out, value, n);
}

const char *connection_write(struct buf *out, int64_t id, const struct decider_connection *c)
{
    static const char NO_QUESTION[] = "connection the decider cannot be asked about";
    size_t host_len = strlen(c->host);
    size_t client_len = strlen(c->client);
    size_t user_len = c->user != NULL ? c->user_len : 0;
    if (host_len == 0 || host_len > NAME_BYTES_MAX || c->port == 0 || client_len == 0 ||
        client_len > NAME_BYTES_MAX || user_len > NAME_BYTES_MAX ||
        !strict_text_valid(c->host, host_len) || !strict_text_valid(c->client, client_len) ||
        (user_len != 0 && !strict_text_valid(c->user, user_len)))
        return NO_QUESTION;
    size_t begun = frame_begin(out);
    bool whole = buf_printf(out, "{\"t\":\"conn\",\"id\":%lld", (long long)id) &&
                 put_member(out, ",\"via\":", c->via, strlen(c->via)) &&
                 put_member(out, ",\"host\":", c->host, host_len) &&
                 buf_printf(out, ",\"port\":%u", c->port) &&
                 put_member(out, ",\"client\":", c->client, client_len);
    if (user_len != 0)
        whole = whole && put_member(out, ",\"user\":", c->user, c->user_len);
    if (!whole || !buf_puts(out, "}")) {
        out->end = out->start + begun;
        return NO_QUESTION;
    }
    frame_end(out, begun);
    return NULL;
}

void hello_write(struct buf *out, unsigned proto)
{
    size_t begun = frame_begin(out);
    buf_printf(out, "{\"t\":\"hello\",\"proto\":%u}", proto);
    frame_end(out, begun);
}
