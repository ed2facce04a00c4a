/*
 * The answers srt itself gives to HTTP clients, made from the error table.
 * Chapter 20 section 3 of the contract. Pure.
 */
#ifndef HTTP_RESPOND_H
#define HTTP_RESPOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "proxy/policy/policy.h"

struct answer {
    enum err err;
    unsigned status;         /* instead of the table's, or 0 */
    bool deny_codes;         /* X-Deny-Reason in place of X-Proxy-Error (proxy-only mode) */
    bool connect;            /* to a CONNECT: raw, ended by closing (407 excepted) */
    bool head_method;        /* to a HEAD: no body follows */
    bool close;              /* Connection: close */
    unsigned keep_alive_s;   /* told to a client that may go on */
    const char *date;        /* IMF-fixdate */
    const char *reason;      /* status phrase of a refused CONNECT (cleaned here), or NULL */
    const char *body;        /* instead of the table's, or NULL */
    const char *mark;        /* X-Proxy-Error instead of the table's, or NULL */
    const char *second_line; /* behind the body's first line, or NULL */
};

void respond(struct buf *out, const struct answer *a);

/* The fields that tell a client whether the connection goes on. */
void respond_connection(struct buf *out, bool close, unsigned keep_alive_s);

/* "srt: HOST:PORT is blocked by policy, not by a network fault (RULE); do not retry": where
 * `spelled` is the client's text and `rule` as refusal_rule() gives it. */
void refusal_line(struct buf *out, const char *spelled, size_t n, const struct host *canonical,
                  uint16_t port, const char *rule);

/* "srt: METHOD URL is blocked by policy, ...": for one request to a host that is not blocked. */
void refusal_request_line(struct buf *out, const char *method, size_t n, const char *url,
                          const char *rule);

/* `network.deniedDomains entry "X"`, or that no entry allows it, or that the host is malformed. */
void refusal_rule(struct buf *out, const struct decision *d);

#endif
