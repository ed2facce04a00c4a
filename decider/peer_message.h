/*
 * The decider's side of the protocol's messages: for deciders written in C,
 * such as srt-decider, and for tests. Pure. Chapter 35.
 */
#ifndef DECIDER_PEER_MESSAGE_H
#define DECIDER_PEER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "decider/decider.h"

enum peer_kind { PEER_HELLO, PEER_REQUEST, PEER_CONNECTION, PEER_BODY };

/* Strings are borrowed from `json`, NULL where the field is absent. */
struct peer_message {
    enum peer_kind kind;
    unsigned proto; /* PEER_HELLO */
    int64_t id;
    const char *method, *host, *host_header, *server_name, *path, *query; /* PEER_REQUEST */
    const json_t *headers;           /* object of arrays of strings, or NULL */
    const char *via, *client, *user; /* PEER_CONNECTION; host and port as well */
    uint16_t port;
    const char *data; /* PEER_BODY: base64, checked */
    bool cut;
    json_t *json;
};

/* From a frame's payload, as strict as the proxy reads. False with the reason in *why. */
bool peer_message_read(struct peer_message *m, const uint8_t *p, size_t n, const char **why);
void peer_message_free(struct peer_message *m);

/* Each appends one whole frame. */
void peer_hello_write(struct buf *out, unsigned proto, unsigned asks, const char *const *allowed,
                      size_t allowed_count, const char *const *denied, size_t denied_count);
/* action, and of the rest what belongs to it: see struct decider_verdict. */
void peer_verdict_write(struct buf *out, int64_t id, const struct decider_verdict *v);

#endif
