#include "proxy/tls/accept.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "base/text.h"
#include "certs/leaf.h"
#include "proxy/tls/prefix_bio.h"
#include "proxy/tls/stream_tls.h"

struct tls_server {
    SSL_CTX *ctx;
    struct ca *ca;
};

struct tls_accept {
    struct ev_loop *loop;
    int fd;
    SSL *ssl; /* NULL when none could be made: told from the loop */
    ev_io io;
    enum hello_name state;
    char *server_name; /* as the hello was read; NULL: absent */
    tls_accept_callback *callback;
    void *ctx;
};

/* http/1.1 for whoever offers it; a client that offers only others gets the alert for that. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned n, void *arg)
{
    static const char http11[] = "http/1.1";
    (void)ssl;
    (void)arg;
    for (unsigned at = 0; at < n && offered[at] < n - at; at += 1U + offered[at]) {
        if (offered[at] == sizeof http11 - 1 &&
            memcmp(offered + at + 1, http11, sizeof http11 - 1) == 0) {
            *out = offered + at + 1;
            *out_len = offered[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The name is judged before and after; a session only keeps one that was acknowledged here. */
static int accept_name(SSL *ssl, int *alert, void *arg)
{
    (void)ssl;
    (void)alert;
    (void)arg;
    return SSL_TLSEXT_ERR_OK;
}

struct tls_server *tls_server_new(struct ca *ca, bool short_lived)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL || !leaf_prepare(ca, LEAF_EC) ||
        (!short_lived && !leaf_prepare(ca, LEAF_RSA))) {
        SSL_CTX_free(ctx);
        ERR_clear_error();
        return NULL;
    }
    struct tls_server *t = mem_alloc(sizeof *t);
    t->ctx = ctx;
    t->ca = ca_ref(ca);
    stream_tls_context(ctx);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* Tickets alone: nothing is kept here for a client that may come back. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    SSL_CTX_set_tlsext_servername_callback(ctx, accept_name);
    /* Whatever strength the CA of an operator has, it is theirs to choose. */
    SSL_CTX_set_security_level(ctx, 1);
    return t;
}

void tls_server_free(struct tls_server *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->ctx);
    ca_unref(t->ca);
    free(t);
}

const struct buf *tls_server_revocations(struct tls_server *t)
{
    return ca_crl(t->ca);
}

/* A ticket is good for connections that show the same certificate and ask for it in the same way
 * alone: what a session is resumed with is what it was judged by. */
static bool bind_session(SSL *ssl, const char *name, const struct client_hello *hello)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    struct buf bound;
    buf_init(&bound, 2 * HELLO_NAME_MAX + 64);
    buf_printf(&bound, "%s %d %s", name, (int)hello->state,
               hello->state == HELLO_NAME ? hello->name : "");
    bool done =
        EVP_Digest(buf_data(&bound), buf_len(&bound), digest, &length, EVP_sha256(), NULL) == 1 &&
        SSL_set_session_id_context(ssl, digest, length) == 1;
    buf_free(&bound);
    return done;
}

static bool show_certificate(SSL *ssl, struct ca *ca, const char *name, bool ecdsa)
{
    struct leaf leaf;
    if (!leaf_get(ca, name, strlen(name), ecdsa ? LEAF_EC : LEAF_RSA, &leaf))
        return false;
    bool done = SSL_use_certificate(ssl, leaf.certificate) == 1 &&
                SSL_use_PrivateKey(ssl, leaf.key) == 1 && SSL_set1_chain(ssl, ca_chain(ca)) == 1;
    leaf_release(&leaf);
    return done;
}

static SSL *make_ssl(struct tls_server *t, int fd, struct buf *first,
                     const struct client_hello *hello, const char *name)
{
    SSL *ssl = SSL_new(t->ctx);
    BIO *bio = prefix_bio_new(fd, first);

    if (ssl == NULL || bio == NULL || !show_certificate(ssl, t->ca, name, hello->ecdsa) ||
        !bind_session(ssl, name, hello)) {
        SSL_free(ssl);
        BIO_free(bio);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    SSL_set_accept_state(ssl);
    return ssl;
}

static void fail(struct tls_accept *a, const char *detail)
{
    tls_accept_callback *callback = a->callback;
    void *ctx = a->ctx;

    tls_accept_cancel(a);
    callback(ctx, NULL, detail);
}

/* What was judged is what OpenSSL acted on. */
static bool names_agree(const struct tls_accept *a)
{
    const char *seen = SSL_get_servername(a->ssl, TLSEXT_NAMETYPE_host_name);
    if (a->state == HELLO_UNREADABLE)
        return true;
    if (seen == NULL || a->server_name == NULL)
        return seen == NULL && a->server_name == NULL;
    return text_equal_fold(seen, strlen(seen), a->server_name, strlen(a->server_name));
}

static void succeed(struct tls_accept *a)
{
    if (!names_agree(a)) {
        fail(a, "the server name was read in two ways");
        return;
    }
    tls_accept_callback *callback = a->callback;
    void *ctx = a->ctx;
    ev_io_stop(a->loop, &a->io);
    struct stream *stream = stream_tls(a->loop, a->fd, a->ssl);
    free(a->server_name);
    free(a);
    callback(ctx, stream, NULL);
}

static void wait_for(struct tls_accept *a, int events)
{
    ev_io_stop(a->loop, &a->io);
    ev_io_modify(&a->io, events);
    ev_io_start(a->loop, &a->io);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
    struct tls_accept *a = io->data;
    unsigned long code;
    const char *detail;

    (void)loop;
    (void)revents;
    if (a->ssl == NULL) {
        fail(a, "no certificate could be made");
        return;
    }
    ERR_clear_error();
    int result = SSL_do_handshake(a->ssl);
    if (result == 1) {
        succeed(a);
        return;
    }
    switch (SSL_get_error(a->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        wait_for(a, EV_READ);
        break;
    case SSL_ERROR_WANT_WRITE:
        wait_for(a, EV_WRITE);
        break;
    default:
        code = ERR_peek_error();
        detail = code != 0 ? ERR_reason_error_string(code) : NULL;
        fail(a, detail != NULL ? detail : "connection closed in the handshake");
        break;
    }
}

struct tls_accept *tls_accept_start(struct tls_server *t, struct ev_loop *loop, int fd,
                                    struct buf *first, const struct client_hello *hello,
                                    const char *name, tls_accept_callback *callback, void *ctx)
{
    struct tls_accept *a = mem_alloc(sizeof *a);

    a->loop = loop;
    a->fd = fd;
    a->state = hello->state;
    a->server_name = hello->state == HELLO_NAME ? mem_dup_n(hello->name, hello->name_len) : NULL;
    a->callback = callback;
    a->ctx = ctx;
    a->ssl = make_ssl(t, fd, first, hello, name);
    /* The first turn needs nothing of the socket: the hello is here. Writable it is at once. */
    ev_io_init(&a->io, on_io, fd, EV_WRITE);
    a->io.data = a;
    ev_io_start(loop, &a->io);
    return a;
}

void tls_accept_cancel(struct tls_accept *a)
{
    ev_io_stop(a->loop, &a->io);
    SSL_free(a->ssl);
    ERR_clear_error();
    close(a->fd);
    free(a->server_name);
    free(a);
}
