/* TLS to a server: whom we trust, what a failure is called, resumption. */
#include "tests/unit/tls_peer.h"

#include "proxy/tls/sessions.h"

static struct tls_upstream *new_upstream(void)
{
    struct tls_upstream *t = tls_upstream_new(false);

    assert_non_null(t);
    return t;
}

/* One handshake with a server of this identity. */
static void expect(const struct identity *id, const char *name, enum err err, const char *detail)
{
    struct tls_upstream *t = new_upstream();
    SSL_CTX *ctx = server_context(id);
    struct client c;
    struct peer p;

    client_connect(&c, t, peer_start(&p, ctx, NULL), name);
    if (c.err != err || strstr(c.detail, detail) == NULL)
        fail_msg("%s: error %d, '%s'", name, (int)c.err, c.detail);
    client_free(&c);
    peer_join(&p);
    if (err == ERR_NONE)
        assert_string_equal(p.sni, host_of(name).is_address ? "" : name);
    SSL_CTX_free(ctx);
    tls_upstream_free(t);
}

static void expect_made(const char *common_name, const char *san, const char *name, enum err err,
                        const char *detail)
{
    struct identity id = make_identity(&authority, common_name, san, false, DAY);

    expect(&id, name, err, detail);
    free_identity(&id);
}

static void test_good(void **state)
{
    (void)state;
    expect_made("x", "DNS:ok.test", "ok.test", ERR_NONE, "");
    expect_made("x", "DNS:*.ok.test", "a.ok.test", ERR_NONE, "");
    expect_made("x", "DNS:no.test,IP:127.0.0.1", "127.0.0.1", ERR_NONE, "");
    expect_made("x", "IP:::1", "::1", ERR_NONE, "");
}

static void test_wrong_name(void **state)
{
    static const struct {
        const char *common_name, *san, *name;
    } cases[] = {
        {"x", "DNS:no.test", "ok.test"},        {"x", "DNS:*.ok.test", "ok.test"},
        {"x", "DNS:*.ok.test", "a.b.ok.test"},  {"x", "DNS:f*.ok.test", "foo.ok.test"},
        {"ok.test", NULL, "ok.test"},           {"ok.test", "DNS:no.test", "ok.test"},
        {"ok.test", "IP:127.0.0.1", "ok.test"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_made(cases[i].common_name, cases[i].san, cases[i].name, ERR_UPSTREAM_CERTIFICATE,
                    "hostname mismatch");
}

static void test_wrong_address(void **state)
{
    (void)state;
    expect_made("x", "IP:127.0.0.2", "127.0.0.1", ERR_UPSTREAM_CERTIFICATE, "IP address mismatch");
    expect_made("127.0.0.1", "DNS:127.0.0.1", "127.0.0.1", ERR_UPSTREAM_CERTIFICATE,
                "IP address mismatch");
}

static void test_untrusted(void **state)
{
    (void)state;
    struct identity id = make_identity(&authority, "x", "DNS:ok.test", false, -DAY);
    expect(&id, "ok.test", ERR_UPSTREAM_CERTIFICATE, "expired");
    free_identity(&id);

    id = make_identity(NULL, "x", "DNS:ok.test", false, DAY);
    expect(&id, "ok.test", ERR_UPSTREAM_CERTIFICATE, "self-signed");
    free_identity(&id);

    struct identity other = make_identity(NULL, "test authority", NULL, true, DAY);
    id = make_identity(&other, "x", "DNS:ok.test", false, DAY);
    expect(&id, "ok.test", ERR_UPSTREAM_CERTIFICATE, "");
    free_identity(&id);
    free_identity(&other);

    /* A leaf is no authority. */
    struct identity leaf = make_identity(&authority, "leaf", "DNS:a.test", false, DAY);
    id = make_identity(&leaf, "x", "DNS:ok.test", false, DAY);
    expect(&id, "ok.test", ERR_UPSTREAM_CERTIFICATE, "");
    free_identity(&id);
    free_identity(&leaf);
}

static void test_old_protocol(void **state)
{
    struct identity id = make_identity(&authority, "x", "DNS:ok.test", false, DAY);
    struct tls_upstream *t = new_upstream();
    SSL_CTX *ctx = server_context(&id);
    struct client c;
    struct peer p;

    (void)state;
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION);
    SSL_CTX_set_security_level(ctx, 0);
    client_connect(&c, t, peer_start(&p, ctx, NULL), "ok.test");
    assert_int_equal(c.err, ERR_UPSTREAM_TLS);
    assert_true(c.detail[0] != 0);
    client_free(&c);
    peer_join(&p);
    assert_false(p.handshaken);
    SSL_CTX_free(ctx);
    tls_upstream_free(t);
    free_identity(&id);
}

/* The other end sends some bytes and closes, or just closes. */
static void expect_no_tls(const char *bytes)
{
    struct tls_upstream *t = new_upstream();
    struct client c;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(write(pair[1], bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    shutdown(pair[1], SHUT_WR);
    client_connect(&c, t, pair[0], "ok.test");
    assert_int_equal(c.err, ERR_UPSTREAM_TLS);
    assert_true(c.detail[0] != 0);
    client_free(&c);
    close(pair[1]);
    tls_upstream_free(t);
}

static void test_no_tls(void **state)
{
    (void)state;
    expect_no_tls("HTTP/1.1 400 Bad Request\r\n\r\n");
    expect_no_tls("SSH-2.0-x\r\n");
    expect_no_tls("");
    expect_no_tls("\x16\x03\x03");
}

static void test_closed_at_once(void **state)
{
    struct tls_upstream *t = new_upstream();
    struct client c;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    close(pair[1]);
    client_connect(&c, t, pair[0], "ok.test");
    assert_int_equal(c.err, ERR_UPSTREAM_TLS);
    client_free(&c);
    tls_upstream_free(t);
}

static void test_empty_name(void **state)
{
    const struct host none = {.text = ""};
    struct tls_upstream *t = new_upstream();
    struct client c;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    client_init(&c);
    tls_connect_start(t, c.loop, pair[0], &none, NULL, 0, on_connected, &c);
    c.started = true;
    client_run(&c);
    assert_int_equal(c.err, ERR_UPSTREAM_TLS);
    client_free(&c);
    close(pair[1]);
    tls_upstream_free(t);
}

static void test_cancel(void **state)
{
    const struct host h = host_of("ok.test");
    struct tls_upstream *t = new_upstream();
    struct client c;
    int pair[2];
    char bytes[4096];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    client_init(&c);
    struct tls_connect *connect =
        tls_connect_start(t, c.loop, pair[0], &h, NULL, 0, on_connected, &c);
    c.started = true;
    ev_run(c.loop, EVRUN_ONCE);
    assert_true(read(pair[1], bytes, sizeof bytes) > 0); /* the ClientHello */
    tls_connect_cancel(connect);
    assert_int_equal(read(pair[1], bytes, sizeof bytes), 0);
    ev_run(c.loop, EVRUN_NOWAIT);
    assert_false(c.done);
    client_free(&c);
    close(pair[1]);
    tls_upstream_free(t);
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *argument)
{
    static const unsigned char ours[] = "\10http/1.1";
    unsigned char *chosen;

    (void)ssl;
    (void)argument;
    int result = SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len);
    *out = chosen;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void test_alpn(void **state)
{
    static const unsigned char offered[] = "\2h2\10http/1.1";
    struct identity id = make_identity(&authority, "x", "DNS:ok.test", false, DAY);
    const struct host h = host_of("ok.test");
    struct tls_upstream *t = new_upstream();
    SSL_CTX *ctx = server_context(&id);
    const unsigned char *chosen = NULL;
    struct client c;
    struct peer p;

    (void)state;
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    int fd = peer_start(&p, ctx, NULL);
    client_init(&c);
    tls_connect_start(t, c.loop, fd, &h, offered, sizeof offered - 1, on_connected, &c);
    c.started = true;
    client_run(&c);
    assert_int_equal(c.err, ERR_NONE);
    assert_int_equal(stream_tls_alpn(c.stream, &chosen), 8);
    assert_memory_equal(chosen, "http/1.1", 8);
    client_free(&c);
    peer_join(&p);

    client_connect(&c, t, peer_start(&p, ctx, NULL), "ok.test");
    assert_int_equal(stream_tls_alpn(c.stream, &chosen), 0);
    client_free(&c);
    peer_join(&p);
    SSL_CTX_free(ctx);
    tls_upstream_free(t);
    free_identity(&id);
}

/* Sends one byte, so that the client reads and sees what came with it (TLS 1.3 tickets). */
static void send_byte(struct peer *p, SSL *ssl)
{
    char byte;

    p->ok = SSL_write(ssl, "x", 1) == 1;
    SSL_read(ssl, &byte, 1);
}

static void on_byte(void *ctx, struct stream *s, int events)
{
    struct client *c = ctx;
    char byte;

    (void)events;
    if (stream_read(s, &byte, 1) == 1)
        ev_break(c->loop, EVBREAK_ALL);
}

static bool connect_and_read(struct tls_upstream *t, SSL_CTX *ctx, const char *name)
{
    struct client c;
    struct peer p;

    client_connect(&c, t, peer_start(&p, ctx, send_byte), name);
    assert_int_equal(c.err, ERR_NONE);
    stream_set_handler(c.stream, on_byte, &c);
    stream_want(c.stream, STREAM_READ);
    client_run(&c);
    client_free(&c); /* without close_notify: the session has to survive that */
    peer_join(&p);
    assert_true(p.ok);
    return p.reused;
}

static void check_resumption(int version)
{
    struct identity id =
        make_identity(&authority, "x", "DNS:ok.test,DNS:b.test,IP:127.0.0.1", false, DAY);
    struct tls_upstream *t = new_upstream();
    SSL_CTX *ctx = server_context(&id);

    SSL_CTX_set_max_proto_version(ctx, version);
    assert_false(connect_and_read(t, ctx, "ok.test"));
    assert_true(connect_and_read(t, ctx, "ok.test"));
    assert_true(connect_and_read(t, ctx, "ok.test"));
    assert_false(connect_and_read(t, ctx, "b.test"));
    assert_false(connect_and_read(t, ctx, "127.0.0.1"));
    assert_true(connect_and_read(t, ctx, "127.0.0.1"));
    assert_true(connect_and_read(t, ctx, "b.test"));
    SSL_CTX_free(ctx);
    tls_upstream_free(t);
    free_identity(&id);
}

static void test_resumption(void **state)
{
    (void)state;
    check_resumption(TLS1_3_VERSION);
    check_resumption(TLS1_2_VERSION);
}

/* A session is no way around the certificate of the server that answers now. */
static void test_session_of_another_server(void **state)
{
    struct identity good = make_identity(&authority, "x", "DNS:ok.test", false, DAY);
    struct identity bad = make_identity(NULL, "x", "DNS:ok.test", false, DAY);
    struct tls_upstream *t = new_upstream();
    SSL_CTX *good_ctx = server_context(&good);
    SSL_CTX *bad_ctx = server_context(&bad);
    struct client c;
    struct peer p;

    (void)state;
    assert_false(connect_and_read(t, good_ctx, "ok.test"));
    client_connect(&c, t, peer_start(&p, bad_ctx, NULL), "ok.test");
    assert_int_equal(c.err, ERR_UPSTREAM_CERTIFICATE);
    client_free(&c);
    peer_join(&p);
    assert_false(connect_and_read(t, good_ctx, "ok.test"));
    SSL_CTX_free(good_ctx);
    SSL_CTX_free(bad_ctx);
    tls_upstream_free(t);
    free_identity(&good);
    free_identity(&bad);
}

/* Tickets that come when the cache is gone. */
static void test_stream_outlives_upstream(void **state)
{
    struct identity id = make_identity(&authority, "x", "DNS:ok.test", false, DAY);
    struct tls_upstream *t = new_upstream();
    SSL_CTX *ctx = server_context(&id);
    struct client c;
    struct peer p;

    (void)state;
    client_connect(&c, t, peer_start(&p, ctx, send_byte), "ok.test");
    tls_upstream_free(t);
    stream_set_handler(c.stream, on_byte, &c);
    stream_want(c.stream, STREAM_READ);
    client_run(&c);
    client_free(&c);
    peer_join(&p);
    SSL_CTX_free(ctx);
    free_identity(&id);
}

static void write_root(const char *file, const struct identity *id)
{
    FILE *f = fopen(file, "we");

    assert_non_null(f);
    PEM_write_PrivateKey(f, id->key, NULL, NULL, 0, NULL, NULL);
    PEM_write_X509(f, id->certificate);
    fclose(f);
}

/* The directories of SSL_CERT_DIR and the file of NODE_EXTRA_CA_CERTS count too. */
static void test_other_roots(void **state)
{
    struct identity root = make_identity(NULL, "other", NULL, true, DAY);
    struct identity id = make_identity(&root, "x", "DNS:ok.test", false, DAY);
    char directory[64];
    char file[96];
    char list[160];

    (void)state;
    snprintf(directory, sizeof directory, "%s/roots", peer_directory);
    snprintf(file, sizeof file, "%s/any.crt", directory);
    snprintf(list, sizeof list, "/nonexistent:%s", directory);
    assert_int_equal(mkdir(directory, 0700), 0);
    write_root(file, &root);
    expect(&id, "ok.test", ERR_UPSTREAM_CERTIFICATE, "");
    setenv("SSL_CERT_DIR", list, 1);
    expect(&id, "ok.test", ERR_NONE, "");
    setenv("SSL_CERT_DIR", "/nonexistent", 1);
    setenv("NODE_EXTRA_CA_CERTS", file, 1);
    expect(&id, "ok.test", ERR_NONE, "");
    unsetenv("NODE_EXTRA_CA_CERTS");
    unlink(file);
    rmdir(directory);
    free_identity(&id);
    free_identity(&root);
}

static SSL_SESSION *make_session(unsigned char id)
{
    SSL_SESSION *session = SSL_SESSION_new();

    assert_non_null(session);
    SSL_SESSION_set1_id(session, &id, 1);
    return session;
}

static void test_session_cache(void **state)
{
    char name[32];

    (void)state;
    struct tls_sessions *s = tls_sessions_new();
    assert_null(tls_sessions_get(s, "n0"));
    for (int i = 0; i < TLS_SESSIONS_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        tls_sessions_put(s, name, make_session((unsigned char)i));
    }
    assert_int_equal(tls_sessions_count(s), TLS_SESSIONS_MAX);
    assert_non_null(tls_sessions_get(s, "n0"));
    tls_sessions_put(s, "more", make_session(1));
    assert_int_equal(tls_sessions_count(s), TLS_SESSIONS_MAX);
    assert_non_null(tls_sessions_get(s, "n0"));
    assert_null(tls_sessions_get(s, "n1"));
    assert_non_null(tls_sessions_get(s, "n255"));

    SSL_SESSION *fresh = make_session(7);
    tls_sessions_put(s, "n0", fresh);
    assert_ptr_equal(tls_sessions_get(s, "n0"), fresh);
    SSL_SESSION_set_time(fresh, time(NULL) - 1000);
    SSL_SESSION_set_timeout(fresh, 999);
    assert_null(tls_sessions_get(s, "n0"));
    assert_int_equal(tls_sessions_count(s), TLS_SESSIONS_MAX - 1);
    tls_sessions_drop(s, "n255");
    tls_sessions_drop(s, "n255");
    assert_null(tls_sessions_get(s, "n255"));
    assert_non_null(tls_sessions_get(s, "n254"));
    tls_sessions_free(s);
    tls_sessions_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_wrong_name),
        cmocka_unit_test(test_wrong_address),
        cmocka_unit_test(test_untrusted),
        cmocka_unit_test(test_old_protocol),
        cmocka_unit_test(test_no_tls),
        cmocka_unit_test(test_closed_at_once),
        cmocka_unit_test(test_empty_name),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_alpn),
        cmocka_unit_test(test_resumption),
        cmocka_unit_test(test_session_of_another_server),
        cmocka_unit_test(test_stream_outlives_upstream),
        cmocka_unit_test(test_other_roots),
        cmocka_unit_test(test_session_cache),
    };
    return cmocka_run_group_tests(tests, make_authority, remove_authority);
}
