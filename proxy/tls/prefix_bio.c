#include "proxy/tls/prefix_bio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

struct prefix {
    int fd;
    struct buf first;
};

static int bio_write(BIO *bio, const char *p, size_t n, size_t *written)
{
    const struct prefix *x = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    ssize_t done = send(x->fd, p, n, MSG_NOSIGNAL);
    if (done < 0) {
        if (errno == EAGAIN || errno == EINTR)
            BIO_set_retry_write(bio);
        return 0;
    }
    *written = (size_t)done;
    return 1;
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *got)
{
    struct prefix *x = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (buf_len(&x->first) != 0) {
        *got = n < buf_len(&x->first) ? n : buf_len(&x->first);
        memcpy(p, buf_data(&x->first), *got);
        buf_consume(&x->first, *got);
        if (buf_len(&x->first) == 0)
            buf_free(&x->first);
        return 1;
    }
    ssize_t done = read(x->fd, p, n);
    if (done > 0) {
        *got = (size_t)done;
        return 1;
    }
    if (done == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    else if (errno == EAGAIN || errno == EINTR)
        BIO_set_retry_read(bio);
    return 0;
}

static long bio_ctrl(BIO *bio, int command, long argument, void *p)
{
    (void)argument;
    (void)p;
    switch (command) {
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    case BIO_CTRL_FLUSH:
        return 1;
    default:
        return 0;
    }
}

static int bio_destroy(BIO *bio)
{
    struct prefix *x = BIO_get_data(bio);
    if (x != NULL)
        buf_free(&x->first);
    free(x);
    BIO_set_data(bio, NULL);
    return 1;
}

/* Made once; OpenSSL keeps no list of them. */
static BIO_METHOD *method(void)
{
    static BIO_METHOD *made;
    if (made == NULL) {
        made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "prefixed socket");
        if (made != NULL) {
            BIO_meth_set_write_ex(made, bio_write);
            BIO_meth_set_read_ex(made, bio_read);
            BIO_meth_set_ctrl(made, bio_ctrl);
            BIO_meth_set_destroy(made, bio_destroy);
        }
    }
    return made;
}

BIO *prefix_bio_new(int fd, struct buf *first)
{
    BIO_METHOD *m = method();
    BIO *bio = m != NULL ? BIO_new(m) : NULL;

    if (bio == NULL) {
        buf_free(first);
        return NULL;
    }
    struct prefix *x = mem_alloc(sizeof *x);
    x->fd = fd;
    x->first = *first;
    buf_init(first, 0);
    BIO_set_data(bio, x);
    BIO_set_init(bio, 1);
    return bio;
}
