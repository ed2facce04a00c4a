/*
 * Bodies: a decoder for the two framings of HTTP/1.1, in place, and the
 * trailer section. Strict: CRLF only, sizes of 1 to 16 hex digits that do not
 * overflow 2^63-1, extensions of bounded length read and dropped. Pure. RFC 9112 section 7.
 */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/http/head.h"

/*
 * Extensions mean nothing to the proxy, so they only have to be few enough that no client can make
 * it read for ever without a body moving: so many bytes on one chunk's line, and over the body so
 * many to begin with and so many more for each byte of body.
 */
enum {
    CHUNK_EXTENSION_LINE_MAX = 4096,
    CHUNK_EXTENSIONS_FREE = 16384,
    CHUNK_EXTENSIONS_PER_BYTE = 64,
    CHUNK_EXTENSIONS_SAVED_MAX = 1048576 /* most that a long body saves up */
};

struct body_decoder {
    enum head_framing framing;
    uint64_t left;       /* of the body, or of the current chunk */
    uint8_t state;       /* private */
    uint8_t digits;      /* private: of the current chunk size */
    uint32_t line;       /* private: extension bytes on the current line */
    uint32_t allowance;  /* private: extension bytes the body may still have */
    struct buf trailers; /* raw trailer section as received, up to and with its empty line; empty
                            when there are no trailers */
};

/* BODY_NONE and a length of 0 are done at once. trailer_limit: bytes; past it BODY_BAD. */
void body_decoder_init(struct body_decoder *d, enum head_framing framing, uint64_t length,
                       size_t trailer_limit);
void body_decoder_free(struct body_decoder *d);

enum body_result {
    BODY_MORE, /* all input used, the body goes on */
    BODY_DONE, /* the body ended; input after *used belongs to what follows */
    BODY_BAD   /* malformed */
};

/*
 * Decodes p[0..n). Body bytes are moved together to the front of p; *out says how many. *used
 * says how much input was consumed (all of it unless BODY_DONE). BODY_CLOSE passes everything
 * on and is never done by itself.
 */
enum body_result body_decode(struct body_decoder *d, uint8_t *p, size_t n, size_t *used,
                             size_t *out);
bool body_is_done(const struct body_decoder *d);

/* Parses d->trailers into h->fields (offsets into the trailer bytes), after emptying h. False:
 * malformed. */
bool trailers_parse(struct head *h, const uint8_t *p, size_t n);

#endif
