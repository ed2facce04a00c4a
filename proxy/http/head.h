/*
 * Strict, incremental parser of HTTP/1.1 request and response heads, as a pure
 * function over a byte range. No copies: everything is an offset into the bytes
 * given, so the buffer may move afterwards. RFC 9112 sections 2 to 6, chapter 20
 * sections 6.1 and 6.6 of the contract.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    uint32_t at, len; /* offset from the first byte of the head */
};

/* Header names the proxy treats specially, looked up once while parsing. */
enum field_id {
    FIELD_OTHER = 0,
    FIELD_CONNECTION,
    FIELD_KEEP_ALIVE,
    FIELD_PROXY_AUTHENTICATE,
    FIELD_PROXY_AUTHORIZATION,
    FIELD_PROXY_CONNECTION,
    FIELD_TE,
    FIELD_TRAILER,
    FIELD_TRANSFER_ENCODING,
    FIELD_UPGRADE,
    FIELD_HOST,
    FIELD_CONTENT_LENGTH,
    FIELD_EXPECT,
    FIELD_DATE,
    FIELD_COOKIE,
    FIELD_SET_COOKIE,
    FIELD_ONCE /* any other name of the once-only list of section 6.4 */
};

struct field {
    struct span name;
    struct span value; /* leading and trailing spaces and tabs cut off */
    uint8_t id;        /* enum field_id */
    uint8_t once;      /* FIELD_ONCE: which of them, 0 to 14 */
};

enum head_framing {
    BODY_NONE,    /* request: no Content-Length, no Transfer-Encoding */
    BODY_LENGTH,  /* Content-Length, may be 0 */
    BODY_CHUNKED, /* Transfer-Encoding: chunked */
    BODY_CLOSE    /* response without either: until close */
};

struct head {
    struct span method, target; /* request */
    uint16_t status;            /* response */
    struct span reason;         /* response; may be empty */
    uint8_t minor;              /* HTTP/1.<minor>, 0 or 1 */

    struct field *fields; /* owned; reused by the next parse */
    uint32_t count, capacity;

    enum head_framing framing; /* of the declaration alone; HEAD, 204, 304, 1xx are the caller's */
    uint64_t content_length;
    uint32_t host_count;
    bool connection_close;      /* Connection lists close */
    bool connection_keep_alive; /* ... keep-alive */
    bool connection_upgrade;    /* ... upgrade */
    bool length_named;          /* Connection lists content-length */
    bool connection_other;      /* Connection lists a name that is not hop-by-hop by itself */
    bool expect_continue;       /* the one Expect is exactly 100-continue (any case) */
    bool expect_other;          /* Expect says anything else, or is there more than once; both are
                                   for HTTP/1.1 requests alone (RFC 9110 section 10.1.1) */

    uint32_t length; /* bytes of the head, the empty line included */
};

enum head_result {
    HEAD_OK,
    HEAD_MORE,      /* not complete yet */
    HEAD_BAD,       /* a parse error: 400 on a request, 502 on a response */
    HEAD_TOO_LARGE, /* longer than the limit */
    HEAD_NO_HOST    /* request alone: HTTP/1.1, not CONNECT, no Host (head is filled in) */
};

void head_init(struct head *h);
void head_free(struct head *h);
/* Gives the array of fields back; everything else stays. */
void head_drop_fields(struct head *h);

/* Empty lines (CRLF) accepted and counted before a request line, RFC 9112 section 2.2. */
enum { HEAD_EMPTY_LINES_MAX = 8 };

/*
 * p[0..n): all bytes received since the head began; *scanned: where the search for its end goes
 * on, 0 at the start, kept by the caller between calls together with h, so that a head arriving
 * byte by byte costs linear time. limit: most bytes a head may have.
 *
 * A malformed start (first byte no method character, as TLS or HTTP/2 preface), a malformed start
 * line and a bare LF are HEAD_BAD as soon as they can be seen, any other parse error no later than
 * when the head is complete.
 * Request rules: chapter 20 section 6.1. CONNECT: the target may be anything without white space
 * and control bytes (judged by authority_parse_connect), framing is forced to BODY_NONE and the
 * coding named is not read, but Content-Length together with Transfer-Encoding is HEAD_BAD.
 * Transfer-Encoding in an HTTP/1.0 request is HEAD_BAD (RFC 9112 section 6.1).
 * Response rules: section 6.6 (HTTP/1.0 and HTTP/1.1; status 100..999; reason any bytes but
 * control bytes other than HTAB; no bare LF, no folded lines; repeated Content-Length, length
 * with Transfer-Encoding, other codings, overflow: HEAD_BAD).
 */
enum head_result head_parse_request(struct head *h, const uint8_t *p, size_t n, size_t *scanned,
                                    size_t limit);
enum head_result head_parse_response(struct head *h, const uint8_t *p, size_t n, size_t *scanned,
                                     size_t limit);

/* The n-th value of a field name (any case) as characters, NULL when there is none. */
const char *head_find(const struct head *h, const uint8_t *p, const char *name, uint32_t n,
                      size_t *len);

/* True when the method is exactly this (methods are case-sensitive). */
bool head_method_is(const struct head *h, const uint8_t *p, const char *method);

/* RFC 9110 section 5.6.2. */
bool http_is_token(const char *s, size_t n);

#endif
