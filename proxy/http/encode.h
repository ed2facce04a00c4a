/*
 * The sending side of a body: raw bytes framed as the next hop is told, and
 * the end with its trailers. RFC 9112 section 7.1.
 */
#ifndef HTTP_ENCODE_H
#define HTTP_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/http/headers.h"

/* Bytes that body_encode() may overwrite before and behind its input. */
enum { ENCODE_HEADROOM = 20, ENCODE_TAILROOM = 2 };

/* Appends n body bytes at p, as one chunk when the framing is chunked. Nothing for n = 0. */
void body_encode(struct buf *out, enum out_framing framing, uint8_t *p, size_t n);

/* Appends the end of the body: for chunked the last chunk and what may be passed on of the raw
 * trailer section. strip: as in struct response_out, or BODY_TRAILERS_DROPPED. False, with nothing
 * appended, when the trailer section is malformed. */
extern const char *const *const BODY_TRAILERS_DROPPED;
bool body_encode_end(struct buf *out, enum out_framing framing, const struct buf *trailers,
                     const char *const *strip);

#endif
