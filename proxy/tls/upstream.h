/*
 * TLS to a server or an https parent, as a stream. The certificate is verified
 * against the host's roots (SSL_CERT_FILE and SSL_CERT_DIR of srt's own
 * environment count) and the name or address; nothing turns that off. TLS 1.2
 * or later. Chapter 20 sections 6.2 and 8.1; chapter 30.
 */
#ifndef TLS_UPSTREAM_H
#define TLS_UPSTREAM_H

#include <ev.h>

#include "base/err.h"
#include "proxy/net/stream.h"
#include "proxy/policy/host.h"

/* One a worker: roots loaded once, sessions cached per name for resumption. */
struct tls_upstream;
/* when_needed: reading the roots, which takes some 40 ms, waits for the first connection. NULL: no
 * context could be made. */
struct tls_upstream *tls_upstream_new(bool when_needed);
void tls_upstream_free(struct tls_upstream *t);

struct tls_connect;
/* Called once, from the loop, never from inside tls_connect_start(). On ERR_NONE `stream` is the
 * handshaken stream, owned by the callee; else NULL and `detail` is a short reason for the log
 * ("certificate has expired"), never an address. */
typedef void tls_connect_callback(void *ctx, enum err err, struct stream *stream,
                                  const char *detail);
/* Takes over fd. alpn: wire-format protocol list or NULL (none offered). No deadline of its own:
 * the caller cancels. */
struct tls_connect *tls_connect_start(struct tls_upstream *t, struct ev_loop *loop, int fd,
                                      const struct host *name, const unsigned char *alpn,
                                      size_t alpn_len, tls_connect_callback *callback, void *ctx);
void tls_connect_cancel(struct tls_connect *c);

#endif
