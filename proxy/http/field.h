/*
 * Field lines: cutting a header or trailer section into fields, and the names
 * the proxy treats specially. Private to proxy/http. Pure. RFC 9112 section 5,
 * RFC 9110 sections 5.5 and 5.6.
 */
#ifndef HTTP_FIELD_H
#define HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/http/head.h"

/* Classes of bytes; one table, so that a scan is one load and one test a byte. */
enum {
    BYTE_TOKEN = 1,        /* tchar */
    BYTE_TARGET = 2,       /* 0x21-0x7E: a request target */
    BYTE_TEXT = 4,         /* HTAB, 0x20-0x7E, 0x80-0xFF: a field value or a reason phrase */
    BYTE_NO_AUTHORITY = 8, /* `"<>\^`{|}`: visible, but an error in an authority */
    BYTE_VISIBLE = 16      /* 0x21-0x7E and 0x80-0xFF: a CONNECT target */
};
extern const uint8_t http_bytes[256];

static inline bool byte_is(uint8_t c, unsigned class)
{
    return (http_bytes[c] & class) != 0;
}

/* SP or HTAB: OWS and BWS are made of these. */
static inline bool byte_is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Hop-by-hop whatever Connection says: the ids from FIELD_CONNECTION to FIELD_UPGRADE. */
static inline bool field_id_is_hop_by_hop(uint8_t id)
{
    return id >= FIELD_CONNECTION && id <= FIELD_UPGRADE;
}

/* The id of a name in any case. name must be a token. *once: as in struct field. */
uint8_t field_identify(const uint8_t *name, size_t n, uint8_t *once);

/*
 * Appends the fields of p[at..end) to h->fields. The range is whole lines without the section's
 * empty line; every line feed in it must have a carriage return before it. False: malformed.
 */
bool fields_parse(struct head *h, const uint8_t *p, size_t at, size_t end);

/* True when f's name is `name` (given in lower case) in any case. */
bool field_named(const struct field *f, const uint8_t *p, const char *name, size_t n);

/*
 * The next element of a comma-separated list, without the blanks around it; empty elements are
 * skipped (RFC 9110 section 5.6.1). False at the end. *at moves on.
 */
bool list_next(const uint8_t **at, const uint8_t *end, const uint8_t **item, size_t *len);

#endif
