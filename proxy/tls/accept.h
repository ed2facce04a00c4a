/*
 * TLS to a client: the server side of a terminated tunnel, with a certificate
 * for the name that was asked for. TLS 1.2 and 1.3, ALPN http/1.1, no client
 * certificate, tickets that are good for the same name. Chapter 30 sections 4
 * and 5.1.
 */
#ifndef TLS_ACCEPT_H
#define TLS_ACCEPT_H

#include <stdbool.h>

#include <ev.h>

#include "base/buf.h"
#include "certs/ca.h"
#include "proxy/net/stream.h"
#include "proxy/tls/hello.h"

/* One a worker: the context that all handshakes share. */
struct tls_server;
/* NULL when no context or no leaf key can be made. Keeps a reference of the CA. short_lived: the
 * RSA leaf key is made for the first client without ECDSA, which holds up the loop once, not at
 * once. */
struct tls_server *tls_server_new(struct ca *ca, bool short_lived);
void tls_server_free(struct tls_server *t); /* NULL is fine; streams may outlive it */
/* The CA's revocation list, DER; borrowed. NULL when it cannot be made. */
const struct buf *tls_server_revocations(struct tls_server *t);

struct tls_accept;
/* Called once, from the loop, never from inside tls_accept_start(). stream: handshaken, owned by
 * the callee; NULL: it failed, the socket is closed, `detail` is a short reason for the log. */
typedef void tls_accept_callback(void *ctx, struct stream *stream, const char *detail);

/*
 * Takes over fd and *first, what has been read of it. name (lower case): whose certificate is
 * shown. No deadline of its own: the caller cancels. A ClientHello whose server name OpenSSL reads
 * otherwise than `hello` does not come through.
 */
struct tls_accept *tls_accept_start(struct tls_server *t, struct ev_loop *loop, int fd,
                                    struct buf *first, const struct client_hello *hello,
                                    const char *name, tls_accept_callback *callback, void *ctx);
void tls_accept_cancel(struct tls_accept *a);

#endif
