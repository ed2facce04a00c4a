/*
 * The messages of the decider protocol, versions 1 and 2: bytes in, structures
 * out, and back. The proxy's side; the decider's side is peer_message.h. Pure.
 * Chapter 35 sections 2, 3 and 7.
 */
#ifndef DECIDER_MESSAGE_H
#define DECIDER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "decider/decider.h"

enum {
    HEADER_VALUES_MAX = 190,  /* of a request or an allow; a name without values counts as one */
    HEADER_BYTES_MAX = 65536, /* of names, each once, and values */
    REMOVED_NAMES_MAX = 190,
    REMOVED_BYTES_MAX = 65536,
    NAME_BYTES_MAX = 8192, /* host, Host header, server name, path: each */
    REASON_BYTES_MAX = 1024,
    CREDENTIAL_MAX = 8192,
    TTL_MAX = 86400
};
#define MESSAGE_ID_MAX INT64_C(9007199254740991)

struct hello {
    const char **allowed, **denied; /* borrowed from `json` */
    size_t allowed_count, denied_count;
    unsigned asks; /* bits; protocol 1: DECIDER_REQUESTS */
    json_t *json;  /* the whole of it; a reference may be kept */
};
/* From a frame's payload. False with the reason (static text) in *why. */
bool hello_read(struct hello *h, unsigned proto, const uint8_t *p, size_t n, const char **why);
void hello_free(struct hello *h);

/* A verdict with the memory that its strings are in. */
struct verdict_message {
    int64_t id;
    struct decider_verdict verdict;
    json_t *json;
    struct decider_header *set;
    const char **removed;
};
/* proto 2 knows "ttl" in an allow. What may come for which question is the link's to know: ttl in
 * the answer to a request, edits or a credential in the answer to a connection. False as above. */
bool verdict_read(struct verdict_message *m, unsigned proto, const uint8_t *p, size_t n,
                  const char **why);
/* Wipes the credential and frees. */
void verdict_free(struct verdict_message *m);

/* Writers append one whole frame; out needs a maximum that leaves room. */
void hello_write(struct buf *out, unsigned proto);
/* NULL, or why a decider cannot be asked about it, with nothing appended (static text for the
 * client: 400). Checked as if `id` were the largest. */
const char *request_write(struct buf *out, int64_t id, const struct decider_request *r);
const char *connection_write(struct buf *out, int64_t id, const struct decider_connection *c);

/* A body frame in three parts, so that its base64 is made as the decider takes it: the head with
 * the frame's length, then base64 of the bytes, then the tail. */
void body_head_write(struct buf *out, int64_t id, size_t bytes, bool cut);
void body_tail_write(struct buf *out, bool cut);
static inline size_t body_base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4;
}
/* n bytes, a multiple of 3 unless they are the last, as base64 (RFC 4648 section 4); returns how
 * many bytes went to out. */
size_t body_base64(uint8_t *out, const uint8_t *p, size_t n);

/* Folded form of a header name: lower case, '_' and '.' read as '-'. Whether an allow may set, or
 * remove, a header of this name. */
bool header_may_be_set(const char *name);
bool header_may_be_removed(const char *name);

#endif
