#include "proxy/tls/upstream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/log.h"
#include "base/mem.h"
#include "proxy/tls/roots.h"
#include "proxy/tls/sessions.h"
#include "proxy/tls/stream_tls.h"

struct tls_upstream {
    SSL_CTX *ctx;
    struct tls_sessions *sessions;
};

struct tls_connect {
    struct tls_upstream *upstream;
    struct ev_loop *loop;
    int fd;
    SSL *ssl; /* NULL when none could be made: told from the loop */
    ev_io io;
    tls_connect_callback *callback;
    void *ctx;
};

/* The name a connection was verified for hangs on its SSL: TLS 1.3 tickets come long after the
 * handshake. */
static int name_index = -1;

static void free_name(void *parent, void *p, CRYPTO_EX_DATA *data, int index, long argument,
                      void *pointer)
{
    (void)parent;
    (void)data;
    (void)index;
    (void)argument;
    (void)pointer;
    free(p);
}

/* Keeps the reference (returns 1) when the session goes into the cache. */
static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_upstream *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *name = SSL_get_ex_data(ssl, name_index);

    if (t == NULL || name == NULL)
        return 0;
    tls_sessions_put(t->sessions, name, session);
    return 1;
}

/* False when no context can be made. */
static bool prepare(struct tls_upstream *t)
{
    if (t->ctx != NULL)
        return true;
    if (name_index < 0)
        name_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, free_name);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (ctx == NULL || name_index < 0) {
        SSL_CTX_free(ctx);
        ERR_clear_error();
        return false;
    }
    t->ctx = ctx;
    stream_tls_context(ctx);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_app_data(ctx, t);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    if (tls_roots_load(SSL_CTX_get_cert_store(ctx)) == 0)
        log_warning("no root certificates were found: no upstream's certificate will verify");
    return true;
}

struct tls_upstream *tls_upstream_new(bool when_needed)
{
    struct tls_upstream *t = mem_alloc(sizeof *t);
    t->sessions = tls_sessions_new();
    if (when_needed || prepare(t))
        return t;
    tls_upstream_free(t);
    return NULL;
}

void tls_upstream_free(struct tls_upstream *t)
{
    if (t == NULL)
        return;
    /* Streams may outlive us: their context stays until the last, but must not call us. */
    if (t->ctx != NULL)
        SSL_CTX_set_app_data(t->ctx, NULL);
    SSL_CTX_free(t->ctx);
    tls_sessions_free(t->sessions);
    free(t);
}

/* Whom the certificate must name: an address by an IP SAN, a name by a DNS SAN, never by the
 * subject's common name (RFC 9525). */
static bool expect_peer(SSL *ssl, const struct host *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (name->is_address)
        return X509_VERIFY_PARAM_set1_ip(param, name->address.bytes,
                                         name->address.family == 4 ? 4 : 16) == 1;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return X509_VERIFY_PARAM_set1_host(param, name->text, name->len) == 1 &&
           SSL_set_tlsext_host_name(ssl, name->text) == 1;
}

static SSL *make_ssl(struct tls_upstream *t, int fd, const struct host *name,
                     const unsigned char *alpn, size_t alpn_len)
{
    SSL *ssl = prepare(t) ? SSL_new(t->ctx) : NULL;

    if (ssl == NULL)
        return NULL;
    char *key = mem_dup(name->text);
    if (SSL_set_ex_data(ssl, name_index, key) != 1) {
        free(key);
        goto failed;
    }
    /* An empty name would switch the check of the name off. */
    if (name->len == 0 || !expect_peer(ssl, name) || SSL_set_fd(ssl, fd) != 1)
        goto failed;
    if (alpn != NULL && SSL_set_alpn_protos(ssl, alpn, (unsigned)alpn_len) != 0)
        goto failed;
    SSL_SESSION *session = tls_sessions_get(t->sessions, name->text);
    if (session != NULL)
        SSL_set_session(ssl, session);
    SSL_set_connect_state(ssl);
    return ssl;
failed:
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

static void fail(struct tls_connect *c, enum err err, const char *detail)
{
    tls_connect_callback *callback = c->callback;
    void *ctx = c->ctx;

    tls_connect_cancel(c);
    callback(ctx, err, NULL, detail);
}

/* Why the handshake failed: text of OpenSSL or of the system, which name no address. */
static void fail_handshake(struct tls_connect *c, int result, int number)
{
    long verified = SSL_get_verify_result(c->ssl);
    unsigned long code = ERR_peek_error();
    const char *detail = code != 0 ? ERR_reason_error_string(code) : NULL;

    /* A session that may be to blame is not offered again. */
    tls_sessions_drop(c->upstream->sessions, SSL_get_ex_data(c->ssl, name_index));
    if (verified != X509_V_OK) {
        fail(c, ERR_UPSTREAM_CERTIFICATE, X509_verify_cert_error_string(verified));
        return;
    }
    if (detail == NULL && SSL_get_error(c->ssl, result) == SSL_ERROR_SYSCALL && number != 0)
        detail = strerror(number);
    fail(c, ERR_UPSTREAM_TLS, detail != NULL ? detail : "connection closed in the handshake");
}

static void succeed(struct tls_connect *c)
{
    tls_connect_callback *callback = c->callback;
    void *ctx = c->ctx;

    ev_io_stop(c->loop, &c->io);
    struct stream *stream = stream_tls(c->loop, c->fd, c->ssl);
    free(c);
    callback(ctx, ERR_NONE, stream, NULL);
}

static void wait_for(struct tls_connect *c, int events)
{
    ev_io_stop(c->loop, &c->io);
    ev_io_modify(&c->io, events);
    ev_io_start(c->loop, &c->io);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
    struct tls_connect *c = io->data;

    (void)loop;
    (void)revents;
    if (c->ssl == NULL) {
        fail(c, ERR_UPSTREAM_TLS, "TLS could not be set up");
        return;
    }
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(c->ssl);
    int number = errno;
    if (result == 1) {
        succeed(c);
        return;
    }
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        wait_for(c, EV_READ);
        break;
    case SSL_ERROR_WANT_WRITE:
        wait_for(c, EV_WRITE);
        break;
    default:
        fail_handshake(c, result, number);
        break;
    }
}

struct tls_connect *tls_connect_start(struct tls_upstream *t, struct ev_loop *loop, int fd,
                                      const struct host *name, const unsigned char *alpn,
                                      size_t alpn_len, tls_connect_callback *callback, void *ctx)
{
    struct tls_connect *c = mem_alloc(sizeof *c);

    c->upstream = t;
    c->loop = loop;
    c->fd = fd;
    c->callback = callback;
    c->ctx = ctx;
    c->ssl = make_ssl(t, fd, name, alpn, alpn_len);
    ev_io_init(&c->io, on_io, fd, EV_WRITE);
    c->io.data = c;
    ev_io_start(loop, &c->io);
    return c;
}

void tls_connect_cancel(struct tls_connect *c)
{
    ev_io_stop(c->loop, &c->io);
    SSL_free(c->ssl);
    ERR_clear_error();
    close(c->fd);
    free(c);
}
