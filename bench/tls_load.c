/*
 * The clients of bench/tls.py: processes that each do one thing after another
 * through terminated tunnels for a while. It prints one JSON line.
 *
 *   tls_load tunnel|resumed|request PROXY-PORT TARGET-HOST TARGET-PORT CA-FILE CLIENTS SECONDS
 *
 *   tunnel    CONNECT, handshake, GET /1k, close
 *   resumed   the same with the session of the one before
 *   request   GET /1k again and again in one tunnel a client
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

enum { BODY = 1024 };

static struct {
    const char *host, *target_port;
    struct sockaddr_in proxy;
    SSL_CTX *tls;
    SSL_SESSION *session; /* the newest */
} load;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "tls_load: %s\n", what);
    ERR_print_errors_fp(stderr);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    (void)ssl;
    SSL_SESSION_free(load.session);
    load.session = session;
    return 1;
}

/* A connection to the proxy after the 200 of its CONNECT. */
static int connected(void)
{
    char text[512];
    size_t have = 0;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&load.proxy, sizeof load.proxy) != 0)
        die("no connection to the proxy");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int n = snprintf(text, sizeof text, "CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", load.host,
                     load.target_port, load.host, load.target_port);
    if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        die("CONNECT cannot be sent");
    while (have < 4 || memcmp(text + have - 4, "\r\n\r\n", 4) != 0) {
        ssize_t got = recv(fd, text + have, sizeof text - have, 0);
        if (got <= 0)
            die("no answer to CONNECT");
        have += (size_t)got;
    }
    if (memcmp(text + 8, " 200", 4) != 0)
        die("CONNECT is refused");
    return fd;
}

static SSL *open_tunnel(bool resume)
{
    SSL *ssl = SSL_new(load.tls);
    if (ssl == NULL || SSL_set_fd(ssl, connected()) != 1 || SSL_set1_host(ssl, load.host) != 1)
        die("no TLS object");
    if (resume && load.session != NULL)
        SSL_set_session(ssl, load.session);
    if (SSL_connect(ssl) != 1)
        die("the handshake failed");
    return ssl;
}

static void close_tunnel(SSL *ssl)
{
    int fd = SSL_get_fd(ssl);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(fd);
}

static void request(SSL *ssl)
{
    static const char get[] = "GET /1k HTTP/1.1\r\nHost: x\r\nUser-Agent: load\r\n"
                              "Accept: */*\r\n\r\n";
    char text[BODY + 4096];
    size_t have = 0, head = 0;
    if (SSL_write(ssl, get, sizeof get - 1) != sizeof get - 1)
        die("a request cannot be sent");
    while (head == 0 || have < head + BODY) {
        int n = SSL_read(ssl, text + have, (int)(sizeof text - have));
        if (n <= 0)
            die("an answer is cut");
        have += (size_t)n;
        const char *end = memmem(text, have, "\r\n\r\n", 4);
        if (head == 0 && end != NULL)
            head = (size_t)(end - text) + 4;
    }
    if (memcmp(text, "HTTP/1.1 200", 12) != 0)
        die("a request is refused");
}

/* How many it did. */
static uint64_t work(const char *mode, double seconds)
{
    bool again = strcmp(mode, "request") == 0, resume = strcmp(mode, "resumed") == 0;
    SSL *ssl = again ? open_tunnel(false) : NULL;
    uint64_t done = 0;
    for (double end = now() + seconds; now() < end; done++) {
        if (!again)
            ssl = open_tunnel(resume);
        request(ssl);
        if (!again)
            close_tunnel(ssl);
    }
    return done;
}

static void set_up_tls(const char *roots)
{
    load.tls = SSL_CTX_new(TLS_client_method());
    if (load.tls == NULL || SSL_CTX_load_verify_file(load.tls, roots) != 1)
        die("no TLS context");
    SSL_CTX_set_verify(load.tls, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(load.tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(load.tls, keep_session);
}

int main(int argc, char **argv)
{
    int fds[2];
    if (argc != 8 || pipe(fds) != 0)
        die("usage: MODE PROXY-PORT TARGET-HOST TARGET-PORT CA-FILE CLIENTS SECONDS");
    load.host = argv[3];
    load.target_port = argv[4];
    load.proxy.sin_family = AF_INET;
    load.proxy.sin_port = htons((uint16_t)strtoul(argv[2], NULL, 10));
    load.proxy.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    set_up_tls(argv[5]);
    long clients = strtol(argv[6], NULL, 10);
    double seconds = strtod(argv[7], NULL), begun = now();
    for (long i = 0; i < clients; i++) {
        if (fork() != 0)
            continue;
        uint64_t done = work(argv[1], seconds);
        _exit(write(fds[1], &done, sizeof done) == sizeof done ? 0 : 1);
    }
    uint64_t total = 0, done;
    for (long i = 0; i < clients; i++) {
        int status;
        if (wait(&status) < 0 || status != 0 || read(fds[0], &done, sizeof done) != sizeof done)
            die("a client failed");
        total += done;
    }
    printf("{\"operations\": %llu, \"seconds\": %.6f}\n", (unsigned long long)total, now() - begun);
    return 0;
}
