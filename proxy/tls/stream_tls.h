/*
 * TLS as a stream, for either side: takes an SSL whose handshake is done.
 *
 * read: a peer that ends without close_notify, or breaks the protocol, is -1
 * with EPROTO, never 0: what was cut off must not look complete.
 * writev: after EAGAIN the next write has to start with the same bytes, as many
 * at least, since part of them may already be encrypted.
 * shutdown: sends close_notify, then FIN; reading goes on. Not with bytes that
 * the last writev did not take.
 * A key update that the peer wants answered while a write is begun ends the
 * connection: OpenSSL 3.0 answers at once, and finds the write in its way.
 * close: sends nothing. Without stream_shutdown() before, the peer sees a cut.
 */
#ifndef TLS_STREAM_TLS_H
#define TLS_STREAM_TLS_H

#include <stdbool.h>

#include <ev.h>
#include <openssl/ssl.h>

#include "proxy/net/stream.h"

/* What every context of ours needs for its connections to work as streams; the verification of
 * certificates is not among it. */
void stream_tls_context(SSL_CTX *ctx);

/* Takes over ssl and its non-blocking fd. No events are wanted yet. */
struct stream *stream_tls(struct ev_loop *loop, int fd, SSL *ssl);

/* True when the peer ended the connection without close_notify. s must be a TLS stream. */
bool stream_tls_truncated(const struct stream *s);

/* The protocol that ALPN chose, in *name (not NUL-terminated); 0 when none. */
size_t stream_tls_alpn(const struct stream *s, const unsigned char **name);

#endif
