/* TLS as a stream: level-triggered events, back-pressure, ends and cuts. */
#include "tests/unit/tls_peer.h"

#include <errno.h>
#include <poll.h>

enum { BULK = 6 << 20 };

static struct tls_upstream *upstream;
static struct identity server;
static SSL_CTX *server_ctx;

static int set_up(void **state)
{
    if (make_authority(state) != 0)
        return -1;
    server = make_identity(&authority, "x", "DNS:ok.test", false, DAY);
    server_ctx = server_context(&server);
    upstream = tls_upstream_new(false);
    return upstream == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    tls_upstream_free(upstream);
    SSL_CTX_free(server_ctx);
    free_identity(&server);
    return remove_authority(state);
}

/* The client of one test: what its handler saw and does. */
struct session {
    struct client client; /* first: handlers get the session */
    struct peer peer;
    size_t received, sent, calls;
    size_t read_size;
    ssize_t last;
    int number;
    bool in_handler, shut;
    uint8_t bytes[65536];
};

static void begin(struct session *s, peer_script *script, stream_handler *handler)
{
    memset(s, 0, sizeof *s);
    client_connect(&s->client, upstream, peer_start(&s->peer, server_ctx, script), "ok.test");
    if (s->client.err != ERR_NONE)
        fail_msg("%s", s->client.detail);
    s->read_size = sizeof s->bytes;
    stream_set_handler(s->client.stream, handler, s);
}

static void finish(struct session *s)
{
    client_free(&s->client);
    peer_join(&s->peer);
    assert_true(s->peer.ok);
}

/* Reads once per event until the end or a failure, which breaks the loop. */
static void read_once(void *ctx, struct stream *stream, int events)
{
    struct session *s = ctx;

    assert_true(events & STREAM_READ);
    assert_false(s->in_handler);
    s->calls++;
    ssize_t n = stream_read(stream, s->bytes, s->read_size);
    if (n > 0) {
        assert_true(check_pattern(s->bytes, (size_t)n, s->received));
        s->received += (size_t)n;
        return;
    }
    if (n < 0 && errno == EAGAIN)
        return;
    s->last = n;
    s->number = errno;
    ev_break(s->client.loop, EVBREAK_ALL);
}

static void orderly_script(struct peer *p, SSL *ssl)
{
    p->ok = send_pattern(ssl, 0, 100000, PIECE) && SSL_shutdown(ssl) >= 0;
}

static void test_orderly_end(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, orderly_script, read_once);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.last, 0);
    assert_int_equal(s.received, 100000);
    assert_false(stream_tls_truncated(s.client.stream));
    finish(&s);
}

static void truncated_script(struct peer *p, SSL *ssl)
{
    p->ok = send_pattern(ssl, 0, 1000, PIECE);
    SSL_set_quiet_shutdown(ssl, 1);
}

static void test_truncated(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, truncated_script, read_once);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.received, 1000);
    assert_int_equal(s.last, -1);
    assert_int_equal(s.number, EPROTO);
    assert_true(stream_tls_truncated(s.client.stream));
    /* and it stays so, for whoever wants to know */
    assert_int_equal(stream_write(s.client.stream, "x", 1), -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(stream_shutdown(s.client.stream), -1);
    s.calls = 0;
    stream_want(s.client.stream, 0);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.calls, 1);
    finish(&s);
}

static void garbage_script(struct peer *p, SSL *ssl)
{
    char byte;

    p->ok = send_pattern(ssl, 0, 10, PIECE) && write(p->fd, "this is no record at all", 24) == 24;
    while (read(p->fd, &byte, 1) > 0)
        continue;
}

static void test_garbage(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, garbage_script, read_once);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.received, 10);
    assert_int_equal(s.last, -1);
    assert_int_equal(s.number, EPROTO);
    assert_false(stream_tls_truncated(s.client.stream));
    finish(&s);
}

static void small_reads_script(struct peer *p, SSL *ssl)
{
    p->ok = send_pattern(ssl, 0, 50000, 16000) && receive_pattern(ssl, 1);
}

static void read_until_50000(void *ctx, struct stream *stream, int events)
{
    struct session *s = ctx;

    read_once(ctx, stream, events);
    if (s->received == 50000)
        ev_break(s->client.loop, EVBREAK_ALL);
}

/* The kernel has handed over everything long before the reader has seen it. */
static void test_small_reads(void **state)
{
    static struct session s;
    const uint8_t first = pattern(0);

    (void)state;
    begin(&s, small_reads_script, read_until_50000);
    s.read_size = 100;
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.received, 50000);
    assert_in_range(s.calls, 500, 1100);
    assert_int_equal(stream_write(s.client.stream, &first, 1), 1);
    finish(&s);
}

static void on_tick(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)timer;
    (void)revents;
    ev_break(loop, EVBREAK_ALL);
}

static void run_for(struct session *s, double seconds)
{
    ev_timer tick;

    ev_timer_init(&tick, on_tick, seconds, 0);
    ev_timer_start(s->client.loop, &tick);
    client_run(&s->client);
    ev_timer_stop(s->client.loop, &tick);
}

static void read_and_pause(void *ctx, struct stream *stream, int events)
{
    struct session *s = ctx;
    size_t before = s->received;

    read_once(ctx, stream, events);
    if (s->received == before)
        return;
    stream_want(stream, 0);
    ev_break(s->client.loop, EVBREAK_ALL);
}

/* Not wanted: no call, whatever is pending. Wanted again: a call, from the loop alone. */
static void test_pause_with_pending_bytes(void **state)
{
    static struct session s;
    const uint8_t first = pattern(0);

    (void)state;
    begin(&s, small_reads_script, read_and_pause);
    s.read_size = 1000;
    for (size_t i = 1; i <= 50; i++) {
        s.in_handler = true; /* a call from inside stream_want() would trip over this */
        stream_want(s.client.stream, STREAM_READ);
        s.in_handler = false;
        client_run(&s.client);
        assert_int_equal(s.received, i * 1000);
        size_t calls = s.calls;
        unsigned turns = ev_iteration(s.client.loop);
        run_for(&s, 0.01);
        assert_int_equal(s.calls, calls);
        assert_in_range(ev_iteration(s.client.loop) - turns, 0, 5);
    }
    assert_int_equal(stream_write(s.client.stream, &first, 1), 1);
    finish(&s);
}

static void quiet_script(struct peer *p, SSL *ssl)
{
    p->ok = send_pattern(ssl, 0, 10, PIECE) && receive_end(ssl);
}

/* With nothing to read, wanting it costs no turns of the loop. */
static void test_idle_is_idle(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, quiet_script, read_once);
    stream_want(s.client.stream, STREAM_READ);
    while (s.received < 10)
        run_for(&s, 0.01);
    assert_int_equal(stream_read(s.client.stream, s.bytes, 1), -1);
    assert_int_equal(errno, EAGAIN);
    unsigned turns = ev_iteration(s.client.loop);
    size_t calls = s.calls;
    run_for(&s, 0.05);
    assert_int_equal(s.calls, calls);
    assert_in_range(ev_iteration(s.client.loop) - turns, 0, 5);
    assert_int_equal(stream_shutdown(s.client.stream), 0);
    finish(&s);
}

/* Counters of a server that sends and takes BULK bytes at the same time. */
struct bulk {
    size_t sent, received, blocked; /* blocked: size of the write to be repeated */
    bool failed;
};

static bool may_go_on(SSL *ssl, int result)
{
    int error = SSL_get_error(ssl, result);

    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

static bool bulk_send(struct bulk *b, SSL *ssl)
{
    static uint8_t bytes[PIECE];
    size_t part = BULK - b->sent < PIECE ? BULK - b->sent : PIECE;

    if (part == 0)
        return false;
    for (size_t i = 0; i < part; i++)
        bytes[i] = pattern(b->sent + i);
    if (b->blocked == 0 && b->sent % 1000000 < PIECE)
        SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED); /* see stream_tls.h */
    int n = SSL_write(ssl, bytes, (int)part);
    b->blocked = n > 0 ? 0 : part;
    b->sent += n > 0 ? (size_t)n : 0;
    b->failed = b->failed || (n <= 0 && !may_go_on(ssl, n));
    return n > 0;
}

static bool bulk_receive(struct bulk *b, SSL *ssl)
{
    static uint8_t bytes[PIECE];

    if (b->received == BULK)
        return false;
    int n = SSL_read(ssl, bytes, sizeof bytes);
    if (n > 0)
        b->failed = b->failed || !check_pattern(bytes, (size_t)n, b->received);
    b->received += n > 0 ? (size_t)n : 0;
    b->failed = b->failed || (n <= 0 && !may_go_on(ssl, n));
    return n > 0;
}

static void bulk_script(struct peer *p, SSL *ssl)
{
    struct bulk b = {0};

    fcntl(p->fd, F_SETFL, O_NONBLOCK);
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
    while (!b.failed && (b.sent < BULK || b.received < BULK)) {
        bool moved = bulk_send(&b, ssl);
        moved = bulk_receive(&b, ssl) || moved;
        struct pollfd ready = {.fd = p->fd,
                               .events = (short)(POLLIN | (b.blocked != 0 ? POLLOUT : 0))};
        if (!moved)
            poll(&ready, 1, 1000);
    }
    fcntl(p->fd, F_SETFL, 0);
    p->ok = !b.failed && receive_end(ssl) && SSL_shutdown(ssl) >= 0;
}

static void send_bulk(struct session *s, struct stream *stream)
{
    static uint8_t bytes[3][PIECE];
    struct iovec iov[4];

    /* Pieces of odd sizes, an empty one among them. */
    size_t left = BULK - s->sent;
    size_t at = s->sent;
    const size_t sizes[4] = {7, 0, 9000, PIECE};
    int pieces = 0;
    for (int i = 0; i < 4; i++) {
        size_t part = sizes[i] < left ? sizes[i] : left;
        uint8_t *to = bytes[i == 3 ? 2 : i / 2];
        for (size_t k = 0; k < part; k++)
            to[k] = pattern(at + k);
        iov[pieces++] = (struct iovec){.iov_base = to, .iov_len = part};
        at += part;
        left -= part;
    }
    ssize_t n = stream_writev(stream, iov, pieces);
    if (n > 0)
        s->sent += (size_t)n;
    else
        assert_true(n < 0 && errno == EAGAIN);
}

static void bulk_handler(void *ctx, struct stream *stream, int events)
{
    struct session *s = ctx;

    s->calls++;
    if ((events & STREAM_WRITE) && s->sent < BULK)
        send_bulk(s, stream);
    if (s->sent == BULK && !s->shut) {
        int result = stream_shutdown(stream);
        assert_true(result == 0 || errno == EAGAIN);
        s->shut = result == 0;
    }
    if (events & STREAM_READ)
        read_once(ctx, stream, events);
    /* Now and then the reader rests. */
    int want =
        (s->calls % 7 == 0 && s->sent < BULK ? 0 : STREAM_READ) | (s->shut ? 0 : STREAM_WRITE);
    stream_want(stream, want);
}

/* Both directions at once through small buffers, with key updates, then half-close. */
static void test_bulk(void **state)
{
    static struct session s;
    int small = 8192;

    (void)state;
    begin(&s, bulk_script, bulk_handler);
    setsockopt(s.client.stream->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(s.peer.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    stream_want(s.client.stream, STREAM_READ | STREAM_WRITE);
    client_run(&s.client);
    if (s.last != 0)
        fail_msg("%s after %zu in, %zu out", strerror(s.number), s.received, s.sent);
    assert_int_equal(s.sent, BULK);
    assert_int_equal(s.received, BULK);
    assert_true(s.shut);
    finish(&s);
}

static void half_close_script(struct peer *p, SSL *ssl)
{
    char byte;

    p->ok = receive_pattern(ssl, 1) && receive_end(ssl) && read(p->fd, &byte, 1) == 0 &&
            send_pattern(ssl, 0, 30000, PIECE) && SSL_shutdown(ssl) == 1;
}

static void test_half_close(void **state)
{
    static struct session s;
    const uint8_t first = pattern(0);

    (void)state;
    begin(&s, half_close_script, read_once);
    assert_int_equal(stream_write(s.client.stream, &first, 1), 1);
    assert_int_equal(stream_shutdown(s.client.stream), 0);
    assert_int_equal(stream_shutdown(s.client.stream), 0);
    assert_int_equal(stream_write(s.client.stream, &first, 1), -1);
    assert_int_equal(errno, EPIPE);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.last, 0);
    assert_int_equal(s.received, 30000);
    finish(&s);
}

/* The peer ends its side and goes on reading: we may still write. */
static void peer_half_close_script(struct peer *p, SSL *ssl)
{
    p->ok = SSL_shutdown(ssl) == 0 && receive_pattern(ssl, 40000) && receive_end(ssl);
}

static void test_peer_half_close(void **state)
{
    static struct session s;
    static uint8_t bytes[40000];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = pattern(i);
    begin(&s, peer_half_close_script, read_once);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.last, 0);
    for (size_t at = 0; at < sizeof bytes;) {
        ssize_t n = stream_write(s.client.stream, bytes + at, sizeof bytes - at);
        assert_true(n > 0);
        at += (size_t)n;
    }
    assert_int_equal(stream_shutdown(s.client.stream), 0);
    finish(&s);
}

/* An end that was read along with data shows without anything new on the descriptor. */
static void test_end_behind_data(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, orderly_script, read_once);
    peer_join(&s.peer);
    while (s.received < 100000) {
        ssize_t n = stream_read(s.client.stream, s.bytes, sizeof s.bytes);
        assert_true(n > 0);
        s.received += (size_t)n;
    }
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.last, 0);
    client_free(&s.client);
}

/* close() alone is a cut, and the peer can tell. */
static void cut_script(struct peer *p, SSL *ssl)
{
    char byte;

    p->ok = receive_pattern(ssl, 1) && SSL_read(ssl, &byte, 1) <= 0 &&
            !(SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN);
}

static void test_close_is_a_cut(void **state)
{
    static struct session s;
    const uint8_t first = pattern(0);

    (void)state;
    begin(&s, cut_script, read_once);
    assert_int_equal(stream_write(s.client.stream, &first, 1), 1);
    finish(&s);
}

static void close_in_handler(void *ctx, struct stream *stream, int events)
{
    struct session *s = ctx;

    (void)stream;
    (void)events;
    stream_close(&s->client.stream);
    ev_break(s->client.loop, EVBREAK_ALL);
}

static void answer_then_close_script(struct peer *p, SSL *ssl)
{
    p->ok = send_pattern(ssl, 0, 10, PIECE) && SSL_shutdown(ssl) >= 0;
}

static void end_script(struct peer *p, SSL *ssl)
{
    p->ok = receive_end(ssl);
}

static void test_close_in_handler(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, answer_then_close_script, close_in_handler);
    stream_want(s.client.stream, STREAM_READ | STREAM_WRITE);
    client_run(&s.client);
    assert_null(s.client.stream);
    client_free(&s.client);
    peer_join(&s.peer);
}

/* A peer that answers early and closes: the failed write does not cost the answer. */
static void test_answer_after_failed_write(void **state)
{
    static struct session s;

    (void)state;
    begin(&s, answer_then_close_script, read_once);
    peer_join(&s.peer);
    assert_int_equal(stream_write(s.client.stream, "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(stream_write(s.client.stream, "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    stream_want(s.client.stream, STREAM_READ);
    client_run(&s.client);
    assert_int_equal(s.received, 10);
    assert_int_equal(s.last, 0);
    client_free(&s.client);
}

/* Reads nothing until the client is gone. */
static void stall_script(struct peer *p, SSL *ssl)
{
    struct pollfd gone = {.fd = p->fd};

    (void)ssl;
    p->ok = poll(&gone, 1, 1000 * DEADLINE_SECONDS) == 1;
}

/* Bytes that were begun and then given up must not be followed by an orderly end. */
static void test_shutdown_with_a_write_begun(void **state)
{
    static struct session s;
    ssize_t n;

    (void)state;
    begin(&s, stall_script, read_once);
    do
        n = stream_write(s.client.stream, s.bytes, sizeof s.bytes);
    while (n > 0);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(stream_shutdown(s.client.stream), -1);
    assert_int_equal(errno, EPROTO);
    finish(&s);
}

static void test_empty_operations(void **state)
{
    static struct session s;
    struct iovec empty = {.iov_base = NULL, .iov_len = 0};

    (void)state;
    begin(&s, end_script, read_once);
    assert_int_equal(stream_writev(s.client.stream, &empty, 1), 0);
    assert_int_equal(stream_writev(s.client.stream, NULL, 0), 0);
    assert_int_equal(stream_shutdown(s.client.stream), 0);
    finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orderly_end),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_small_reads),
        cmocka_unit_test(test_pause_with_pending_bytes),
        cmocka_unit_test(test_idle_is_idle),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_peer_half_close),
        cmocka_unit_test(test_end_behind_data),
        cmocka_unit_test(test_close_is_a_cut),
        cmocka_unit_test(test_close_in_handler),
        cmocka_unit_test(test_answer_after_failed_write),
        cmocka_unit_test(test_shutdown_with_a_write_begun),
        cmocka_unit_test(test_empty_operations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
