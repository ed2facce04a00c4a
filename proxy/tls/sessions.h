/*
 * TLS sessions of servers by name, for resumption: bounded, the longest unused
 * goes first. One loop, no locks.
 */
#ifndef TLS_SESSIONS_H
#define TLS_SESSIONS_H

#include <stddef.h>

#include <openssl/ssl.h>

enum { TLS_SESSIONS_MAX = 256 };

struct tls_sessions;
struct tls_sessions *tls_sessions_new(void);
void tls_sessions_free(struct tls_sessions *s);

/* Keeps a session, instead of the one the name had; takes over the reference. */
void tls_sessions_put(struct tls_sessions *s, const char *name, SSL_SESSION *session);
/* The session of a name that may still be resumed, borrowed until the next call; or NULL. */
SSL_SESSION *tls_sessions_get(struct tls_sessions *s, const char *name);
void tls_sessions_drop(struct tls_sessions *s, const char *name);
size_t tls_sessions_count(const struct tls_sessions *s);

#endif
