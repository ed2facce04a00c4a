/* The server side of TLS: bytes read ahead come first, names are bound, handshakes end one way. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "certs/leaf.h"
#include "proxy/tls/accept.h"
#include "proxy/tls/prefix_bio.h"

enum { DEADLINE_SECONDS = 20, CAPTURE_MAX = 16384 };

static struct ca *ca;
static struct tls_server *server;
static SSL_CTX *client_ctx;
static SSL_SESSION *session; /* the last one that a client was given */

static int keep_session(SSL *ssl, SSL_SESSION *s)
{
    (void)ssl;
    SSL_SESSION_free(session);
    session = s;
    return 1;
}

static int set_up(void **state)
{
    struct buf error;
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    buf_init(&error, 4096);
    ca = ca_create("accept", &error);
    buf_free(&error);
    server = ca != NULL ? tls_server_new(ca, true) : NULL;
    client_ctx = SSL_CTX_new(TLS_client_method());
    if (server == NULL || client_ctx == NULL)
        return -1;
    SSL_CTX_set_session_cache_mode(client_ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(client_ctx, keep_session);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(client_ctx), ca_certificate(ca));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    SSL_SESSION_free(session);
    SSL_CTX_free(client_ctx);
    tls_server_free(server);
    ca_unref(ca);
    return 0;
}

/* --- bytes that were read before ----------------------------------------------------------- */

struct pair {
    int ours, theirs; /* ours is non-blocking */
};

static struct pair make_pair(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    return (struct pair){fds[0], fds[1]};
}

static struct buf bytes(const char *text)
{
    struct buf b;
    buf_init(&b, 1024);
    buf_puts(&b, text);
    return b;
}

static void expect_read(BIO *bio, size_t most, const char *text)
{
    char p[64];
    size_t n = 0;
    assert_int_equal(BIO_read_ex(bio, p, most, &n), 1);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(p, text, n);
}

static void test_prefix_comes_first(void **state)
{
    struct pair pair = make_pair();
    struct buf first = bytes("before");
    BIO *bio = prefix_bio_new(pair.ours, &first);
    (void)state;
    assert_non_null(bio);
    assert_int_equal(buf_len(&first), 0);
    assert_int_equal(write(pair.theirs, "after", 5), 5);
    expect_read(bio, 4, "befo");
    expect_read(bio, 64, "re");
    expect_read(bio, 64, "after");
    BIO_free(bio);
    close(pair.ours);
    close(pair.theirs);
}

static void test_prefix_waits_and_ends(void **state)
{
    struct pair pair = make_pair();
    struct buf first = bytes("");
    BIO *bio = prefix_bio_new(pair.ours, &first);
    char p[8];
    size_t n;
    (void)state;
    assert_int_equal(BIO_read_ex(bio, p, sizeof p, &n), 0);
    assert_true(BIO_should_read(bio));
    assert_false(BIO_eof(bio));
    assert_int_equal(BIO_write_ex(bio, "out", 3, &n), 1);
    assert_int_equal(read(pair.theirs, p, sizeof p), 3);
    close(pair.theirs);
    assert_int_equal(BIO_read_ex(bio, p, sizeof p, &n), 0);
    assert_false(BIO_should_retry(bio));
    assert_true(BIO_eof(bio));
    assert_int_equal(BIO_write_ex(bio, "out", 3, &n), 0); /* and no SIGPIPE */
    assert_false(BIO_should_retry(bio));
    BIO_free(bio);
    close(pair.ours);
}

static void test_prefix_that_is_not_read(void **state)
{
    struct pair pair = make_pair();
    struct buf first = bytes("left over");
    (void)state;
    BIO_free(prefix_bio_new(pair.ours, &first));
    close(pair.ours);
    close(pair.theirs);
}

/* --- handshakes ---------------------------------------------------------------------------- */

/* Both ends on one loop: the client moves whenever its descriptor is readable. */
struct meeting {
    struct ev_loop *loop;
    struct pair pair;
    SSL *client;
    ev_io io;
    ev_timer deadline;
    struct tls_accept *accept;
    struct stream *stream;
    bool started, done;
    char detail[128];
};

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
    struct meeting *m = io->data;
    (void)revents;
    if (!SSL_is_init_finished(m->client)) {
        int result = SSL_do_handshake(m->client);
        if (result != 1 && SSL_get_error(m->client, result) != SSL_ERROR_WANT_READ)
            ev_io_stop(loop, io);
    }
    ERR_clear_error();
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void on_accepted(void *ctx, struct stream *stream, const char *detail)
{
    struct meeting *m = ctx;
    assert_true(m->started);
    assert_false(m->done);
    m->done = true;
    m->stream = stream;
    snprintf(m->detail, sizeof m->detail, "%s", detail != NULL ? detail : "");
    ev_break(m->loop, EVBREAK_ALL);
}

/* The client's first flight, taken off its socket as the sniffer does. */
static struct buf take_hello(const struct meeting *m)
{
    struct buf first;
    buf_init(&first, CAPTURE_MAX);
    uint8_t *p = buf_reserve(&first, CAPTURE_MAX);
    ssize_t n = read(m->pair.ours, p, CAPTURE_MAX);
    assert_true(n > 0);
    buf_commit(&first, (size_t)n);
    return first;
}

static void open_client(struct meeting *m, const char *server_name, SSL_SESSION *resumed)
{
    *m = (struct meeting){.loop = ev_loop_new(EVFLAG_AUTO), .pair = make_pair()};
    assert_int_equal(fcntl(m->pair.theirs, F_SETFL, O_NONBLOCK), 0);
    m->client = SSL_new(client_ctx);
    SSL_set_fd(m->client, m->pair.theirs);
    SSL_set_connect_state(m->client);
    if (server_name != NULL)
        SSL_set_tlsext_host_name(m->client, server_name);
    if (resumed != NULL)
        SSL_set_session(m->client, resumed);
    assert_int_equal(SSL_do_handshake(m->client), -1);
    ev_io_init(&m->io, on_client, m->pair.theirs, EV_READ);
    m->io.data = m;
    ev_io_start(m->loop, &m->io);
    ev_timer_init(&m->deadline, on_deadline, DEADLINE_SECONDS, 0);
    ev_timer_start(m->loop, &m->deadline);
}

/* judged: what the hello was read as, NULL: as it is. */
static void meet(struct meeting *m, const char *name, const struct client_hello *judged)
{
    struct buf first = take_hello(m);
    struct client_hello hello;
    client_hello_read(buf_data(&first), buf_len(&first), &hello);
    m->accept = tls_accept_start(server, m->loop, m->pair.ours, &first,
                                 judged != NULL ? judged : &hello, name, on_accepted, m);
    m->started = true;
    ev_run(m->loop, 0);
    assert_true(m->done);
}

static void part(struct meeting *m)
{
    stream_close(&m->stream);
    ev_io_stop(m->loop, &m->io);
    ev_timer_stop(m->loop, &m->deadline);
    /* Else the session would be taken for a broken one. */
    SSL_set_shutdown(m->client, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(m->client);
    ERR_clear_error();
    close(m->pair.theirs);
    ev_loop_destroy(m->loop);
}

/* Whether a client with that name and session comes through, and what by. */
static bool comes_through(const char *server_name, const char *name,
                          const struct client_hello *judged, SSL_SESSION *resumed, bool *reused,
                          char *detail)
{
    struct meeting m;
    open_client(&m, server_name, resumed);
    meet(&m, name, judged);
    bool through = m.stream != NULL;
    if (through) {
        char byte;
        assert_int_equal(stream_write(m.stream, "x", 1), 1);
        (void)SSL_do_handshake(m.client);
        assert_int_equal(SSL_read(m.client, &byte, 1), 1); /* and a ticket before it */
    }
    if (reused != NULL)
        *reused = SSL_session_reused(m.client) == 1;
    if (detail != NULL)
        memcpy(detail, m.detail, sizeof m.detail);
    part(&m);
    return through;
}

static struct client_hello named(const char *name)
{
    struct client_hello hello = {.state = HELLO_NAME, .ecdsa = true};
    hello.name_len = strlen(name);
    memcpy(hello.name, name, hello.name_len);
    return hello;
}

static void test_names_that_agree(void **state)
{
    const struct client_hello unreadable = {.state = HELLO_UNREADABLE, .ecdsa = true};
    (void)state;
    assert_true(comes_through("ok.test", "ok.test", NULL, NULL, NULL, NULL));
    assert_true(comes_through("OK.test", "ok.test", NULL, NULL, NULL, NULL));
    assert_true(comes_through(NULL, "ok.test", NULL, NULL, NULL, NULL));
    assert_true(comes_through("ok_test", "ok.test", NULL, NULL, NULL, NULL));
    assert_true(comes_through("ok.test", "ok.test", &unreadable, NULL, NULL, NULL));
}

static void test_names_that_disagree(void **state)
{
    const struct client_hello other = named("two.test"),
                              absent = {.state = HELLO_ABSENT, .ecdsa = true};
    char detail[128];
    (void)state;
    assert_false(comes_through("ok.test", "ok.test", &other, NULL, NULL, detail));
    assert_string_equal(detail, "the server name was read in two ways");
    assert_false(comes_through("ok.test", "ok.test", &absent, NULL, NULL, detail));
    assert_string_equal(detail, "the server name was read in two ways");
    assert_false(comes_through(NULL, "ok.test", &other, NULL, NULL, detail));
    assert_string_equal(detail, "the server name was read in two ways");
}

static void check_sessions(int version)
{
    bool reused;
    SSL_CTX_set_max_proto_version(client_ctx, version);
    assert_true(comes_through("ok.test", "ok.test", NULL, NULL, &reused, NULL));
    assert_false(reused);
    SSL_SESSION *first = session;
    session = NULL;
    assert_true(comes_through("ok.test", "ok.test", NULL, first, &reused, NULL));
    assert_true(reused);
    /* another certificate, another name in the same, no name at all */
    static const char *const others[][2] = {
        {"two.test", "two.test"}, {"two.test", "ok.test"}, {NULL, "ok.test"}};
    for (size_t i = 0; i < 3; i++) {
        assert_true(comes_through(others[i][0], others[i][1], NULL, first, &reused, NULL));
        assert_false(reused);
    }
    SSL_SESSION_free(first);
    SSL_CTX_set_max_proto_version(client_ctx, 0);
}

static void test_sessions_are_bound_to_the_name(void **state)
{
    (void)state;
    check_sessions(TLS1_2_VERSION);
    check_sessions(TLS1_3_VERSION);
}

static void test_a_name_without_a_certificate(void **state)
{
    char detail[128];
    (void)state;
    assert_false(comes_through("ok.test", "*.test", NULL, NULL, NULL, detail));
    assert_string_equal(detail, "no certificate could be made");
}

static void test_a_client_that_goes(void **state)
{
    struct meeting m;
    (void)state;
    open_client(&m, "ok.test", NULL);
    struct buf first = take_hello(&m);
    struct client_hello hello;
    client_hello_read(buf_data(&first), buf_len(&first), &hello);
    shutdown(m.pair.theirs, SHUT_RDWR);
    ev_io_stop(m.loop, &m.io);
    m.accept =
        tls_accept_start(server, m.loop, m.pair.ours, &first, &hello, "ok.test", on_accepted, &m);
    m.started = true;
    ev_run(m.loop, 0);
    assert_true(m.done);
    assert_null(m.stream);
    part(&m);
}

static void test_cancelled(void **state)
{
    (void)state;
    for (int turns = 0; turns < 3; turns++) {
        struct meeting m;
        open_client(&m, "ok.test", NULL);
        struct buf first = take_hello(&m);
        struct client_hello hello;
        client_hello_read(buf_data(&first), buf_len(&first), &hello);
        ev_io_stop(m.loop, &m.io); /* the client answers no more */
        m.accept = tls_accept_start(server, m.loop, m.pair.ours, &first, &hello, "ok.test",
                                    on_accepted, &m);
        for (int i = 0; i < turns; i++)
            ev_run(m.loop, EVRUN_NOWAIT);
        assert_false(m.done);
        tls_accept_cancel(m.accept);
        part(&m);
    }
}

static void test_the_server_may_go_first(void **state)
{
    struct meeting m;
    struct tls_server *other = tls_server_new(ca, true), *kept = server;
    (void)state;
    assert_non_null(other);
    open_client(&m, "ok.test", NULL);
    server = other;
    meet(&m, "ok.test", NULL);
    server = kept;
    tls_server_free(other);
    assert_non_null(m.stream);
    assert_int_equal(stream_write(m.stream, "x", 1), 1);
    part(&m);
}

static void test_revocations(void **state)
{
    (void)state;
    const struct buf *list = tls_server_revocations(server);
    assert_non_null(list);
    const unsigned char *p = buf_data(list);
    X509_CRL *crl = d2i_X509_CRL(NULL, &p, (long)buf_len(list));
    assert_non_null(crl);
    X509_CRL_free(crl);
}

/* The RSA key of a CA's leaves, as a digest. Made here if there is none. */
static bool rsa_leaf_key(struct ca *from, unsigned char digest[EVP_MAX_MD_SIZE])
{
    struct leaf leaf;
    unsigned n = 0;
    memset(digest, 0, EVP_MAX_MD_SIZE);
    if (!leaf_get(from, "ok.test", 7, LEAF_RSA, &leaf))
        return false;
    bool done = X509_pubkey_digest(leaf.certificate, EVP_sha256(), digest, &n) == 1;
    leaf_release(&leaf);
    return done;
}

/* Whether the key was there before this: only then a child gets the same. */
static bool has_rsa_key(struct ca *of)
{
    unsigned char ours[EVP_MAX_MD_SIZE], theirs[EVP_MAX_MD_SIZE];
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(rsa_leaf_key(of, theirs) && write(fds[1], theirs, sizeof theirs) == sizeof theirs
                  ? 0
                  : 1);
    assert_int_equal(read(fds[0], theirs, sizeof theirs), sizeof theirs);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(fds[1]);
    assert_true(rsa_leaf_key(of, ours));
    return memcmp(ours, theirs, sizeof ours) == 0;
}

static void test_no_client_waits_for_a_key(void **state)
{
    (void)state;
    for (int short_lived = 0; short_lived <= 1; short_lived++) {
        struct buf error;
        buf_init(&error, 4096);
        struct ca *fresh = ca_create("keys", &error);
        assert_non_null(fresh);
        struct tls_server *t = tls_server_new(fresh, short_lived != 0);
        assert_non_null(t);
        assert_int_equal(has_rsa_key(fresh), short_lived == 0);
        assert_true(has_rsa_key(fresh));
        tls_server_free(t);
        ca_unref(fresh);
        buf_free(&error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_comes_first),
        cmocka_unit_test(test_prefix_waits_and_ends),
        cmocka_unit_test(test_prefix_that_is_not_read),
        cmocka_unit_test(test_names_that_agree),
        cmocka_unit_test(test_names_that_disagree),
        cmocka_unit_test(test_sessions_are_bound_to_the_name),
        cmocka_unit_test(test_a_name_without_a_certificate),
        cmocka_unit_test(test_a_client_that_goes),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_the_server_may_go_first),
        cmocka_unit_test(test_revocations),
        cmocka_unit_test(test_no_client_waits_for_a_key),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
