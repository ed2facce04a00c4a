#include "proxy/net/dns_channel.h"

#include <ares.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "proxy/net/socket_open.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum {
    QUERIES_MAX = 128, /* of a channel, so that ports do not live long (RFC 5452 section 9.2) */
    IDS = 32           /* random identifiers fetched at a time */
};

/* One socket c-ares has open. */
struct dns_socket {
    ev_io io;
    struct dns_channel *channel;
    bool datagram;
    struct dns_socket *next;
};

struct dns_channel {
    struct ev_loop *loop;
    ares_channel ares;
    ev_timer timer;
    ev_tstamp timeout_s;
    struct dns_socket *sockets;
    struct dns_server *servers;
    size_t server_count;
    size_t pending;
    size_t asked;
    bool timed_out;
    uint16_t ids[IDS];
    size_t ids_left;
};

static struct dns_socket *find_socket(const struct dns_channel *c, int fd)
{
    struct dns_socket *s = c->sockets;

    while (s != NULL && s->io.fd != fd)
        s = s->next;
    return s;
}

/*
 * c-ares scans every pending query to say when the next times out, so it is
 * asked only when the timer fires; until then the timer never runs longer than
 * one try, which is the least a query sent just now can take.
 */
static void watch_time(struct dns_channel *c)
{
    if (c->pending == 0) {
        ev_timer_stop(c->loop, &c->timer);
        return;
    }
    if (ev_is_active(&c->timer) && ev_timer_remaining(c->loop, &c->timer) <= c->timeout_s)
        return;
    ev_timer_stop(c->loop, &c->timer);
    ev_timer_set(&c->timer, c->timeout_s, 0.);
    ev_timer_start(c->loop, &c->timer);
}

static void on_io(struct ev_loop *loop, ev_io *w, int revents)
{
    struct dns_socket *s = (struct dns_socket *)(void *)w;
    struct dns_channel *c = s->channel;
    int fd = w->fd;

    (void)loop;
    ares_process_fd(c->ares, (revents & EV_READ) != 0 ? fd : ARES_SOCKET_BAD,
                    (revents & EV_WRITE) != 0 ? fd : ARES_SOCKET_BAD);
    watch_time(c);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct dns_channel *c = w->data;
    struct timeval next;

    (void)revents;
    ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    if (ares_timeout(c->ares, NULL, &next) != NULL) {
        /* Not a moment too early: the loop's time may lag behind the clock of c-ares. */
        ev_tstamp after = (ev_tstamp)next.tv_sec + (ev_tstamp)next.tv_usec * 1e-6 + 1e-3;
        ev_timer_stop(loop, w);
        ev_timer_set(w, after < c->timeout_s ? after : c->timeout_s, 0.);
        ev_timer_start(loop, w);
    }
    watch_time(c);
}

static ares_socket_t open_hook(int family, int type, int protocol, void *ctx)
{
    struct dns_channel *c = ctx;
    int fd = socket_open(family, type, protocol);

    if (fd < 0)
        return ARES_SOCKET_BAD;
    struct dns_socket *s = mem_alloc(sizeof(*s));
    s->channel = c;
    s->datagram = type == SOCK_DGRAM;
    ev_io_init(&s->io, on_io, fd, 0);
    s->next = c->sockets;
    c->sockets = s;
    return fd;
}

static int close_hook(ares_socket_t fd, void *ctx)
{
    struct dns_channel *c = ctx;

    for (struct dns_socket **p = &c->sockets; *p != NULL; p = &(*p)->next) {
        struct dns_socket *s = *p;
        if (s->io.fd != fd)
            continue;
        *p = s->next;
        ev_io_stop(c->loop, &s->io);
        free(s);
        break;
    }
    return close(fd);
}

/* c-ares keeps no zone with a server's address: a link-local one gets it here. */
static int connect_hook(ares_socket_t fd, const struct sockaddr *to, ares_socklen_t n, void *ctx)
{
    const struct dns_channel *c = ctx;
    struct sockaddr_in6 scoped;

    if (to->sa_family == AF_INET6 && n == sizeof(scoped)) {
        memcpy(&scoped, to, sizeof(scoped));
        for (size_t i = 0; i < c->server_count; i++) {
            const struct dns_server *server = &c->servers[i];
            if (server->address.family == 6 &&
                memcmp(server->address.bytes, &scoped.sin6_addr, sizeof(scoped.sin6_addr)) == 0)
                scoped.sin6_scope_id = server->address.scope;
        }
        return connect(fd, (const struct sockaddr *)&scoped, sizeof(scoped));
    }
    return connect(fd, to, n);
}

static ares_ssize_t receive_hook(ares_socket_t fd, void *p, size_t n, int flags,
                                 struct sockaddr *from, ares_socklen_t *from_n, void *ctx)
{
    const struct dns_socket *s = find_socket(ctx, fd);
    ssize_t got = recvfrom(fd, p, n, flags, from, from_n);

    /* An empty datagram is nobody's answer; c-ares would take it for the end of a stream. */
    if (got == 0 && s != NULL && s->datagram) {
        errno = EAGAIN;
        return -1;
    }
    return got;
}

static ares_ssize_t send_hook(ares_socket_t fd, const struct iovec *iov, int count, void *ctx)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)count};

    (void)ctx;
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void on_socket_state(void *ctx, ares_socket_t fd, int readable, int writable)
{
    const struct dns_channel *c = ctx;
    struct dns_socket *s = find_socket(c, fd);
    int events = (readable != 0 ? EV_READ : 0) | (writable != 0 ? EV_WRITE : 0);

    if (s == NULL || (events != 0 && ev_is_active(&s->io) && s->io.events == events))
        return;
    ev_io_stop(c->loop, &s->io);
    if (events != 0) {
        ev_io_set(&s->io, fd, events);
        ev_io_start(c->loop, &s->io);
    }
}

static bool set_servers(struct dns_channel *c)
{
    struct ares_addr_port_node *nodes = mem_array(c->server_count, sizeof(*nodes));

    for (size_t i = 0; i < c->server_count; i++) {
        const struct dns_server *server = &c->servers[i];
        struct ares_addr_port_node *node = &nodes[i];
        node->next = i + 1 < c->server_count ? node + 1 : NULL;
        node->udp_port = node->tcp_port = server->port;
        if (server->address.family == 4) {
            node->family = AF_INET;
            memcpy(&node->addr.addr4, server->address.bytes, sizeof(node->addr.addr4));
        } else {
            node->family = AF_INET6;
            memcpy(&node->addr.addr6, server->address.bytes, sizeof(node->addr.addr6));
        }
    }
    int status = ares_set_servers_ports(c->ares, nodes);
    free(nodes);
    return status == ARES_SUCCESS;
}

/* Everything c-ares would look up in files is given, so that it opens none. */
static bool start_ares(struct dns_channel *c, const struct dns_channel_options *o)
{
    struct in_addr placeholder = {.s_addr = htonl(INADDR_LOOPBACK)};
    struct ares_options options = {
        .flags = o->use_tcp ? ARES_FLAG_USEVC : 0,
        .timeout = o->timeout_ms > INT_MAX ? INT_MAX : (int)o->timeout_ms,
        .tries = o->tries > INT_MAX ? INT_MAX : (int)o->tries,
        .ndots = 1,
        .servers = &placeholder,
        .nservers = 1,
        .lookups = (char[]){"b"},
        .sock_state_cb = on_socket_state,
        .sock_state_cb_data = c,
    };
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
               ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST |
               ARES_OPT_SOCK_STATE_CB | (o->rotate ? ARES_OPT_ROTATE : ARES_OPT_NOROTATE);
    static const struct ares_socket_functions hooks = {
        .asocket = open_hook,
        .aclose = close_hook,
        .aconnect = connect_hook,
        .arecvfrom = receive_hook,
        .asendv = send_hook,
    };

    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
        return false;
    if (ares_init_options(&c->ares, &options, mask) == ARES_SUCCESS) {
        ares_set_socket_functions(c->ares, &hooks, c);
        if (set_servers(c))
            return true;
        ares_destroy(c->ares);
    }
    ares_library_cleanup();
    return false;
}

struct dns_channel *dns_channel_new(struct ev_loop *loop, const struct dns_channel_options *options)
{
    struct dns_channel *c = mem_alloc(sizeof(*c));

    c->loop = loop;
    c->timeout_s = (ev_tstamp)options->timeout_ms / 1000.;
    c->servers = mem_array(options->server_count, sizeof(*c->servers));
    memcpy(c->servers, options->servers, options->server_count * sizeof(*c->servers));
    c->server_count = options->server_count;
    ev_timer_init(&c->timer, on_timer, 0., 0.);
    c->timer.data = c;
    if (start_ares(c, options))
        return c;
    free(c->servers);
    free(c);
    return NULL;
}

void dns_channel_free(struct dns_channel *c)
{
    if (c == NULL)
        return;
    ares_destroy(c->ares);
    ares_library_cleanup();
    ev_timer_stop(c->loop, &c->timer);
    free(c->servers);
    free(c);
}

static enum dns_status status_of(int ares_status)
{
    switch (ares_status) {
    case ARES_SUCCESS:
        return DNS_ADDRESSES;
    case ARES_ETIMEOUT:
        return DNS_TIMEOUT;
    /* What c-ares says when servers answered SERVFAIL, NOTIMP or REFUSED, too. */
    case ARES_ECONNREFUSED:
    case ARES_ESERVFAIL:
    case ARES_EREFUSED:
    case ARES_ENOTIMP:
        return DNS_SERVER_FAILED;
    default:
        return DNS_FAILED;
    }
}

static void on_answer(void *ctx, int status, int timeouts, unsigned char *answer, int n)
{
    struct dns_request *request = ctx;
    struct dns_channel *c = request->channel;

    (void)timeouts;
    c->pending--;
    if (status == ARES_ETIMEOUT)
        c->timed_out = true;
    request->callback(request->ctx, status_of(status), answer, n > 0 ? (size_t)n : 0);
}

/* c-ares would seed its own generator from a file that may be out of reach. */
static bool next_id(struct dns_channel *c, uint16_t *out)
{
    if (c->ids_left == 0) {
        if (getentropy(c->ids, sizeof(c->ids)) != 0)
            return false;
        c->ids_left = IDS;
    }
    *out = c->ids[--c->ids_left];
    return true;
}

void dns_channel_query(struct dns_channel *c, struct dns_request *request, const char *name,
                       unsigned type, dns_callback *callback, void *ctx)
{
    unsigned char *query = NULL;
    int n = 0;
    uint16_t id;

    *request = (struct dns_request){.channel = c, .callback = callback, .ctx = ctx};
    c->asked++;
    if (!next_id(c, &id) ||
        ares_create_query(name, 1 /* IN */, (int)type, id, 1, &query, &n, 0) != ARES_SUCCESS) {
        callback(ctx, DNS_FAILED, NULL, 0);
        return;
    }
    c->pending++;
    ares_send(c->ares, query, n, on_answer, request);
    ares_free_string(query);
    watch_time(c);
}

size_t dns_channel_pending(const struct dns_channel *c)
{
    return c->pending;
}

bool dns_channel_spent(const struct dns_channel *c)
{
    return c->timed_out || c->asked >= QUERIES_MAX;
}
