/*
 * Writes heads and trailers as they leave for the other side: hop-by-hop
 * fields removed, Host and framing set, once-only fields cut, cookies joined.
 * Names keep their spelling and order. Pure. Chapter 20 sections 6.4 and 6.6.
 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/http/edits.h"
#include "proxy/http/head.h"

enum out_framing {
    OUT_NONE,    /* no framing field at all: no body */
    OUT_LENGTH,  /* Content-Length: length */
    OUT_CHUNKED, /* Transfer-Encoding: chunked */
    OUT_CLOSE,   /* response alone: until close, no framing field */
    OUT_KEEP     /* response alone: the upstream's Content-Length stays, no body (HEAD, 304) */
};

struct request_out {
    const char *target; /* as it goes on the request line */
    size_t target_len;
    const char *host;                /* value of Host: the canonical authority */
    const char *proxy_authorization; /* value to send to a parent, or NULL */
    enum out_framing framing;        /* from request_framing() */
    uint64_t length;
    bool upgrade;              /* relay Upgrade (never h2c) with Connection: upgrade */
    bool close;                /* Connection: close to the next hop */
    bool te_trailers;          /* TE: trailers, for a client that said so over HTTP/2 */
    bool folded_hop_by_hop;    /* section 12: removal also matches Keep.Alive and the like */
    const struct edits *edits; /* a decider's changes, after everything else; NULL: none */
};

/* Section 6.4, "Body framing": the client's declaration and its method decide. *length is 0 unless
 * the answer is OUT_LENGTH. */
enum out_framing request_framing(const struct head *h, const uint8_t *p, uint64_t *length);

/* False when out's maximum would be passed. */
bool headers_write_request(struct buf *out, const struct head *h, const uint8_t *p,
                           const struct request_out *how);

struct response_out {
    enum out_framing framing;
    uint64_t length;
    bool client_http10;          /* Connection: close whatever keep_alive; never OUT_CHUNKED */
    bool keep_alive;             /* else Connection: close */
    unsigned keep_alive_seconds; /* told in Keep-Alive: timeout= */
    bool upgrade;                /* a 101 being relayed: Connection: upgrade and Upgrade stay */
    const char *const *strip;    /* folded names (fold_name), NULL-terminated, or NULL */
    const char *date;            /* IMF-fixdate to add when the upstream sent none */
};
/* False as above, and for OUT_CHUNKED to an HTTP/1.0 client. */
bool headers_write_response(struct buf *out, const struct head *h, const uint8_t *p,
                            const struct response_out *how);

/* An interim 1xx (100, 103): status line and its fields without hop-by-hop ones. */
bool headers_write_interim(struct buf *out, const struct head *h, const uint8_t *p,
                           const char *const *strip);

/* The trailer section (field lines and the empty line) for a chunked body that goes out: without
 * the names that sections 6.4/6.6 remove or set, or that frame a message (RFC 9110 6.5.1). */
bool headers_write_trailers(struct buf *out, const struct head *h, const uint8_t *p,
                            const char *const *strip);

/* Folded form of 11.3: lower case, '_' and '.' read as '-'. Writes n bytes to out. */
void fold_name(char *out, const char *name, size_t n);

/* True when Upgrade may be relayed: Connection lists upgrade, the Upgrade field has a value that
 * parses (RFC 9110 section 7.8) and none of its protocols is h2c. */
bool headers_may_upgrade(const struct head *h, const uint8_t *p);

#endif
