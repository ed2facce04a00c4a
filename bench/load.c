/*
 * The load generator of `./dev bench`: one thread, one epoll, a closed loop of
 * N connections through a proxy. It prints one JSON line; the caller measures
 * the proxy.
 *
 *   load MODE --via http|socks|direct --proxy ADDR:PORT --target ADDR:PORT
 *        [--path PATH] [--connections N] [--operations M]
 *
 *   tunnel    connect, handshake, one request, its answer to the end, close
 *   request   keep-alive requests in absolute form; the line has the percentiles of their times
 *   transfer  one tunnel a connection, one long answer, bytes dropped
 *   idle      open N tunnels, print the line, wait for the end of stdin
 *   pending   the same with N requests that nobody answers
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum mode { MODE_TUNNEL, MODE_REQUEST, MODE_TRANSFER, MODE_IDLE, MODE_PENDING };
enum via { VIA_HTTP_PROXY, VIA_SOCKS_PROXY, VIA_NOTHING };

enum phase {
    CONNECTING,    /* until writable */
    HANDSHAKE,     /* the proxy's answer to CONNECT, or the SOCKS method */
    SOCKS_ANSWER,  /* the ten bytes of the reply */
    RESPONSE_HEAD, /* the origin's head */
    RESPONSE_BODY, /* its body: `left` bytes, or to the end */
    IDLE
};

enum { LATENCY_MAX_US = 1000000 /* and longer */ };

struct connection {
    int fd;
    enum phase phase;
    size_t have;   /* bytes of a head or a handshake so far */
    uint64_t left; /* of a body */
    double sent;   /* when the request was */
    char head[4096];
};

static struct {
    enum mode mode;
    enum via via;
    struct sockaddr_in proxy;
    const char *target, *path;
    struct in_addr target_ip;
    uint16_t target_port;
    long connections, operations;
    /* progress */
    long started, finished, errors, idle;
    uint64_t bytes;
    uint32_t latencies[LATENCY_MAX_US + 1]; /* how many took so many microseconds */
    struct connection *all;
    int epoll;
    char request[1024];
    size_t request_len;
} load = {.path = "/", .connections = 32, .operations = 10000};

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool parse_address(const char *text, struct in_addr *ip, uint16_t *port)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    *port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return inet_pton(AF_INET, host, ip) == 1;
}

static void watch(struct connection *c, uint32_t events, int operation)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (epoll_ctl(load.epoll, operation, c->fd, &e) != 0)
        die("epoll_ctl");
}

static void send_all(struct connection *c, const void *p, size_t n)
{
    /* Heads of a few hundred bytes on a fresh socket: a short write would be a fault. */
    if (send(c->fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("send");
}

static void begin(struct connection *c)
{
    int one = 1;
    load.started++;
    c->have = 0;
    c->phase = CONNECTING;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&load.proxy, sizeof load.proxy) != 0 &&
        errno != EINPROGRESS)
        die("connect");
    watch(c, EPOLLOUT, EPOLL_CTL_ADD);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void send_request(struct connection *c)
{
    c->have = 0;
    c->sent = now();
    c->phase = RESPONSE_HEAD;
    send_all(c, load.request, load.request_len);
}

/* Every operation keeps its connection. */
static bool stays(void)
{
    return load.mode == MODE_IDLE || load.mode == MODE_PENDING;
}

static void stay(struct connection *c)
{
    c->phase = IDLE;
    load.idle++;
    /* A few at a time: a rush would show what handshakes take, not what tunnels keep. */
    if (load.started < load.operations)
        begin(&load.all[load.started]);
}

static void tunnel_open(struct connection *c)
{
    if (load.mode == MODE_IDLE)
        stay(c);
    else
        send_request(c);
}

static void connected(struct connection *c)
{
    char text[256];
    watch(c, EPOLLIN, EPOLL_CTL_MOD);
    if (load.mode == MODE_REQUEST) {
        send_request(c);
    } else if (load.mode == MODE_PENDING) {
        send_request(c);
        stay(c);
    } else if (load.via == VIA_NOTHING) {
        tunnel_open(c);
    } else if (load.via == VIA_SOCKS_PROXY) {
        c->phase = HANDSHAKE;
        send_all(c, "\x05\x01\x00", 3);
    } else {
        int n = snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", load.target,
                         load.target);
        c->phase = HANDSHAKE;
        send_all(c, text, (size_t)n);
    }
}

/* The operation is over; the connection starts another, or ends. */
static void finish(struct connection *c, bool ok)
{
    double took_us = (now() - c->sent) * 1e6;
    load.finished++;
    load.latencies[took_us < LATENCY_MAX_US ? (size_t)took_us : LATENCY_MAX_US]++;
    if (!ok)
        load.errors++;
    if (ok && load.mode == MODE_REQUEST && load.started < load.operations) {
        load.started++;
        send_request(c);
        return;
    }
    close(c->fd);
    c->fd = -1;
    if (load.started < load.operations)
        begin(c);
}

/* A head is complete: its length, 0 when it is not. */
static size_t head_length(const struct connection *c)
{
    const char *end = memmem(c->head, c->have, "\r\n\r\n", 4);
    return end != NULL ? (size_t)(end - c->head) + 4 : 0;
}

static void response_head(struct connection *c)
{
    size_t n = head_length(c);
    if (n == 0)
        return;
    c->head[n - 1] = 0;
    const char *length = strcasestr(c->head, "\r\nContent-Length:");
    if (strncmp(c->head, "HTTP/1.1 200", 12) != 0) {
        finish(c, false);
        return;
    }
    c->left = length != NULL ? strtoull(length + 17, NULL, 10) : UINT64_MAX;
    c->left -= c->have - n;
    load.bytes += c->have - n;
    c->phase = RESPONSE_BODY;
    if (c->left == 0 && load.mode == MODE_REQUEST)
        finish(c, true);
}

static void handshake(struct connection *c)
{
    uint8_t request[10] = {5, 1, 0, 1};
    if (load.via == VIA_SOCKS_PROXY && c->phase == HANDSHAKE) {
        if (c->have < 2)
            return;
        memcpy(request + 4, &load.target_ip, 4);
        request[8] = (uint8_t)(load.target_port >> 8);
        request[9] = (uint8_t)load.target_port;
        c->have = 0;
        c->phase = SOCKS_ANSWER;
        send_all(c, request, sizeof request);
        return;
    }
    if (c->phase == SOCKS_ANSWER) {
        if (c->have < 10)
            return;
        if (c->head[1] != 0)
            finish(c, false);
        else
            tunnel_open(c);
        return;
    }
    if (head_length(c) == 0)
        return;
    if (strncmp(c->head + 8, " 200", 4) != 0)
        finish(c, false);
    else
        tunnel_open(c);
}

static void readable(struct connection *c)
{
    ssize_t n;
    if (c->phase == RESPONSE_BODY) {
        /* The bytes do not matter: the kernel drops them without a copy. */
        n = recv(c->fd, NULL, 1 << 20, MSG_TRUNC);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0) {
            load.bytes += (uint64_t)n;
            if (c->left != UINT64_MAX)
                c->left -= (uint64_t)n;
        }
        if (n <= 0)
            finish(c, c->left == 0 || (n == 0 && c->left == UINT64_MAX));
        else if (c->left == 0 && load.mode == MODE_REQUEST)
            finish(c, true);
        return;
    }
    n = recv(c->fd, c->head + c->have, sizeof c->head - 1 - c->have, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        finish(c, false);
        return;
    }
    c->have += (size_t)n;
    if (c->phase == RESPONSE_HEAD)
        response_head(c);
    else if (c->phase != IDLE)
        handshake(c);
}

static unsigned percentile_us(unsigned percent)
{
    unsigned us = 0;
    uint64_t seen = load.latencies[0];
    while (seen * 100 < (uint64_t)load.finished * percent && us < LATENCY_MAX_US)
        seen += load.latencies[++us];
    return us;
}

static void run(void)
{
    struct epoll_event events[256];
    long room = stays() ? load.operations : load.connections;
    load.all = calloc((size_t)room, sizeof *load.all);
    if (load.all == NULL)
        die("calloc");
    for (long i = 0; i < load.connections && load.started < load.operations; i++)
        begin(&load.all[i]);
    while (load.finished < load.operations && load.idle < load.operations) {
        int n = epoll_wait(load.epoll, events, 256, 20000);
        if (n == 0) {
            fprintf(stderr, "load: nothing moved for 20 s (%ld of %ld)\n", load.finished,
                    load.operations);
            exit(1);
        }
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->phase == CONNECTING)
                connected(c);
            else
                readable(c);
        }
    }
}

static void compose_request(void)
{
    bool keep = load.mode == MODE_REQUEST || load.mode == MODE_PENDING;
    int n = snprintf(load.request, sizeof load.request,
                     "GET %s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: load\r\nAccept: */*\r\n"
                     "Connection: %s\r\n\r\n",
                     keep ? "http://" : "", keep ? load.target : "", load.path, load.target,
                     keep ? "keep-alive" : "close");
    load.request_len = (size_t)n;
}

static void usage(void)
{
    fputs("usage: load tunnel|request|transfer|idle|pending --via http|socks|direct --proxy A:P "
          "--target A:P [--path PATH] [--connections N] [--operations M]\n",
          stderr);
    exit(2);
}

static void take_option(const char *name, const char *value)
{
    if (strcmp(name, "--via") == 0)
        load.via = value[0] == 's'   ? VIA_SOCKS_PROXY
                   : value[0] == 'd' ? VIA_NOTHING
                                     : VIA_HTTP_PROXY;
    else if (strcmp(name, "--proxy") == 0) {
        uint16_t port;
        load.proxy.sin_family = AF_INET;
        if (!parse_address(value, &load.proxy.sin_addr, &port))
            usage();
        load.proxy.sin_port = htons(port);
    } else if (strcmp(name, "--target") == 0) {
        load.target = value;
        if (!parse_address(value, &load.target_ip, &load.target_port))
            usage();
    } else if (strcmp(name, "--path") == 0)
        load.path = value;
    else if (strcmp(name, "--connections") == 0)
        load.connections = strtol(value, NULL, 10);
    else if (strcmp(name, "--operations") == 0)
        load.operations = strtol(value, NULL, 10);
    else
        usage();
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"tunnel", "request", "transfer", "idle", "pending"};
    if (argc < 2 || argc % 2 != 0)
        usage();
    int mode = 0;
    while (mode < 5 && strcmp(argv[1], modes[mode]) != 0)
        mode++;
    if (mode == 5)
        usage();
    load.mode = (enum mode)mode;
    for (int i = 2; i + 1 < argc; i += 2)
        take_option(argv[i], argv[i + 1]);
    if (load.target == NULL || load.proxy.sin_family == 0)
        usage();
    compose_request();
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    double start = now();
    run();
    double seconds = now() - start;
    printf("{\"operations\": %ld, \"errors\": %ld, \"bytes\": %llu, \"seconds\": %.6f, "
           "\"p50_us\": %u, \"p99_us\": %u}\n",
           stays() ? load.idle : load.finished, load.errors, (unsigned long long)load.bytes,
           seconds, percentile_us(50), percentile_us(99));
    fflush(stdout);
    char end;
    while (stays() && read(STDIN_FILENO, &end, 1) > 0)
        continue;
    free(load.all);
    return load.errors != 0;
}
