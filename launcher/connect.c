#include "launcher/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/connect_copy.h"
#include "proxy/http/chunked.h"
#include "proxy/http/head.h"
#include "proxy/http/target.h"
#include "proxy/policy/proxy_url.h"

enum { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2 };

enum {
    HEAD_MAX = 65536,      /* of the proxy's answer */
    INTERIM_MAX = 16,      /* 1xx answers before the final one */
    READ_SIZE = 4096,      /* at a time while the answer comes */
    BODY_LINE_MAX = 4096,  /* looked through for the end of its first line */
    BODY_WAIT_MS = 2000,   /* for the body of a refusal, which is only there to be shown */
    TARGET_MAX = 255 + 16, /* a host name and a port */
};

static const char usage[] = "usage: srt connect HOST PORT\n";

/* In the order of preference: a tunnel is what HTTPS uses a proxy for. */
static const char *const variables[] = {"HTTPS_PROXY", "https_proxy", "HTTP_PROXY",
                                        "http_proxy",  "ALL_PROXY",   "all_proxy"};

/* --- what to connect to -------------------------------------------------------------------- */

/* "host:port" or "[ipv6]:port" as a CONNECT names it. */
static bool make_target(const char *host, const char *port, struct buf *out)
{
    struct authority authority;
    struct address address;
    size_t n = strlen(host);
    bool bare = address_parse(host, n, false, &address) && strchr(host, ':') != NULL;

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)host[i] <= 0x20 || (unsigned char)host[i] == 0x7f)
            return false;
    if (!buf_printf(out, bare ? "[%s]:%s" : "%s:%s", host, port))
        return false;
    /* The host must not end where a colon in it says: it would be another one. */
    return authority_parse_connect(buf_cstr(out), buf_len(out), &authority) &&
           authority.host_len == (authority.bracketed && !bare ? n - 2 : n);
}

/* False after saying why. */
static bool find_proxy(struct parent_proxy *proxy)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL || value[0] == '\0')
            continue;
        if (proxy_url_parse(value, proxy)) {
            if (!proxy->tls)
                return true;
            proxy_url_clear(proxy);
        }
        log_error("%s is not the http:// URL of a proxy", variables[i]);
        return false;
    }
    log_error("no proxy is named by HTTPS_PROXY, HTTP_PROXY or ALL_PROXY");
    return false;
}

/* --- the connection to the proxy ------------------------------------------------------------ */

/* -1 with errno. */
static int dial(const struct sockaddr *to, socklen_t size)
{
    const int on = 1;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, to, size) != 0) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static int dial_address(const char *text, uint16_t port)
{
    struct sockaddr_storage to;
    struct address address;

    if (!address_parse(text, strlen(text), false, &address)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    socklen_t size = address_to_sockaddr(&address, port, &to);
    return dial((const struct sockaddr *)&to, size);
}

static int dial_name(const char *name, uint16_t port, const char **why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    int fd = -1;

    snprintf(service, sizeof service, "%u", (unsigned)port);
    int result = getaddrinfo(name, service, &hints, &found);
    if (result != 0) {
        *why = gai_strerror(result);
        return -1;
    }
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        fd = dial(a->ai_addr, a->ai_addrlen);
    *why = strerror(errno);
    freeaddrinfo(found);
    return fd;
}

/* -1 after saying why. A box has no resolver, so the names of the loopback are not looked up. */
static int dial_proxy(const struct parent_proxy *proxy)
{
    struct address address;
    const char *why = NULL;
    int fd;

    if (strcmp(proxy->host, "localhost") == 0) {
        fd = dial_address("127.0.0.1", proxy->port);
        if (fd < 0)
            fd = dial_address("::1", proxy->port);
        why = strerror(errno);
    } else if (address_parse(proxy->host, strlen(proxy->host), false, &address)) {
        fd = dial_address(proxy->host, proxy->port);
        why = strerror(errno);
    } else {
        fd = dial_name(proxy->host, proxy->port, &why);
    }
    if (fd < 0)
        log_error("the proxy at %s port %u: %s", proxy->host, (unsigned)proxy->port, why);
    return fd;
}

/* --- CONNECT -------------------------------------------------------------------------------- */

static bool send_request(int fd, const char *target, const char *authorization)
{
    struct buf request;

    buf_init(&request, 2 * TARGET_MAX + 256 + (authorization != NULL ? strlen(authorization) : 0));
    buf_printf(&request, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target);
    if (authorization != NULL)
        buf_printf(&request, "Proxy-Authorization: %s\r\n", authorization);
    buf_puts(&request, "\r\n");
    bool sent = fd_write_all(fd, buf_data(&request), buf_len(&request));
    buf_wipe(&request);
    return sent;
}

/* What read() gives; never 0 for want of room. */
static ssize_t read_more(int fd, struct buf *in)
{
    uint8_t *p = buf_reserve(in, READ_SIZE);
    ssize_t n;
    do
        n = read(fd, p, READ_SIZE);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        buf_commit(in, (size_t)n);
    return n;
}

/* The final answer; what follows its head stays in *in. False after saying why. */
static bool read_answer(int fd, const char *target, struct head *head, struct buf *in)
{
    size_t scanned = 0;

    for (int interim = 0; interim < INTERIM_MAX;) {
        enum head_result result =
            head_parse_response(head, buf_data(in), buf_len(in), &scanned, HEAD_MAX);
        if (result == HEAD_OK && head->status >= 200)
            return true;
        if (result == HEAD_OK) {
            buf_consume(in, head->length);
            scanned = 0;
            interim++;
        } else if (result == HEAD_MORE) {
            ssize_t n = read_more(fd, in);
            if (n > 0)
                continue;
            log_error("%s: %s", target,
                      n < 0 ? strerror(errno) : "the proxy closed the connection");
            return false;
        } else {
            break;
        }
    }
    log_error("%s: the proxy's answer is not valid HTTP", target);
    return false;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Appends the first line of the body, as far as it comes. */
static void read_first_line(int fd, const struct head *head, struct buf *in, struct buf *line)
{
    const int64_t deadline = now_ms() + BODY_WAIT_MS;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    enum body_result result = BODY_MORE;
    struct body_decoder decoder;
    const uint8_t *end = NULL;

    body_decoder_init(&decoder, head->framing, head->content_length, HEAD_MAX);
    while (!body_is_done(&decoder) && result == BODY_MORE && end == NULL) {
        size_t used = 0, out = 0;
        result = body_decode(&decoder, buf_data(in), buf_len(in), &used, &out);
        if (result == BODY_BAD || !buf_append(line, buf_data(in), out))
            break;
        buf_consume(in, used);
        end = buf_len(line) != 0 ? memchr(buf_data(line), '\n', buf_len(line)) : NULL;
        int64_t left = deadline - now_ms();
        if (end == NULL && result == BODY_MORE &&
            (left <= 0 || poll(&ready, 1, (int)left) <= 0 || read_more(fd, in) <= 0))
            break;
    }
    body_decoder_free(&decoder);
    if (end != NULL)
        line->end = line->start + (size_t)(end - buf_data(line));
}

/* What the proxy says, made safe for a terminal. */
static void report_refusal(int fd, const char *target, const struct head *head, struct buf *in)
{
    struct buf reason, line, shown;

    buf_init(&reason, 3 * HEAD_MAX);
    buf_init(&line, BODY_LINE_MAX + READ_SIZE);
    buf_init(&shown, 3 * (BODY_LINE_MAX + READ_SIZE));
    text_clean_reason(&reason, buf_chars(in) + head->reason.at, head->reason.len);
    log_error("%s: %u%s%s", target, (unsigned)head->status, buf_len(&reason) != 0 ? " " : "",
              buf_cstr(&reason));
    buf_consume(in, head->length);
    read_first_line(fd, head, in, &line);
    text_clean_reason(&shown, buf_chars(&line), buf_len(&line));
    if (buf_len(&shown) != 0)
        log_error("%s", buf_cstr(&shown));
    buf_free(&reason);
    buf_free(&line);
    buf_free(&shown);
}

/* The tunnel, from the first byte to the last. */
static int run(int fd, const char *target, const char *authorization)
{
    int status = STATUS_FAILED;
    struct head head;
    struct buf in;

    head_init(&head);
    buf_init(&in, HEAD_MAX + READ_SIZE);
    if (!send_request(fd, target, authorization)) {
        log_error("%s: %s", target, strerror(errno));
        goto out;
    }
    if (!read_answer(fd, target, &head, &in))
        goto out;
    if (head.status >= 300) {
        report_refusal(fd, target, &head, &in);
        goto out;
    }
    buf_consume(&in, head.length);
    int number = connect_copy(STDIN_FILENO, STDOUT_FILENO, fd, &in);
    if (number == 0)
        status = STATUS_OK;
    else if (number != EPIPE)
        log_error("%s: %s", target, strerror(number));
out:
    head_free(&head);
    buf_free(&in);
    return status;
}

/* A socket must not become what the program takes for its standard input. */
static bool open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    return true;
}

int connect_main(int argc, char **argv)
{
    struct parent_proxy proxy;
    struct buf target;
    int status = STATUS_FAILED, fd;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return STATUS_OK;
    }
    log_set_program("srt connect");
    buf_init(&target, TARGET_MAX);
    if (argc != 3 || argv[1][0] == '-' || !make_target(argv[1], argv[2], &target)) {
        fputs(usage, stderr);
        buf_free(&target);
        return STATUS_USAGE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (open_standard_streams() && find_proxy(&proxy)) {
        fd = dial_proxy(&proxy);
        if (fd >= 0) {
            status = run(fd, buf_cstr(&target), proxy.authorization);
            close(fd);
        }
        proxy_url_clear(&proxy);
    }
    buf_free(&target);
    return status;
}
