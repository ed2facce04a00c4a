#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>

#include "base/mem.h"
#include "proxy/net/stream.h"

/* A peer that is gone without a word is found within a minute and a half: its kernel may keep its
 * half of a connection it has closed for one. */
enum { KEEP_IDLE_S = 15, KEEP_INTERVAL_S = 5, KEEP_COUNT = 3 };

struct stream_watch {
    struct ev_loop *loop;
    struct stream *quiet;
    struct stream *next; /* of the walk under way */
    size_t count;
    ev_timer timer;
};

void stream_set_quiet(struct stream *s, bool quiet)
{
    struct stream_watch *w = ev_userdata(s->loop);
    if (w == NULL)
        return;
    if (!quiet) {
        if (w->next == s)
            w->next = s->quiet_next;
        *s->quiet_link = s->quiet_next;
        if (s->quiet_next != NULL)
            s->quiet_next->quiet_link = s->quiet_link;
        s->quiet_link = NULL;
        s->dead = false;
        w->count--;
        return;
    }
    s->quiet_next = w->quiet;
    if (s->quiet_next != NULL)
        s->quiet_next->quiet_link = &s->quiet_next;
    s->quiet_link = &w->quiet;
    w->quiet = s;
    w->count++;
}

static void keep_alive(struct stream *s)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };
    s->kept_alive = true;
    /* Not every stream is TCP; one that is not tells by itself. */
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(s->fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
}

bool stream_is_dead(const struct stream *s)
{
    struct pollfd pfd = {.fd = s->fd};
    return poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLERR | POLLHUP)) != 0;
}

static void mark_dead(struct stream_watch *w)
{
    struct pollfd *fds = mem_array(w->count, sizeof *fds);
    size_t i = 0;
    for (struct stream *s = w->quiet; s != NULL; s = s->quiet_next, i++) {
        fds[i].fd = s->fd;
        if (!s->kept_alive)
            keep_alive(s);
    }
    if (poll(fds, w->count, 0) > 0) {
        i = 0;
        for (struct stream *s = w->quiet; s != NULL; s = s->quiet_next, i++)
            s->dead = (fds[i].revents & (POLLERR | POLLHUP)) != 0;
    }
    free(fds);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct stream_watch *w = timer->data;
    struct stream *s;
    (void)loop;
    (void)revents;
    if (w->count == 0)
        return;
    mark_dead(w);
    /* A handler may close any stream: the one to go on with moves on by itself then. */
    for (w->next = w->quiet; (s = w->next) != NULL;) {
        w->next = s->quiet_next;
        if (!s->dead)
            continue;
        s->dead = false;
        s->handler(s->ctx, s, STREAM_GONE);
    }
}

struct stream_watch *stream_watch(struct ev_loop *loop, double seconds)
{
    struct stream_watch *w = mem_alloc(sizeof *w);
    w->loop = loop;
    ev_timer_init(&w->timer, on_timer, seconds, seconds);
    w->timer.data = w;
    ev_timer_start(loop, &w->timer);
    ev_set_userdata(loop, w);
    return w;
}

void stream_watch_stop(struct stream_watch *w)
{
    if (w == NULL)
        return;
    for (struct stream *s = w->quiet; s != NULL; s = s->quiet_next)
        s->quiet_link = NULL;
    ev_timer_stop(w->loop, &w->timer);
    ev_set_userdata(w->loop, NULL);
    free(w);
}
