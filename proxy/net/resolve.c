#include "proxy/net/resolve.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/net/dns_channel.h"
#include "proxy/net/dns_upstream.h"
#include "proxy/net/hosts_file.h"
#include "proxy/net/resolv_conf.h"
#include "proxy/net/search_list.h"

/*
 * A look-up belongs to a query; a query is one walk for one name, with two legs
 * (AAAA and A) for the candidate at hand. Whatever ends a leg only notes the
 * result and puts the query on the ready list; call backs are made from there,
 * never inside c-ares or resolver_lookup().
 */

enum {
    BUCKETS = 256,
    QUERIES_MAX = 8192 /* in flight; DNS has 65,536 identifiers */
};

/* Look-ups in a ring; a head is one without a call back. */
struct lookup {
    struct lookup *previous, *next;
    lookup_callback *callback;
    void *ctx;
};

enum { LEG_AAAA, LEG_A, LEGS };

struct leg {
    struct dns_request request;
    struct query *query;
    unsigned type;
    bool done;
    bool delivered;
    enum dns_status status;
    struct address *addresses;
    size_t count;
};

struct query {
    struct resolver *resolver;
    struct query *next;       /* in its bucket */
    struct query *next_ready; /* on the ready list */
    bool is_ready;
    bool open;     /* others may still join: no address is in */
    bool answered; /* some server said something, if only no */
    struct lookup waiting;
    struct host name;
    struct resolv_conf *conf; /* NULL: nothing to ask for */
    struct search_walk walk;
    char candidate[HOST_MAX + 1];
    size_t delivered; /* addresses, so far */
    struct leg legs[LEGS];
};

struct resolver {
    struct ev_loop *loop;
    const struct limits *limits;
    struct hosts_file *hosts; /* NULL: not asked */
    struct dns_upstream *upstream;
    struct query *buckets[BUCKETS];
    size_t query_count;
    struct query *ready_first, **ready_last;
    ev_timer ready; /* never started: it is fed */
    bool closing;
};

static void ring_init(struct lookup *head)
{
    head->previous = head->next = head;
}

static void ring_insert(struct lookup *head, struct lookup *l)
{
    l->previous = head->previous;
    l->next = head;
    head->previous->next = l;
    head->previous = l;
}

static void ring_remove(struct lookup *l)
{
    l->previous->next = l->next;
    l->next->previous = l->previous;
    l->previous = l->next = l;
}

static bool ring_empty(const struct lookup *head)
{
    return head->next == head;
}

/* Moves every member of one ring to an empty one. */
static void ring_move(struct lookup *from, struct lookup *to)
{
    ring_init(to);
    while (!ring_empty(from)) {
        struct lookup *l = from->next;
        ring_remove(l);
        ring_insert(to, l);
    }
}

static struct query **bucket_of(struct resolver *r, const struct host *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < name->len; i++)
        h = (h ^ (unsigned char)name->text[i]) * 16777619u;
    return &r->buckets[(h ^ h >> 16) % BUCKETS];
}

static void make_ready(struct query *q)
{
    struct resolver *r = q->resolver;

    if (q->is_ready || r->closing)
        return;
    q->is_ready = true;
    q->next_ready = NULL;
    *r->ready_last = q;
    r->ready_last = &q->next_ready;
    ev_feed_event(r->loop, &r->ready, EV_CUSTOM);
}

static struct query *query_new(struct resolver *r, const struct host *name)
{
    struct query *q = mem_alloc(sizeof(*q));
    struct query **bucket = bucket_of(r, name);

    q->resolver = r;
    q->name = *name;
    ring_init(&q->waiting);
    for (size_t i = 0; i < LEGS; i++) {
        q->legs[i].query = q;
        q->legs[i].type = i == LEG_AAAA ? DNS_TYPE_AAAA : DNS_TYPE_A;
        q->legs[i].done = true;
        q->legs[i].status = DNS_FAILED;
    }
    q->next = *bucket;
    *bucket = q;
    r->query_count++;
    return q;
}

static void query_destroy(struct query *q)
{
    for (size_t i = 0; i < LEGS; i++)
        free(q->legs[i].addresses);
    resolv_conf_release(q->conf);
    free(q);
}

static void query_free(struct query *q)
{
    struct query **p = bucket_of(q->resolver, &q->name);

    while (*p != q)
        p = &(*p)->next;
    *p = q->next;
    q->resolver->query_count--;
    query_destroy(q);
}

/* Legs */

/* One family never takes every place, so that the other is tried as well. */
static size_t leg_room(const struct query *q)
{
    size_t max = q->resolver->limits->dns_addresses;

    return max > 1 ? max - 1 : 1;
}

static void on_leg(void *ctx, enum dns_status status, const uint8_t *answer, size_t n)
{
    struct leg *leg = ctx;
    struct query *q = leg->query;

    leg->done = true;
    leg->status = status;
    if (status == DNS_ADDRESSES) {
        size_t max = leg_room(q);
        leg->addresses = mem_array(max, sizeof(*leg->addresses));
        leg->status =
            dns_answer_read(answer, n, q->candidate, leg->type, leg->addresses, max, &leg->count);
    }
    if (leg->count > 0)
        q->open = false;
    else
        MEM_FREE(leg->addresses);
    if (leg->status != DNS_TIMEOUT)
        q->answered = true;
    make_ready(q);
}

static void ask(struct query *q)
{
    struct dns_channel *channel = dns_upstream_channel(q->resolver->upstream);

    for (size_t i = 0; i < LEGS; i++) {
        q->legs[i].done = false;
        q->legs[i].count = 0;
    }
    for (size_t i = 0; i < LEGS; i++) {
        struct leg *leg = &q->legs[i];
        if (channel == NULL)
            on_leg(leg, DNS_FAILED, NULL, 0);
        else
            dns_channel_query(channel, &leg->request, q->candidate, leg->type, on_leg, leg);
    }
}

static enum dns_status candidate_status(const struct query *q)
{
    enum dns_status a = q->legs[LEG_A].status, aaaa = q->legs[LEG_AAAA].status;

    return a < aaaa ? a : aaaa;
}

/* Delivery */

/* Calls every waiting look-up. Any of them may cancel others or itself, or start new ones. */
static void deliver(struct query *q, const struct address *addresses, size_t count, bool last,
                    enum err err)
{
    struct lookup batch;

    q->delivered += count;
    if (last)
        q->open = false;
    ring_move(&q->waiting, &batch);
    while (!ring_empty(&batch)) {
        struct lookup *l = batch.next;
        lookup_callback *callback = l->callback;
        void *ctx = l->ctx;
        ring_remove(l);
        if (last)
            free(l);
        else
            ring_insert(&q->waiting, l);
        callback(ctx, addresses, count, last, err);
    }
}

/* The legs' addresses not delivered yet, AAAA first, as many as still may be. When both are in,
 * the longer one is cut. */
static size_t gather(struct query *q, struct address *out)
{
    size_t max = q->resolver->limits->dns_addresses;
    size_t take[LEGS] = {0}, count = 0;

    max = max > q->delivered ? max - q->delivered : 0;
    for (size_t i = 0; i < LEGS; i++) {
        if (q->legs[i].done && !q->legs[i].delivered)
            take[i] = q->legs[i].count;
    }
    while (take[LEG_AAAA] + take[LEG_A] > max)
        take[take[LEG_AAAA] >= take[LEG_A] ? LEG_AAAA : LEG_A]--;
    for (size_t i = 0; i < LEGS; i++) {
        if (take[i] > 0)
            memcpy(out + count, q->legs[i].addresses, take[i] * sizeof(*out));
        count += take[i];
        q->legs[i].delivered = q->legs[i].delivered || q->legs[i].done;
    }
    return count;
}

/* Both legs are done and neither brought an address. */
static void next_candidate(struct query *q)
{
    if (q->conf != NULL && !ring_empty(&q->waiting) &&
        search_next(&q->walk, candidate_status(q), q->candidate)) {
        for (size_t i = 0; i < LEGS; i++)
            q->legs[i].delivered = false;
        ask(q);
        return;
    }
    deliver(q, NULL, 0, true, q->answered ? ERR_UPSTREAM_DNS : ERR_UPSTREAM_TIMEOUT);
    query_free(q);
}

static void serve(struct query *q)
{
    bool over = q->legs[LEG_A].done && q->legs[LEG_AAAA].done;
    struct address *addresses = mem_array(q->resolver->limits->dns_addresses, sizeof(*addresses));
    size_t count = gather(q, addresses);

    if (over && q->delivered + count == 0) {
        next_candidate(q);
    } else if (over) {
        deliver(q, addresses, count, true, ERR_NONE);
        query_free(q);
    } else if (count > 0) {
        deliver(q, addresses, count, false, ERR_NONE);
    }
    free(addresses);
}

static void on_ready(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct resolver *r = w->data;

    (void)loop;
    (void)revents;
    while (r->ready_first != NULL) {
        struct query *q = r->ready_first;
        r->ready_first = q->next_ready;
        if (r->ready_first == NULL)
            r->ready_last = &r->ready_first;
        q->is_ready = false;
        serve(q);
    }
    dns_upstream_tidy(r->upstream);
}

/* Starting and ending */

static struct query *find_open(struct resolver *r, const struct host *name,
                               const struct resolv_conf *conf)
{
    struct query *q = *bucket_of(r, name);

    while (q != NULL && !(q->open && q->conf == conf && q->name.len == name->len &&
                          memcmp(q->name.text, name->text, name->len) == 0))
        q = q->next;
    return q;
}

static struct query *query_with(struct resolver *r, const struct host *name,
                                const struct address *addresses, size_t count)
{
    struct query *q = query_new(r, name);
    struct leg *leg = &q->legs[LEG_AAAA]; /* the first to be delivered; families may be mixed */

    leg->addresses = mem_array(count, sizeof(*addresses));
    memcpy(leg->addresses, addresses, count * sizeof(*addresses));
    leg->count = count;
    leg->status = DNS_ADDRESSES;
    make_ready(q);
    return q;
}

static struct query *query_hosts(struct resolver *r, const struct host *name)
{
    static const struct address loopback[] = {
        {.family = 4, .bytes = {127, 0, 0, 1}},
        {.family = 6, .bytes = {[15] = 1}},
    };
    struct query *q = NULL;
    size_t max = r->limits->dns_addresses;

    if (r->hosts != NULL) {
        struct address *found = mem_array(max, sizeof(*found));
        size_t count = hosts_file_find(r->hosts, name->text, name->len, found, max);
        if (count > 0)
            q = query_with(r, name, found, count);
        free(found);
    }
    if (q == NULL && host_is_localhost(name))
        q = query_with(r, name, loopback, max < 2 ? max : 2);
    return q;
}

static struct query *query_dns(struct resolver *r, const struct host *name)
{
    struct resolv_conf *conf = dns_upstream_conf(r->upstream);
    struct query *q = find_open(r, name, conf);

    if (q != NULL)
        return q;
    q = query_new(r, name);
    if (r->query_count > QUERIES_MAX) {
        q->answered = true;
        make_ready(q);
        return q;
    }
    q->conf = resolv_conf_hold(conf);
    q->open = true;
    search_start(&q->walk, q->conf, q->name.text, q->candidate);
    ask(q);
    return q;
}

struct lookup *resolver_lookup(struct resolver *r, const struct host *name,
                               lookup_callback *callback, void *ctx)
{
    struct query *q = query_hosts(r, name);
    struct lookup *l = mem_alloc(sizeof(*l));

    if (q == NULL)
        q = query_dns(r, name);
    l->callback = callback;
    l->ctx = ctx;
    ring_insert(&q->waiting, l);
    return l;
}

void lookup_cancel(struct lookup *lookup)
{
    ring_remove(lookup);
    free(lookup);
}

struct resolver *resolver_new(struct ev_loop *loop, const struct resolver_options *options,
                              const char **error)
{
    struct dns_upstream *upstream =
        dns_upstream_new(loop, options->limits, options->servers, options->resolv_conf, error);

    if (upstream == NULL)
        return NULL;
    struct resolver *r = mem_alloc(sizeof(*r));
    r->loop = loop;
    r->limits = options->limits;
    r->upstream = upstream;
    r->ready_last = &r->ready_first;
    ev_timer_init(&r->ready, on_ready, 0., 0.);
    r->ready.data = r;
    if (options->use_hosts)
        r->hosts = hosts_file_new(options->hosts_file != NULL ? options->hosts_file : "/etc/hosts");
    return r;
}

void resolver_free(struct resolver *r)
{
    if (r == NULL)
        return;
    r->closing = true;
    dns_upstream_free(r->upstream);
    ev_timer_stop(r->loop, &r->ready);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct query *q = r->buckets[i], *next; q != NULL; q = next) {
            next = q->next;
            for (struct lookup *l = q->waiting.next, *after; l != &q->waiting; l = after) {
                after = l->next;
                free(l);
            }
            query_destroy(q);
        }
    }
    hosts_file_free(r->hosts);
    free(r);
}
