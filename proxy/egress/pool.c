#include "proxy/egress/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BUCKETS = 256 };

struct idle {
    struct pool *pool;
    struct pool_connection connection;
    struct idle *next;          /* of the bucket */
    struct idle *older, *newer; /* of all, by age */
    char *host;
    char *parent; /* what tells the next hop apart, or NULL: none */
    uint32_t hash;
    uint16_t port;
    bool tls;
    double since, until;
};

struct pool {
    struct ev_loop *loop;
    struct interfaces *interfaces;
    struct idle *buckets[BUCKETS];
    struct idle *oldest, *newest;
    uint32_t count;
    ev_timer timer; /* to the end of the oldest */
};

static uint32_t hash_key(const struct pool_key *key)
{
    /* FNV-1a. A flood of names into one bucket costs at most the bound of the pool. */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key->host->len; i++)
        hash = (hash ^ (uint8_t)key->host->text[i]) * 16777619u;
    return (hash ^ key->port ^ (key->tls ? 0x10000u : 0)) * 16777619u;
}

static struct stream *idle_release(struct idle *i)
{
    struct pool *p = i->pool;
    struct stream *stream = i->connection.stream;
    struct idle **at = &p->buckets[i->hash % BUCKETS];
    while (*at != i)
        at = &(*at)->next;
    *at = i->next;
    if (i->older != NULL)
        i->older->newer = i->newer;
    else
        p->oldest = i->newer;
    if (i->newer != NULL)
        i->newer->older = i->older;
    else
        p->newest = i->older;
    p->count--;
    free(i->host);
    free(i->parent);
    free(i);
    return stream;
}

static void idle_close(struct idle *i)
{
    struct stream *stream = idle_release(i);
    stream_close(&stream);
}

/* Closes the oldest ones: those whose time is over, and so many that at most `most` are left. */
static void close_oldest(struct pool *p, double now, uint32_t most)
{
    for (struct idle *i = p->oldest, *newer; i != NULL; i = newer) {
        newer = i->newer;
        if (i->until > now && p->count <= most)
            return;
        idle_close(i);
    }
}

/* Whatever an idle connection has to say, it is of no more use. */
static void on_idle_event(void *ctx, struct stream *stream, int events)
{
    uint8_t byte;
    (void)events;
    ssize_t n = stream_read(stream, &byte, 1);
    if (!stream_would_block(n, errno))
        idle_close(ctx);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct pool *p = timer->data;
    (void)revents;
    close_oldest(p, ev_now(loop), UINT32_MAX);
    if (p->oldest == NULL)
        return;
    ev_timer_set(timer, p->oldest->until - ev_now(loop), 0);
    ev_timer_start(loop, timer);
}

struct pool *pool_new(struct ev_loop *loop, struct interfaces *interfaces)
{
    struct pool *p = mem_alloc(sizeof *p);
    p->loop = loop;
    p->interfaces = interfaces;
    ev_init(&p->timer, on_timer);
    p->timer.data = p;
    return p;
}

void pool_clear(struct pool *p)
{
    close_oldest(p, 0, 0);
}

void pool_free(struct pool *p)
{
    if (p == NULL)
        return;
    pool_clear(p);
    ev_timer_stop(p->loop, &p->timer);
    free(p);
}

/* Everything in which two parents can differ, as text; NULL for none. The credential counts: a
 * connection may be authenticated by its first request. */
static char *parent_identity(const struct parent_proxy *parent)
{
    if (parent == NULL)
        return NULL;
    struct buf text;
    buf_init(&text, 65536);
    buf_printf(&text, "%d %s %u %s", parent->tls, parent->host, (unsigned)parent->port,
               parent->authorization != NULL ? parent->authorization : "");
    char *identity = mem_dup(buf_cstr(&text));
    buf_wipe(&text);
    return identity;
}

static bool same_parent(const struct idle *i, const char *identity)
{
    if (i->parent == NULL || identity == NULL)
        return i->parent == NULL && identity == NULL;
    return strcmp(i->parent, identity) == 0;
}

/* Looked at for an end or stray bytes before it is used. */
static bool is_quiet(struct stream *stream)
{
    uint8_t byte;
    ssize_t n = stream_read(stream, &byte, 1);
    return stream_would_block(n, errno);
}

static bool still_allowed(struct pool *p, const struct idle *i, const struct pool_key *key,
                          const struct policy *policy)
{
    if (i->connection.address.family == 0 || key->host->is_address)
        return true;
    return policy_judge_address(policy, key->host, key->port, &i->connection.address,
                                interfaces_addresses(p->interfaces)) == ADDRESS_KEPT;
}

/* What is asked for, once. */
struct search {
    const struct pool_key *key;
    const struct policy *policy;
    const char *parent;
    uint32_t hash;
    bool careful;
};

static bool matches(const struct pool *p, const struct idle *i, const struct search *s,
                    uint64_t owner)
{
    if (i->hash != s->hash || i->port != s->key->port || i->tls != s->key->tls ||
        i->connection.bound_to != owner || strcmp(i->host, s->key->host->text) != 0 ||
        !same_parent(i, s->parent))
        return false;
    /* The server may be about to close one that has waited long; that it keeps connections at all
     * is proved when one was used again. */
    return !s->careful || owner != 0 ||
           (i->connection.uses > 1 && ev_now(p->loop) - i->since <= (i->until - i->since) / 2);
}

/* The newest fit connection that belongs to `owner` (0: to nobody). */
static struct idle *find(struct pool *p, const struct search *s, uint64_t owner)
{
    for (struct idle *i = p->buckets[s->hash % BUCKETS], *next; i != NULL; i = next) {
        next = i->next;
        if (!matches(p, i, s, owner))
            continue;
        if (is_quiet(i->connection.stream) && still_allowed(p, i, s->key, s->policy))
            return i;
        idle_close(i);
    }
    return NULL;
}

bool pool_take(struct pool *p, const struct pool_key *key, const struct policy *policy,
               uint64_t client, bool careful, struct pool_connection *out)
{
    if (p->count == 0)
        return false;
    char *parent = parent_identity(key->parent);
    struct search search = {
        .key = key, .policy = policy, .parent = parent, .hash = hash_key(key), .careful = careful};
    /* A client's own, authenticated one goes before. */
    struct idle *found = find(p, &search, client);
    if (found == NULL)
        found = find(p, &search, 0);
    free(parent);
    if (found == NULL)
        return false;
    *out = found->connection;
    idle_release(found);
    return true;
}

void pool_put(struct pool *p, const struct pool_key *key, const struct pool_connection *connection,
              uint32_t idle_ms, uint32_t most)
{
    struct stream *stream = connection->stream;
    if (most == 0) {
        stream_close(&stream);
        return;
    }
    close_oldest(p, 0, most - 1);
    struct idle *i = mem_alloc(sizeof *i);
    i->pool = p;
    i->connection = *connection;
    i->host = mem_dup_n(key->host->text, key->host->len);
    i->parent = parent_identity(key->parent);
    i->port = key->port;
    i->tls = key->tls;
    i->hash = hash_key(key);
    i->since = ev_now(p->loop);
    i->until = i->since + idle_ms / 1e3;

    struct idle **bucket = &p->buckets[i->hash % BUCKETS];
    i->next = *bucket;
    *bucket = i;
    i->older = p->newest;
    if (p->newest != NULL)
        p->newest->newer = i;
    else
        p->oldest = i;
    p->newest = i;
    p->count++;

    stream_set_handler(stream, on_idle_event, i);
    stream_want(stream, STREAM_READ);
    if (!ev_is_active(&p->timer)) {
        ev_timer_set(&p->timer, idle_ms / 1e3, 0);
        ev_timer_start(p->loop, &p->timer);
    }
}
