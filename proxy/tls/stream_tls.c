#include "proxy/tls/stream_tls.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/mem.h"

/* Plaintext of one record (RFC 8446 section 5.1): more at once is no gain. */
enum { RECORD_MAX = 16384 };

struct stream_tls {
    struct stream base;
    SSL *ssl;
    ev_idle ready;      /* runs while bytes are wanted that the kernel no longer has */
    int failure;        /* errno that every operation gives from now on, 0: none */
    int write_failure;  /* errno that writing gives; what has come may still be read */
    uint8_t read_needs; /* EV_READ or EV_WRITE: what the next read waits for */
    uint8_t write_needs;
    bool buffered;  /* a read may bring something although the descriptor is not readable */
    bool repeat;    /* the last write was begun and has to be repeated */
    bool truncated; /* the peer ended without close_notify */
    bool notified;  /* close_notify is sent */
    bool ended;     /* FIN too */
};

static struct stream_tls *of(struct stream *s)
{
    return (struct stream_tls *)(void *)s;
}

/* The wanted events that hold whatever the descriptor says. */
static int ready_now(const struct stream_tls *t)
{
    int events = 0;

    if (t->buffered || t->failure != 0)
        events |= STREAM_READ;
    if (t->write_failure != 0 || t->failure != 0)
        events |= STREAM_WRITE;
    return events & t->base.wanted;
}

/* Brings the watchers in line with what is wanted and what each direction waits for. */
static void update(struct stream_tls *t)
{
    struct stream *s = &t->base;
    int events = 0;

    if (s->wanted & STREAM_READ)
        events |= t->read_needs;
    if (s->wanted & STREAM_WRITE)
        events |= t->write_needs;
    if (events != (s->io.events & (EV_READ | EV_WRITE))) {
        ev_io_stop(s->loop, &s->io);
        ev_io_modify(&s->io, events);
        if (events != 0)
            ev_io_start(s->loop, &s->io);
    }
    if (ready_now(t) != 0)
        ev_idle_start(s->loop, &t->ready);
    else
        ev_idle_stop(s->loop, &t->ready);
}

static int fail(struct stream_tls *t, int number)
{
    t->failure = number;
    update(t);
    errno = number;
    return -1;
}

/* What an operation that did not succeed means: 0 an orderly end, else -1 with errno. `needs` is
 * set to what it waits for. */
static int judge(struct stream_tls *t, int result, uint8_t *needs)
{
    int saved = errno;
    unsigned long reason;

    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *needs = EV_READ;
        update(t);
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_WANT_WRITE:
        *needs = EV_WRITE;
        update(t);
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        ERR_clear_error();
        return fail(t, saved != 0 ? saved : EPROTO);
    default:
        reason = ERR_peek_error();
        t->truncated = ERR_GET_LIB(reason) == ERR_LIB_SSL &&
                       ERR_GET_REASON(reason) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        ERR_clear_error();
        return fail(t, EPROTO);
    }
}

static ssize_t tls_read(struct stream *s, void *p, size_t n)
{
    struct stream_tls *t = of(s);
    size_t total = 0;

    if (t->failure != 0) {
        errno = t->failure;
        return -1;
    }
    if (n == 0)
        return 0;
    /* On to the next record only while it is here already: each turn must stay short. */
    do {
        size_t got = 0;
        ERR_clear_error();
        errno = 0;
        int result = SSL_read_ex(t->ssl, (uint8_t *)p + total, n - total, &got);
        if (result != 1) {
            t->buffered = false;
            int end = judge(t, result, &t->read_needs);
            t->buffered = end == 0; /* an end stays readable, as on a plain descriptor */
            if (total == 0) {
                int number = errno;
                update(t);
                errno = number;
                return end;
            }
            break; /* the next read will tell */
        }
        t->read_needs = EV_READ;
        t->buffered = SSL_has_pending(t->ssl) == 1;
        total += got;
    } while (t->buffered && total < n);
    update(t);
    return (ssize_t)total;
}

/* The bytes of one SSL_write(): a part of the first piece, or several pieces put together. */
struct chunk {
    const uint8_t *from;
    size_t len;
};

static struct chunk next_chunk(const struct iovec *iov, int count, size_t skip, uint8_t *scratch)
{
    struct chunk chunk = {.from = scratch};

    while (count > 0 && skip >= iov->iov_len) {
        skip -= iov->iov_len;
        iov++;
        count--;
    }
    if (count == 0)
        return chunk;
    size_t here = iov->iov_len - skip;
    if (count == 1 || here >= RECORD_MAX) {
        chunk.from = (const uint8_t *)iov->iov_base + skip;
        chunk.len = here < RECORD_MAX ? here : RECORD_MAX;
        return chunk;
    }
    for (; count > 0 && chunk.len < RECORD_MAX; iov++, count--, skip = 0) {
        size_t part = iov->iov_len - skip;
        if (part > RECORD_MAX - chunk.len)
            part = RECORD_MAX - chunk.len;
        if (part != 0)
            memcpy(scratch + chunk.len, (const uint8_t *)iov->iov_base + skip, part);
        chunk.len += part;
    }
    return chunk;
}

static bool may_write(const struct stream_tls *t)
{
    if (t->failure == 0 && t->write_failure == 0 && !t->notified)
        return true;
    errno = EPIPE;
    if (t->failure != 0)
        errno = t->failure;
    else if (t->write_failure != 0)
        errno = t->write_failure;
    return false;
}

/* True when the write has to be repeated; errno is set. A peer that reset the connection may have
 * answered first, so a failure of the descriptor is one of writing alone. */
static bool judge_write(struct stream_tls *t, int result)
{
    int number = errno;

    if (SSL_get_error(t->ssl, result) == SSL_ERROR_SYSCALL ||
        SSL_get_error(t->ssl, result) == SSL_ERROR_ZERO_RETURN) {
        t->write_failure = number != 0 ? number : EPIPE;
        ERR_clear_error();
        update(t);
        errno = t->write_failure;
        return false;
    }
    judge(t, result, &t->write_needs);
    return t->failure == 0;
}

static ssize_t tls_writev(struct stream *s, const struct iovec *iov, int count)
{
    struct stream_tls *t = of(s);
    uint8_t scratch[RECORD_MAX];
    size_t total = 0;

    if (!may_write(t))
        return -1;
    for (;;) {
        struct chunk chunk = next_chunk(iov, count, total, scratch);
        size_t taken = 0;
        if (chunk.len == 0)
            return (ssize_t)total;
        ERR_clear_error();
        errno = 0;
        int result = SSL_write_ex(t->ssl, chunk.from, chunk.len, &taken);
        if (result != 1) {
            t->repeat = judge_write(t, result);
            return total != 0 ? (ssize_t)total : -1;
        }
        t->repeat = false;
        t->write_needs = EV_WRITE;
        total += taken;
    }
}

static int tls_shutdown(struct stream *s)
{
    struct stream_tls *t = of(s);

    if (!t->notified) {
        if (!may_write(t))
            return -1;
        if (t->repeat)
            return fail(t, EPROTO); /* bytes were given up: an orderly end would be a lie */
        ERR_clear_error();
        errno = 0;
        int result = SSL_shutdown(t->ssl);
        if (result < 0) {
            judge_write(t, result);
            return -1;
        }
        t->notified = true;
    }
    if (!t->ended && shutdown(s->fd, SHUT_WR) != 0 && errno != ENOTCONN)
        return fail(t, errno);
    t->ended = true;
    return 0;
}

static void tls_want(struct stream *s, int events)
{
    s->wanted = events;
    update(of(s));
}

static void tls_close(struct stream *s)
{
    struct stream_tls *t = of(s);

    ev_io_stop(s->loop, &s->io);
    ev_idle_stop(s->loop, &t->ready);
    /* Without this SSL_free() makes the session unusable for others. What should do that, a fatal
     * alert, has done it already. */
    SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(t->ssl);
    ERR_clear_error();
    close(s->fd);
    free(t);
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
    struct stream_tls *t = io->data;
    struct stream *s = &t->base;
    int events = 0;

    (void)loop;
    if (revents & (t->read_needs | EV_ERROR))
        events |= STREAM_READ;
    if (revents & (t->write_needs | EV_ERROR))
        events |= STREAM_WRITE;
    events &= s->wanted & ~ready_now(t); /* those are on_ready()'s */
    if (events != 0)
        s->handler(s->ctx, s, events);
}

static void on_ready(struct ev_loop *loop, ev_idle *idle, int revents)
{
    struct stream_tls *t = idle->data;
    struct stream *s = &t->base;
    int events = ready_now(t);

    (void)loop;
    (void)revents;
    if (events != 0)
        s->handler(s->ctx, s, events);
}

/*
 * What the SSL writes to: the socket, without SIGPIPE, and nothing once our FIN is out. A peer may
 * still ask for new keys then, and the answer that OpenSSL gives on reading that must not make the
 * reading fail.
 */
static int bio_write(BIO *bio, const char *p, int n)
{
    const struct stream_tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (t->ended)
        return n;
    ssize_t done = send(t->base.fd, p, (size_t)n, MSG_NOSIGNAL);
    if (done < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)done;
}

static long bio_control(BIO *bio, int command, long number, void *p)
{
    (void)bio;
    (void)number;
    (void)p;
    return command == BIO_CTRL_FLUSH; /* nothing is held back */
}

static BIO *new_bio(struct stream_tls *t)
{
    static BIO_METHOD *method;

    if (method == NULL) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stream");
        if (method == NULL || BIO_meth_set_write(method, bio_write) != 1 ||
            BIO_meth_set_ctrl(method, bio_control) != 1)
            abort(); /* out of memory */
    }
    BIO *bio = BIO_new(method);
    if (bio == NULL)
        abort();
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    return bio;
}

static const struct stream_ops tls_ops = {
    .read = tls_read,
    .writev = tls_writev,
    .shutdown = tls_shutdown,
    .want = tls_want,
    .close = tls_close,
};

void stream_tls_context(SSL_CTX *ctx)
{
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    /* One read(2) for a record instead of one for its header and one for the rest. */
    SSL_CTX_set_read_ahead(ctx, 1);
}

struct stream *stream_tls(struct ev_loop *loop, int fd, SSL *ssl)
{
    struct stream_tls *t = mem_alloc(sizeof *t);

    t->base.ops = &tls_ops;
    t->base.loop = loop;
    t->base.fd = fd;
    t->ssl = ssl;
    SSL_set0_wbio(ssl, new_bio(t));
    t->read_needs = EV_READ;
    t->write_needs = EV_WRITE;
    t->buffered = SSL_has_pending(ssl) == 1; /* data that came with the last handshake message */
    ev_io_init(&t->base.io, on_io, fd, 0);
    t->base.io.data = t;
    ev_idle_init(&t->ready, on_ready);
    /* libev runs idle watchers when nothing of their priority or above is pending: at the highest,
     * that is once a turn, with the polling of descriptors in between. */
    ev_set_priority(&t->ready, EV_MAXPRI);
    t->ready.data = t;
    return &t->base;
}

bool stream_tls_truncated(const struct stream *s)
{
    return ((const struct stream_tls *)(const void *)s)->truncated;
}

size_t stream_tls_alpn(const struct stream *s, const unsigned char **name)
{
    unsigned len = 0;

    SSL_get0_alpn_selected(((const struct stream_tls *)(const void *)s)->ssl, name, &len);
    return len;
}
