#include "proxy/egress/parent_connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "proxy/http/head.h"
#include "proxy/http/target.h"

struct parent_connect {
    struct stream *stream;
    struct buf out; /* what is left of our request; holds a credential */
    struct buf in;  /* the answer so far */
    struct head head;
    size_t scanned, head_limit;
    parent_connect_callback *callback;
    void *ctx;
    char detail[64];
};

static void parent_connect_free(struct parent_connect *c)
{
    stream_close(&c->stream);
    buf_wipe(&c->out);
    buf_free(&c->in);
    head_free(&c->head);
    free(c);
}

static void fail(struct parent_connect *c, const char *why)
{
    parent_connect_callback *callback = c->callback;
    void *ctx = c->ctx;
    char detail[sizeof c->detail];
    snprintf(detail, sizeof detail, "%s", why);
    parent_connect_free(c);
    callback(ctx, ERR_UPSTREAM_PARENT, NULL, NULL, detail);
}

static void answered(struct parent_connect *c)
{
    parent_connect_callback *callback = c->callback;
    void *ctx = c->ctx;
    struct stream *stream = c->stream;
    struct buf early = c->in;
    buf_consume(&early, c->head.length);
    if (buf_len(&early) == 0)
        buf_free(&early);
    buf_init(&c->in, 0);
    c->stream = NULL;
    parent_connect_free(c);
    stream_want(stream, 0);
    callback(ctx, ERR_NONE, stream, &early, NULL);
}

static void on_event(void *ctx, struct stream *s, int events)
{
    struct parent_connect *c = ctx;
    if (events & STREAM_WRITE) {
        ssize_t n = stream_write(s, buf_data(&c->out), buf_len(&c->out));
        if (n < 0 && !stream_would_block(n, errno)) {
            fail(c, "the parent proxy closed the connection");
            return;
        }
        if (n > 0)
            buf_consume(&c->out, (size_t)n);
        if (buf_len(&c->out) == 0)
            stream_want(s, STREAM_READ);
    }
    if (!(events & STREAM_READ))
        return;
    size_t room = buf_room(&c->in) < 4096 ? buf_room(&c->in) : 4096;
    uint8_t *to = buf_reserve(&c->in, room);
    ssize_t n = stream_read(s, to, room);
    if (n < 0 && stream_would_block(n, errno))
        return;
    if (n <= 0) {
        fail(c, "the parent proxy closed the connection");
        return;
    }
    buf_commit(&c->in, (size_t)n);
    switch (head_parse_response(&c->head, buf_data(&c->in), buf_len(&c->in), &c->scanned,
                                c->head_limit)) {
    case HEAD_MORE:
        return;
    case HEAD_OK:
        if (c->head.status / 100 == 2) {
            answered(c);
        } else {
            snprintf(c->detail, sizeof c->detail, "the parent proxy answered %u",
                     (unsigned)c->head.status);
            fail(c, c->detail);
        }
        return;
    default:
        fail(c, "the parent proxy's answer is not valid HTTP");
    }
}

struct parent_connect *parent_connect_start(struct stream *stream, const struct host *host,
                                            uint16_t port, const char *authorization,
                                            size_t head_limit, parent_connect_callback *callback,
                                            void *ctx)
{
    struct parent_connect *c = mem_alloc(sizeof *c);
    struct buf authority;
    c->stream = stream;
    c->head_limit = head_limit;
    c->callback = callback;
    c->ctx = ctx;
    buf_init(&c->out, 1024 + (authorization != NULL ? strlen(authorization) : 0));
    buf_init(&c->in, head_limit + 4096);
    head_init(&c->head);
    buf_init(&authority, HOST_MAX + 16);
    authority_format(&authority, host, port, 0);
    const char *to = buf_cstr(&authority);
    buf_printf(&c->out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", to, to);
    if (authorization != NULL)
        buf_printf(&c->out, "Proxy-Authorization: %s\r\n", authorization);
    buf_puts(&c->out, "\r\n");
    buf_free(&authority);
    stream_set_handler(stream, on_event, c);
    stream_want(stream, STREAM_WRITE);
    return c;
}

void parent_connect_cancel(struct parent_connect *c)
{
    parent_connect_free(c);
}
