#include "proxy/http/head.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "proxy/http/field.h"

void head_init(struct head *h)
{
    *h = (struct head){0};
}

void head_free(struct head *h)
{
    free(h->fields);
    head_init(h);
}

void head_drop_fields(struct head *h)
{
    free(h->fields);
    h->fields = NULL;
    h->count = 0;
    h->capacity = 0;
}

/* Empties h but keeps its array of fields. */
static void head_reset(struct head *h)
{
    struct field *fields = h->fields;
    uint32_t capacity = h->capacity;
    *h = (struct head){.fields = fields, .capacity = capacity};
}

/* What scan() found. */
struct extent {
    bool line_seen; /* at least one line ended within the bytes looked at by this call */
    size_t end;     /* HEAD_OK: offset one past the head */
};

/*
 * Looks for the empty line that ends a head whose first line starts at `start`. Every line feed
 * met must follow a carriage return.
 */
static enum head_result scan(const uint8_t *p, size_t n, size_t start, size_t *scanned,
                             size_t limit, struct extent *found)
{
    size_t most = n < limit ? n : limit;
    size_t at = *scanned > start ? *scanned : start;
    *found = (struct extent){0};
    while (at < most) {
        const uint8_t *lf = memchr(p + at, '\n', most - at);
        if (lf == NULL)
            break;
        size_t i = (size_t)(lf - p);
        if (i < start + 2 || p[i - 1] != '\r')
            return HEAD_BAD;
        at = i + 1;
        if (p[i - 2] == '\n') {
            found->end = at;
            return HEAD_OK;
        }
        found->line_seen = true;
    }
    *scanned = most;
    return n >= limit ? HEAD_TOO_LARGE : HEAD_MORE;
}

/* An authority in absolute form may not hold certain visible bytes; path and query may. */
static bool authority_bytes_ok(const uint8_t *s, const uint8_t *end)
{
    const uint8_t *colon = s;
    while (colon < end && ((*colon | 0x20) >= 'a' && (*colon | 0x20) <= 'z'))
        colon++;
    if (colon == s || end - colon < 3 || memcmp(colon, "://", 3) != 0)
        return true;
    for (s = colon + 3; s < end && *s != '/' && *s != '?' && *s != '#'; s++)
        if (byte_is(*s, BYTE_NO_AUTHORITY))
            return false;
    return true;
}

/* " HTTP/1.x" and CRLF at p[at]; gives the offset after it, or 0. */
static size_t version_at(struct head *h, const uint8_t *p, size_t at, size_t n)
{
    static const char text[] = " HTTP/1.";
    enum { TEXT = sizeof text - 1 };
    if (n - at < TEXT + 3 || memcmp(p + at, text, TEXT) != 0)
        return 0;
    uint8_t minor = p[at + TEXT];
    if ((minor != '0' && minor != '1') || p[at + TEXT + 1] != '\r' || p[at + TEXT + 2] != '\n')
        return 0;
    h->minor = (uint8_t)(minor - '0');
    return at + TEXT + 3;
}

/* The request line at p[start]; a line feed must follow before n. Offset after it, or 0. */
static size_t request_line(struct head *h, const uint8_t *p, size_t start, size_t n)
{
    size_t at = start;
    while (byte_is(p[at], BYTE_TOKEN))
        at++;
    if (at == start || p[at] != ' ')
        return 0;
    h->method = (struct span){(uint32_t)start, (uint32_t)(at - start)};
    unsigned class = head_method_is(h, p, "CONNECT") ? BYTE_VISIBLE : BYTE_TARGET;
    size_t target = ++at;
    while (byte_is(p[at], class))
        at++;
    if (at == target)
        return 0;
    h->target = (struct span){(uint32_t)target, (uint32_t)(at - target)};
    if (class == BYTE_TARGET && p[target] != '/' && !authority_bytes_ok(p + target, p + at))
        return 0;
    return version_at(h, p, at, n);
}

/* The status line at p[0]; a line feed must follow before n. Offset after it, or 0. */
static size_t status_line(struct head *h, const uint8_t *p, size_t n)
{
    enum { VERSION = 8, CODE = VERSION + 1, AFTER_CODE = CODE + 3 };
    if (n < AFTER_CODE + 2 || memcmp(p, "HTTP/1.", VERSION - 1) != 0)
        return 0;
    uint8_t minor = p[VERSION - 1];
    if ((minor != '0' && minor != '1') || p[VERSION] != ' ' || p[CODE] == '0')
        return 0;
    unsigned status = 0;
    for (size_t i = CODE; i < AFTER_CODE; i++) {
        if (p[i] < '0' || p[i] > '9')
            return 0;
        status = status * 10 + (unsigned)(p[i] - '0');
    }
    size_t at = AFTER_CODE;
    if (p[at] == ' ')
        at++;
    else if (p[at] != '\r') /* a fourth digit, or another separator */
        return 0;
    size_t reason = at;
    while (byte_is(p[at], BYTE_TEXT))
        at++;
    if (p[at] != '\r' || p[at + 1] != '\n')
        return 0;
    h->minor = (uint8_t)(minor - '0');
    h->status = (uint16_t)status;
    h->reason = (struct span){(uint32_t)reason, (uint32_t)(at - reason)};
    return at + 2;
}

/* 1*DIGIT up to 2^63-1. */
static bool length_parse(const uint8_t *s, size_t n, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return n != 0;
}

static bool equal_fold(const uint8_t *s, size_t n, const char *want, size_t want_len)
{
    return text_equal_fold((const char *)s, n, want, want_len);
}
#define FOLD(s, n, literal) equal_fold((s), (n), (literal), sizeof(literal) - 1)

static void read_connection(struct head *h, const uint8_t *s, size_t n)
{
    const uint8_t *end = s + n, *item;
    size_t len;
    while (list_next(&s, end, &item, &len)) {
        if (FOLD(item, len, "close"))
            h->connection_close = true;
        else if (FOLD(item, len, "keep-alive"))
            h->connection_keep_alive = true;
        else if (FOLD(item, len, "upgrade"))
            h->connection_upgrade = true;
        else if (FOLD(item, len, "content-length"))
            h->length_named = true;
        else if (!FOLD(item, len, "te") && !FOLD(item, len, "trailer"))
            h->connection_other = true;
    }
}

/* What the fields say together about framing. */
struct framing_fields {
    uint32_t lengths, codings;
    bool coding_is_chunked; /* of the last one */
};

/* Reads the fields with a meaning for this hop. False: a bad or repeated Content-Length. */
static bool read_fields(struct head *h, const uint8_t *p, struct framing_fields *seen)
{
    *seen = (struct framing_fields){0};
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        const uint8_t *value = p + f->value.at;
        switch (f->id) {
        case FIELD_CONTENT_LENGTH:
            if (seen->lengths++ != 0 || !length_parse(value, f->value.len, &h->content_length))
                return false;
            break;
        case FIELD_TRANSFER_ENCODING:
            seen->codings++;
            seen->coding_is_chunked = FOLD(value, f->value.len, "chunked");
            break;
        case FIELD_CONNECTION:
            read_connection(h, value, f->value.len);
            break;
        case FIELD_HOST:
            h->host_count++;
            break;
        case FIELD_EXPECT:
            if (h->expect_continue || !FOLD(value, f->value.len, "100-continue"))
                h->expect_other = true;
            h->expect_continue = !h->expect_other;
            break;
        default:
            break;
        }
    }
    return true;
}

static bool framing_of(struct head *h, const struct framing_fields *seen, enum head_framing none)
{
    if (seen->codings > 1 || (seen->codings == 1 && !seen->coding_is_chunked))
        return false;
    h->framing = seen->codings == 1 ? BODY_CHUNKED : seen->lengths == 1 ? BODY_LENGTH : none;
    return true;
}

static enum head_result finish_request(struct head *h, const uint8_t *p)
{
    struct framing_fields seen;
    if (!read_fields(h, p, &seen) || (seen.lengths != 0 && seen.codings != 0))
        return HEAD_BAD;
    if (h->minor == 0)
        h->expect_continue = h->expect_other = false;
    if (head_method_is(h, p, "CONNECT")) {
        h->framing = BODY_NONE;
        h->content_length = 0;
        return HEAD_OK;
    }
    if (seen.codings != 0 && h->minor == 0)
        return HEAD_BAD;
    if (!framing_of(h, &seen, BODY_NONE))
        return HEAD_BAD;
    return h->minor == 1 && h->host_count == 0 ? HEAD_NO_HOST : HEAD_OK;
}

/* Offset of the request line behind the empty lines before it. */
static size_t skip_empty_lines(const uint8_t *p, size_t n)
{
    size_t at = 0;
    while (at < 2 * (size_t)HEAD_EMPTY_LINES_MAX && n - at >= 2 && p[at] == '\r' &&
           p[at + 1] == '\n')
        at += 2;
    return at;
}

enum head_result head_parse_request(struct head *h, const uint8_t *p, size_t n, size_t *scanned,
                                    size_t limit)
{
    if (*scanned == 0)
        head_reset(h);
    if (limit > UINT32_MAX)
        limit = UINT32_MAX;
    size_t start = skip_empty_lines(p, n);
    bool maybe_empty_line =
        n - start == 1 && p[start] == '\r' && start < 2 * (size_t)HEAD_EMPTY_LINES_MAX;
    if (start == n || maybe_empty_line)
        return n >= limit ? HEAD_TOO_LARGE : HEAD_MORE;
    if (!byte_is(p[start], BYTE_TOKEN))
        return HEAD_BAD;

    struct extent found;
    enum head_result result = scan(p, n, start, scanned, limit, &found);
    if (result != HEAD_OK && found.line_seen && h->method.len == 0 &&
        request_line(h, p, start, n) == 0)
        return HEAD_BAD;
    if (result != HEAD_OK)
        return result;

    head_reset(h);
    size_t at = request_line(h, p, start, found.end);
    if (at == 0 || !fields_parse(h, p, at, found.end - 2))
        return HEAD_BAD;
    h->length = (uint32_t)found.end;
    return finish_request(h, p);
}

enum head_result head_parse_response(struct head *h, const uint8_t *p, size_t n, size_t *scanned,
                                     size_t limit)
{
    static const uint8_t begin[] = "HTTP/1.";
    for (size_t i = 0; i < n && i < sizeof begin - 1; i++)
        if (p[i] != begin[i])
            return HEAD_BAD;
    if (*scanned == 0)
        head_reset(h);
    if (limit > UINT32_MAX)
        limit = UINT32_MAX;

    struct extent found;
    enum head_result result = scan(p, n, 0, scanned, limit, &found);
    if (result != HEAD_OK && found.line_seen && h->status == 0 && status_line(h, p, n) == 0)
        return HEAD_BAD;
    if (result != HEAD_OK)
        return result;

    head_reset(h);
    size_t at = status_line(h, p, found.end);
    struct framing_fields seen;
    if (at == 0 || !fields_parse(h, p, at, found.end - 2) || !read_fields(h, p, &seen) ||
        (seen.lengths != 0 && seen.codings != 0) || !framing_of(h, &seen, BODY_CLOSE))
        return HEAD_BAD;
    h->expect_continue = h->expect_other = false;
    h->length = (uint32_t)found.end;
    return HEAD_OK;
}

const char *head_find(const struct head *h, const uint8_t *p, const char *name, uint32_t n,
                      size_t *len)
{
    size_t name_len = strlen(name);
    *len = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct field *f = &h->fields[i];
        if (field_named(f, p, name, name_len) && n-- == 0) {
            *len = f->value.len;
            return (const char *)p + f->value.at;
        }
    }
    return NULL;
}

bool head_method_is(const struct head *h, const uint8_t *p, const char *method)
{
    size_t n = strlen(method);
    return h->method.len == n && memcmp(p + h->method.at, method, n) == 0;
}
