/*
 * A TLS server in a thread at the other end of a socket pair, with certificates
 * made on the spot, and the client under test on a loop with a deadline.
 */
#ifndef TESTS_TLS_PEER_H
#define TESTS_TLS_PEER_H

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "proxy/tls/stream_tls.h"
#include "proxy/tls/upstream.h"

enum { DAY = 86400, DEADLINE_SECONDS = 20 };

struct identity {
    EVP_PKEY *key;
    X509 *certificate;
};

static struct identity authority;
static char peer_directory[] = "/tmp/test_tls.XXXXXX";

static inline void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

/* issuer NULL: self-signed. san NULL: none. Valid until now + `until` seconds. */
static inline struct identity make_identity(const struct identity *issuer, const char *common_name,
                                            const char *san, bool ca, long until)
{
    struct identity id = {.key = EVP_EC_gen("P-256"), .certificate = X509_new()};
    X509 *x = id.certificate;
    static long serial = 1;

    assert_non_null(id.key);
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x), -30L * DAY);
    X509_gmtime_adj(X509_getm_notAfter(x), until);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)common_name, -1, -1, 0);
    X509 *signer = issuer != NULL ? issuer->certificate : x;
    X509_set_issuer_name(x, X509_get_subject_name(signer));
    X509_set_pubkey(x, id.key);
    add_extension(x, signer, NID_basic_constraints, ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (san != NULL)
        add_extension(x, signer, NID_subject_alt_name, san);
    assert_true(X509_sign(x, issuer != NULL ? issuer->key : id.key, EVP_sha256()) > 0);
    return id;
}

static inline void free_identity(struct identity *id)
{
    EVP_PKEY_free(id->key);
    X509_free(id->certificate);
    *id = (struct identity){0};
}

/* Group set-up: an authority whose certificate is the only root there is. */
static inline int make_authority(void **state)
{
    char file[64];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(peer_directory) == NULL)
        return -1;
    authority = make_identity(NULL, "test authority", NULL, true, 30L * DAY);
    snprintf(file, sizeof file, "%s/root.pem", peer_directory);
    FILE *f = fopen(file, "we");
    if (f == NULL)
        return -1;
    PEM_write_X509(f, authority.certificate);
    fclose(f);
    setenv("SSL_CERT_FILE", file, 1);
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    unsetenv("NODE_EXTRA_CA_CERTS");
    return 0;
}

static inline int remove_authority(void **state)
{
    char file[64];

    (void)state;
    snprintf(file, sizeof file, "%s/root.pem", peer_directory);
    unlink(file);
    free_identity(&authority);
    return rmdir(peer_directory);
}

/* What the server does once the handshake is done; ssl is blocking. */
struct peer;
typedef void peer_script(struct peer *p, SSL *ssl);

struct peer {
    SSL_CTX *ctx;
    int fd;
    peer_script *script;
    pthread_t thread;
    bool handshaken, reused, ok; /* ok: the script's verdict */
    char sni[256];
};

static inline void *peer_main(void *argument)
{
    struct peer *p = argument;
    SSL *ssl = SSL_new(p->ctx);

    SSL_set_fd(ssl, p->fd);
    p->handshaken = SSL_accept(ssl) == 1;
    if (p->handshaken) {
        const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        snprintf(p->sni, sizeof p->sni, "%s", name != NULL ? name : "");
        p->reused = SSL_session_reused(ssl) == 1;
        if (p->script != NULL)
            p->script(p, ssl);
    }
    close(p->fd);
    SSL_free(ssl);
    ERR_clear_error();
    OPENSSL_thread_stop();
    return NULL;
}

static inline SSL_CTX *server_context(const struct identity *id)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    assert_non_null(ctx);
    assert_int_equal(SSL_CTX_use_certificate(ctx, id->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, id->key), 1);
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"test", 4);
    return ctx;
}

/* Starts the server; returns the client's end, non-blocking. */
static inline int peer_start(struct peer *p, SSL_CTX *ctx, peer_script *script)
{
    int pair[2];

    *p = (struct peer){.ctx = ctx, .script = script};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    p->fd = pair[1];
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
    return pair[0];
}

static inline void peer_join(struct peer *p)
{
    assert_int_equal(pthread_join(p->thread, NULL), 0);
}

/* Bytes that show where they belong. */
enum { PIECE = 20000 };

static inline uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) * 7);
}

static inline bool check_pattern(const uint8_t *p, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != pattern(at + i))
            return false;
    return true;
}

static inline bool send_pattern(SSL *ssl, size_t from, size_t n, size_t piece)
{
    static _Thread_local uint8_t bytes[PIECE];

    for (size_t at = from; at < from + n;) {
        size_t part = from + n - at < piece ? from + n - at : piece;
        for (size_t i = 0; i < part; i++)
            bytes[i] = pattern(at + i);
        int done = SSL_write(ssl, bytes, (int)part);
        if (done <= 0)
            return false;
        at += (size_t)done;
    }
    return true;
}

static inline bool receive_pattern(SSL *ssl, size_t n)
{
    static _Thread_local uint8_t bytes[PIECE];

    for (size_t at = 0; at < n;) {
        int got = SSL_read(ssl, bytes, sizeof bytes);
        if (got <= 0 || !check_pattern(bytes, (size_t)got, at))
            return false;
        at += (size_t)got;
    }
    return true;
}

static inline bool receive_end(SSL *ssl)
{
    char byte;
    int result = SSL_read(ssl, &byte, 1);

    return result == 0 && SSL_get_error(ssl, result) == SSL_ERROR_ZERO_RETURN;
}

struct client {
    struct ev_loop *loop;
    ev_timer deadline;
    bool started, done, late;
    enum err err;
    struct stream *stream;
    char detail[256];
};

static inline void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct client *c = timer->data;

    (void)revents;
    c->late = true;
    ev_break(loop, EVBREAK_ALL);
}

static inline void client_init(struct client *c)
{
    *c = (struct client){.loop = ev_loop_new(EVFLAG_AUTO)};
    ev_timer_init(&c->deadline, on_deadline, DEADLINE_SECONDS, 0);
    c->deadline.data = c;
    ev_timer_start(c->loop, &c->deadline);
}

static inline void client_run(struct client *c)
{
    ev_run(c->loop, 0);
    assert_false(c->late);
}

static inline void client_free(struct client *c)
{
    stream_close(&c->stream);
    ev_timer_stop(c->loop, &c->deadline);
    ev_loop_destroy(c->loop);
}

static inline void on_connected(void *ctx, enum err err, struct stream *stream, const char *detail)
{
    struct client *c = ctx;

    assert_true(c->started);
    assert_false(c->done);
    assert_true((err == ERR_NONE) == (stream != NULL));
    c->done = true;
    c->err = err;
    c->stream = stream;
    snprintf(c->detail, sizeof c->detail, "%s", detail != NULL ? detail : "");
    ev_break(c->loop, EVBREAK_ALL);
}

static inline struct host host_of(const char *text)
{
    struct host h;

    assert_int_equal(host_canonicalise(text, strlen(text), &h), HOST_OK);
    return h;
}

/* A whole handshake; the result is in c. */
static inline void client_connect(struct client *c, struct tls_upstream *t, int fd,
                                  const char *name)
{
    struct host h = host_of(name);

    client_init(c);
    assert_non_null(tls_connect_start(t, c->loop, fd, &h, NULL, 0, on_connected, c));
    c->started = true;
    client_run(c);
    assert_true(c->done);
}

#endif
