#include "proxy/egress/linger.h"

#include <stdlib.h>

#include "base/mem.h"

struct linger_session {
    struct client *client;
    struct buf out;
    bool fin_sent;
    uint64_t upload; /* announced bytes that have not come yet */
    double until;    /* ev_now() at which they are waited for no longer */
    ev_timer timer;
};

static void linger_end(struct linger_session *l)
{
    struct client *client = l->client;
    ev_timer_stop(client->worker->loop, &l->timer);
    buf_free(&l->out);
    free(l);
    client_free(client);
}

/* Sends what is left and the FIN. False: there is no point in waiting. */
static bool finish_sending(struct linger_session *l)
{
    struct stream *stream = l->client->stream;
    if (buf_len(&l->out) != 0) {
        ssize_t n = stream_write(stream, buf_data(&l->out), buf_len(&l->out));
        if (n < 0)
            return stream_would_block(n, errno);
        buf_consume(&l->out, (size_t)n);
        if (buf_len(&l->out) != 0)
            return true;
        buf_free(&l->out);
    }
    if (l->fin_sent)
        return true;
    if (stream_shutdown(stream) != 0)
        return stream_would_block(-1, errno);
    l->fin_sent = true;
    return true;
}

static void count_upload(struct linger_session *l, uint64_t n)
{
    struct ev_loop *loop = l->client->worker->loop;
    if (l->upload == 0 || ev_now(loop) >= l->until)
        return;
    l->upload -= n < l->upload ? n : l->upload;
    ev_timer_again(loop, &l->timer);
}

static int wanted(const struct linger_session *l)
{
    return l->fin_sent ? STREAM_READ : STREAM_READ | STREAM_WRITE;
}

static void on_event(void *ctx, struct stream *stream, int events)
{
    struct linger_session *l = ctx;
    if ((events & STREAM_WRITE) && !finish_sending(l)) {
        linger_end(l);
        return;
    }
    if (events & STREAM_READ) {
        ssize_t n = stream_read(stream, l->client->worker->scratch, RELAY_CHUNK);
        if (n == 0 ? l->fin_sent : n < 0 && !stream_would_block(n, errno)) {
            linger_end(l);
            return;
        }
        if (n > 0)
            count_upload(l, (uint64_t)n);
        if (n == 0) {
            /* Nothing more will come; only what is queued is left to do. */
            stream_want(stream, STREAM_WRITE);
            return;
        }
    }
    stream_want(stream, wanted(l));
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    linger_end(timer->data);
}

static void on_stop(struct client *c, bool at_once)
{
    if (at_once)
        linger_end(c->owner);
}

void linger_start(struct client *client, struct buf *out, uint32_t ms, uint64_t upload,
                  uint32_t upload_ms)
{
    struct linger_session *l = mem_alloc(sizeof *l);
    l->client = client;
    l->out = *out;
    buf_init(out, 0);
    client->owner = l;
    client->stop = on_stop;
    l->until = ev_now(client->worker->loop) + upload_ms / 1e3;
    l->upload = upload;
    /* A repeat of 0 would be no timer at all. */
    ev_timer_init(&l->timer, on_timer, 0, (ms != 0 ? ms : 1) / 1e3);
    l->timer.data = l;
    ev_timer_again(client->worker->loop, &l->timer);
    stream_set_handler(client->stream, on_event, l);
    /* A failure comes back as an event. */
    finish_sending(l);
    stream_want(client->stream, wanted(l));
}
