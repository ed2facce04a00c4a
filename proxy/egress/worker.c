#include "proxy/egress/worker.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "proxy/egress/answers.h"
#include "proxy/egress/peers.h"

enum { CROWD = 64 };

struct client *client_new(struct worker *w, int fd, const struct sockaddr *peer)
{
    uint32_t most = w->snapshot->limits.connections_per_client;
    struct client *c = mem_alloc(sizeof *c);
    if (!address_from_sockaddr(peer, &c->peer, &c->peer_port))
        c->peer.family = 0;
    if (most != 0 && c->peer.family != 0) {
        c->same = peers_add(w->peers, &c->peer, most);
        if (c->same == NULL) {
            close(fd);
            free(c);
            return NULL;
        }
    }
    c->worker = w;
    c->serial = ++w->client_serial;
    c->stream = stream_plain(w->loop, fd);
    c->next = w->clients;
    if (c->next != NULL)
        c->next->link = &c->next;
    c->link = &w->clients;
    w->clients = c;
    if (++w->client_count > w->crowd)
        w->crowd = w->client_count;
    return c;
}

/* What a crowd leaves in the heap is scattered: it does not go back by itself. */
static void give_memory_back(struct worker *w)
{
    if (w->crowd < CROWD || w->client_count > w->crowd / 4)
        return;
    w->crowd = w->client_count;
    malloc_trim(0);
}

void client_free(struct client *c)
{
    struct worker *w = c->worker;
    stream_close(&c->stream);
    *c->link = c->next;
    if (c->next != NULL)
        c->next->link = c->link;
    peers_remove(w->peers, c->same);
    if (c->terminated && --w->terminated <= w->snapshot->tls_max_tunnels / 2)
        worker_forget_told(w);
    free(c);
    w->client_count--;
    give_memory_back(w);
    if (w->room != NULL && !w->stopping)
        w->room(w->room_ctx);
    if (w->stopping && w->client_count == 0)
        w->emptied(w->emptied_ctx);
}

void worker_tunnel_terminated(struct worker *w, struct client *c)
{
    c->terminated = true;
    w->terminated++;
}

void worker_decider_lost(struct worker *w)
{
    w->decider_serial++;
    if (w->answers != NULL)
        answers_clear(w->answers);
}

void worker_forget_told(struct worker *w)
{
    while (w->full_told_count != 0)
        free(w->full_told[--w->full_told_count]);
}

void worker_stop(struct worker *w, bool at_once)
{
    w->stopping = true;
    if (w->client_count == 0) {
        w->emptied(w->emptied_ctx);
        return;
    }
    /* A client may free itself, never another one. */
    for (struct client *c = w->clients, *next; c != NULL; c = next) {
        next = c->next;
        c->stop(c, at_once);
    }
}

const char *worker_date(struct worker *w)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = (time_t)ev_now(w->loop);
    if (now == w->date_time && w->date[0] != 0)
        return w->date;
    struct tm tm;
    gmtime_r(&now, &tm);
    /* strftime would follow the locale. */
    snprintf(w->date, sizeof w->date, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
             tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    w->date_time = now;
    return w->date;
}
