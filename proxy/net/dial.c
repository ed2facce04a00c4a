#include "proxy/net/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "proxy/net/address_queue.h"
#include "proxy/net/socket_open.h"

enum phase {
    PHASE_WAITING,    /* nothing tried: no address is in, or IPv4 ones wait for the IPv6 answer */
    PHASE_CONNECTING, /* attempts began; addresses may still come */
    PHASE_OVER        /* the call back runs */
};

struct attempt {
    ev_io io;
    struct dial *dial;
    struct address address;
    struct attempt *next;
};

struct dial {
    const struct dialer *dialer;
    const struct policy *policy;
    const struct host *host;
    uint16_t port;
    dial_callback *callback;
    void *ctx;
    enum phase phase;
    struct lookup *lookup; /* NULL: every address that will come is in */
    struct address_queue queue;
    struct attempt *attempts; /* running, the latest first */
    uint32_t attempt_count;   /* ever begun */
    enum err worst;           /* most telling failure of an attempt */
    ev_timer deadline;
    ev_timer next; /* the resolution delay, then the delay between attempts */
    struct address *denied;
    enum address_class *denied_class;
    size_t denied_count;
    unsigned denied_classes;
};

/* The failures of several attempts come to one: what says most about the destination wins, and
 * being out of sockets, which says nothing about it, comes before all. */
static int rank(enum err e)
{
    switch (e) {
    case ERR_OVERLOADED:
        return 5;
    case ERR_UPSTREAM_REFUSED:
        return 4;
    case ERR_UPSTREAM_HOST_UNREACHABLE:
        return 3;
    case ERR_UPSTREAM_UNREACHABLE:
        return 2;
    case ERR_UPSTREAM_TIMEOUT:
        return 1;
    default:
        return 0;
    }
}

static void note_failure(struct dial *d, enum err e)
{
    if (rank(e) > rank(d->worst))
        d->worst = e;
}

static enum err connect_error(int number)
{
    enum err e = err_from_errno(number);

    if (number == ECONNRESET)
        return ERR_UPSTREAM_REFUSED;
    /* What is left is about the address. */
    return rank(e) > 0 ? e : ERR_UPSTREAM_HOST_UNREACHABLE;
}

static void attempt_free(struct attempt *a, bool close_it)
{
    ev_io_stop(a->dial->dialer->loop, &a->io);
    if (close_it)
        close(a->io.fd);
    free(a);
}

/* Everything but the structure and what the result points to. */
static void release(struct dial *d)
{
    struct ev_loop *loop = d->dialer->loop;

    if (d->lookup != NULL)
        lookup_cancel(d->lookup);
    d->lookup = NULL;
    while (d->attempts != NULL) {
        struct attempt *a = d->attempts;
        d->attempts = a->next;
        attempt_free(a, true);
    }
    ev_timer_stop(loop, &d->deadline);
    ev_timer_stop(loop, &d->next);
    address_queue_free(&d->queue);
}

static void dial_free(struct dial *d)
{
    free(d->denied);
    free(d->denied_class);
    free(d);
}

static void finish(struct dial *d, enum err err, int fd, const struct address *address)
{
    struct dial_result result = {
        .err = err,
        .fd = fd,
        .denied_classes = d->denied_classes,
        .denied = d->denied,
        .denied_class = d->denied_class,
        .denied_count = d->denied_count,
    };

    if (address != NULL)
        result.address = *address;
    release(d);
    d->phase = PHASE_OVER;
    d->callback(d->ctx, &result);
    dial_free(d);
}

/* A resolver without a socket finds no name either: that is not the name's fault. */
static bool out_of_descriptors(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return errno == EMFILE;
    close(fd);
    return false;
}

static void finish_failed(struct dial *d)
{
    enum err err = d->worst;

    if (d->queue.count == 0)
        err = d->denied_count > 0    ? ERR_ADDRESS
              : out_of_descriptors() ? ERR_OVERLOADED
                                     : ERR_UPSTREAM_DNS;
    finish(d, err, -1, NULL);
}

static void finish_connected(struct dial *d, int fd, const struct address *address)
{
    struct address reached = *address;

    finish(d, ERR_NONE, fd, &reached);
}

static void start_attempts(struct dial *d);

static void on_attempt(struct ev_loop *loop, ev_io *w, int revents)
{
    struct attempt *a = (struct attempt *)(void *)w;
    struct dial *d = a->dial;
    struct attempt **p = &d->attempts;
    bool latest = d->attempts == a;
    int fd = w->fd, error = 0;
    socklen_t n = sizeof(error);
    struct address address = a->address;

    (void)loop;
    /* A failure makes the socket readable too: without that there is nothing to ask. */
    if ((revents & EV_READ) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    while (*p != a)
        p = &(*p)->next;
    *p = a->next;
    attempt_free(a, error != 0);
    if (error == 0) {
        finish_connected(d, fd, &address);
        return;
    }
    note_failure(d, connect_error(error));
    /* One that began before the latest changes nothing: the next has its time set already. */
    if (latest || d->attempts == NULL)
        start_attempts(d);
}

/* A socket that connects or is connected, or -1 with the failure noted. */
static int connect_to(struct dial *d, const struct address *address, bool *connected)
{
    static const int one = 1;
    struct sockaddr_storage to;
    socklen_t n = address_to_sockaddr(address, d->port, &to);
    int fd = socket_open(address->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM, IPPROTO_TCP);

    if (fd < 0) {
        bool out = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        note_failure(d, out ? ERR_OVERLOADED : connect_error(errno));
        return -1;
    }
    /* A failure only costs latency. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *connected = connect(fd, (const struct sockaddr *)&to, n) == 0;
    if (*connected || errno == EINPROGRESS || errno == EINTR)
        return fd;
    note_failure(d, connect_error(errno));
    close(fd);
    return -1;
}

static void watch_attempt(struct dial *d, int fd, const struct address *address)
{
    struct ev_loop *loop = d->dialer->loop;
    struct attempt *a = mem_alloc(sizeof(*a));

    a->dial = d;
    a->address = *address;
    ev_io_init(&a->io, on_attempt, fd, EV_READ | EV_WRITE);
    ev_io_start(loop, &a->io);
    a->next = d->attempts;
    d->attempts = a;
}

static void run_timer(struct dial *d, uint32_t ms)
{
    struct ev_loop *loop = d->dialer->loop;

    ev_timer_stop(loop, &d->next);
    ev_timer_set(&d->next, (ev_tstamp)ms / 1000., 0.);
    ev_timer_start(loop, &d->next);
}

/* Begins the next attempt that does not fail at once; ends the dial when nothing is left. */
static void start_attempts(struct dial *d)
{
    const struct limits *limits = d->dialer->limits;
    struct address address;

    d->phase = PHASE_CONNECTING;
    ev_timer_stop(d->dialer->loop, &d->next);
    while (d->attempt_count < limits->dial_attempts && address_queue_take(&d->queue, &address)) {
        bool connected = false;
        int fd = connect_to(d, &address, &connected);
        d->attempt_count++;
        if (connected) {
            finish_connected(d, fd, &address);
            return;
        }
        if (fd >= 0) {
            watch_attempt(d, fd, &address);
            run_timer(d, limits->attempt_delay_ms);
            return;
        }
    }
    if (d->attempts == NULL && (d->lookup == NULL || d->attempt_count >= limits->dial_attempts))
        finish_failed(d);
}

static void on_next(struct ev_loop *loop, ev_timer *w, int revents)
{
    (void)loop;
    (void)revents;
    start_attempts(w->data);
}

static void on_deadline(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct dial *d = w->data;

    (void)loop;
    (void)revents;
    note_failure(d, ERR_UPSTREAM_TIMEOUT);
    finish_failed(d);
}

static void drop_address(struct dial *d, const struct address *a, enum address_class class)
{
    d->denied = mem_resize(d->denied, d->denied_count + 1, sizeof(*d->denied));
    d->denied_class = mem_resize(d->denied_class, d->denied_count + 1, sizeof(*d->denied_class));
    d->denied[d->denied_count] = *a;
    d->denied_class[d->denied_count++] = class;
    d->denied_classes |= 1u << class;
}

static void judge(struct dial *d, const struct address *addresses, size_t count)
{
    const struct address_set *local = interfaces_addresses(d->dialer->interfaces);

    for (size_t i = 0; i < count; i++) {
        enum address_class class =
            d->policy == NULL
                ? ADDRESS_KEPT
                : policy_judge_address(d->policy, d->host, d->port, &addresses[i], local);
        if (class == ADDRESS_KEPT)
            address_queue_add(&d->queue, &addresses[i]);
        else
            drop_address(d, &addresses[i], class);
    }
}

/* More addresses, or the last ones, while nothing has been tried. */
static void begin(struct dial *d)
{
    bool have_v6 = address_queue_has(&d->queue, 6);

    if (d->queue.count == 0) {
        if (d->lookup == NULL)
            finish_failed(d);
    } else if (d->lookup == NULL || have_v6) {
        /* IPv6 addresses that came within the delay go first (RFC 8305 section 3). */
        if (have_v6 && ev_is_active(&d->next))
            d->queue.turn = 6;
        start_attempts(d);
    } else if (!ev_is_active(&d->next)) {
        run_timer(d, d->dialer->limits->resolution_delay_ms);
    }
}

static void on_addresses(void *ctx, const struct address *addresses, size_t count, bool last,
                         enum err err)
{
    struct dial *d = ctx;

    (void)err; /* whatever kept the name from resolving, the dial's class is "dns" */
    if (last)
        d->lookup = NULL;
    if (count > 0)
        judge(d, addresses, count);
    if (d->phase == PHASE_WAITING)
        begin(d);
    else if (d->attempts == NULL || !ev_is_active(&d->next))
        start_attempts(d);
}

struct dial *dial_start(const struct dialer *dialer, const struct policy *policy,
                        const struct host *host, uint16_t port, dial_callback *callback, void *ctx)
{
    struct dial *d = mem_alloc(sizeof(*d));

    d->dialer = dialer;
    d->policy = policy;
    d->host = host;
    d->port = port;
    d->callback = callback;
    d->ctx = ctx;
    d->worst = ERR_UPSTREAM_TIMEOUT;
    ev_timer_init(&d->deadline, on_deadline, (ev_tstamp)dialer->limits->dial_ms / 1000., 0.);
    ev_timer_init(&d->next, on_next, 0., 0.);
    d->deadline.data = d->next.data = d;
    ev_timer_start(dialer->loop, &d->deadline);
    if (host->is_address) {
        address_queue_add(&d->queue, &host->address);
        ev_feed_event(dialer->loop, &d->next, EV_TIMER);
    } else {
        d->lookup = resolver_lookup(dialer->resolver, host, on_addresses, d);
    }
    return d;
}

void dial_cancel(struct dial *d)
{
    if (d == NULL || d->phase == PHASE_OVER)
        return;
    release(d);
    dial_free(d);
}
