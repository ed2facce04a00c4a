/*
 * SOCKS4 refusal, SOCKS5 greeting, RFC 1929 sub-negotiation and request, as a
 * pure incremental state machine: bytes in, reply bytes and a step out. RFC
 * 1928, RFC 1929, chapter 20 sections 2.2 and 5 of the contract.
 */
#ifndef SOCKS_HANDSHAKE_H
#define SOCKS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum socks_step {
    SOCKS_MORE,    /* send `reply` if any, then wait for more bytes */
    SOCKS_REQUEST, /* CONNECT: host, port, authenticated are filled in */
    SOCKS_REFUSED  /* send `reply` if any, then close; `error` says why */
};

struct socks_handshake {
    const char *token; /* NULL: none required. Borrowed. */
    bool optional;     /* the token is: who presents none is served all the same */
    uint8_t state;     /* private: what the next byte is */
    uint8_t left;      /* private: bytes to come of a field of announced length */
    uint8_t offered;   /* private: methods of the greeting that matter */
    uint8_t command;   /* private */
    uint8_t version;
    bool authenticated;   /* may be served: the token was presented, or none is needed */
    bool anonymous;       /* a token is needed, and the client offered no way to present one */
    bool method_selected; /* the greeting is answered: another deadline may hold (5.3) */
    bool user_known;      /* all of `user` is in */
    char user[256];       /* of RFC 1929; its length in user_len */
    uint8_t user_len;
    uint8_t atyp;
    char host[256]; /* as the client spelled it (ATYP 3), or formatted; may hold any byte */
    uint8_t host_len;
    uint16_t port;
    enum err error;
    uint8_t reply[16];
    uint8_t reply_len;
};

/* optional: a client that offers no password, or gives an empty one (as runtimes do that send the
 * name of their user unasked), presents no credentials and is served. */
void socks_init(struct socks_handshake *s, const char *token, bool optional);

/*
 * Consumes from p[0..n) at most one message, or the part of it that is there, sets *used.
 * reply_len is 0 or the bytes to send before anything else. Call again while bytes are left and
 * the step is SOCKS_MORE. After SOCKS_REQUEST the rest of the bytes is the tunnel's early data;
 * after SOCKS_REFUSED nothing is left. The token is compared in constant time.
 */
enum socks_step socks_feed(struct socks_handshake *s, const uint8_t *p, size_t n, size_t *used);

/* The ten bytes of a reply: 05 REP 00 01 and zeros. */
void socks_reply(uint8_t code, uint8_t out[10]);

#endif
