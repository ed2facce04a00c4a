#include "tests/unit/scripted_dns.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

enum { MESSAGE_MAX = 65535, SEEN_MAX = 4096, RULES_MAX = 64 };

struct reply {
    ev_timer timer;
    struct scripted_dns *server;
    struct buf message;
    struct sockaddr_in to;
    int tcp; /* or -1 */
    struct reply *next;
};

struct client {
    ev_io io;
    struct scripted_dns *server;
    struct buf in;
    struct client *next;
};

struct seen {
    char name[256];
    unsigned type;
};

struct scripted_dns {
    struct ev_loop *loop;
    const struct dns_rule *rules;
    unsigned used[RULES_MAX];
    int udp, tcp;
    ev_io udp_io, tcp_io;
    char address[32];
    struct client *clients;
    struct reply *replies;
    struct seen seen[SEEN_MAX];
    size_t seen_count;
    unsigned seen_tcp;
    char names[8192];
};

static void put_u16(struct buf *b, unsigned v)
{
    uint8_t bytes[2] = {(uint8_t)(v >> 8), (uint8_t)v};
    buf_append(b, bytes, 2);
}

static void put_name(struct buf *b, const char *name)
{
    while (*name != '\0') {
        size_t n = strcspn(name, ".");
        uint8_t length = (uint8_t)n;
        buf_append(b, &length, 1);
        buf_append(b, name, n);
        name += n + (name[n] == '.');
    }
    buf_append(b, "", 1);
}

static void put_record_head(struct buf *b, const char *owner, unsigned type, size_t length)
{
    if (owner == NULL)
        put_u16(b, 0xc00c);
    else
        put_name(b, owner);
    put_u16(b, type);
    put_u16(b, 1);
    put_u16(b, 0);
    put_u16(b, 0);
    put_u16(b, (unsigned)length);
}

static void put_address(struct buf *b, const char *owner, unsigned type, const char *text)
{
    uint8_t bytes[16];
    size_t n = type == QUERY_A ? 4 : 16;

    if (inet_pton(type == QUERY_A ? AF_INET : AF_INET6, text, bytes) != 1)
        abort();
    put_record_head(b, owner, type, n);
    buf_append(b, bytes, n);
}

static unsigned put_addresses(struct buf *b, const struct dns_rule *rule, const char *owner,
                              unsigned type)
{
    unsigned count = 0;
    char *copy = mem_dup(rule->text == NULL ? "" : rule->text), *save = NULL;

    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        if ((strchr(word, ':') == NULL) == (type == QUERY_A)) {
            put_address(b, owner, type, word);
            count++;
        }
    }
    free(copy);
    for (unsigned i = 0, n = rule->numbers == NULL ? 0 : (unsigned)strtoul(rule->numbers, NULL, 10);
         i < n; i++, count++) {
        char text[64];
        if (type == QUERY_A)
            snprintf(text, sizeof(text), "10.1.%u.%u", i / 256, i % 256);
        else
            snprintf(text, sizeof(text), "fd00::1:%x", i);
        put_address(b, owner, type, text);
    }
    return count;
}

static void put_alias(struct buf *b, const char *alias)
{
    struct buf name;

    buf_init(&name, 256);
    put_name(&name, alias);
    put_record_head(b, NULL, 5, buf_len(&name));
    buf_append(b, buf_data(&name), buf_len(&name));
    buf_free(&name);
}

static void build(struct buf *b, const struct dns_rule *rule, const uint8_t *query,
                  size_t question_end, unsigned type, bool tcp)
{
    bool truncated = rule->trick == TRICK_TRUNCATED && !tcp;
    const char *owner = rule->trick == TRICK_WRONG_OWNER ? "other.test" : rule->alias;
    unsigned count = 0;

    buf_append(b, query, question_end);
    if (rule->rcode == RCODE_OK && !truncated) {
        if (rule->alias != NULL && rule->trick != TRICK_ALIAS_LAST) {
            put_alias(b, rule->alias);
            count++;
        }
        count += put_addresses(b, rule, owner, type);
        if (rule->trick == TRICK_ALIAS_LAST) {
            put_alias(b, rule->alias);
            count++;
        }
    }
    uint8_t *p = buf_data(b);
    p[2] =
        (uint8_t)((rule->trick == TRICK_NOT_A_RESPONSE ? 0 : 0x80) | 0x01 | (truncated ? 0x02 : 0));
    p[3] = (uint8_t)(0x80 | rule->rcode);
    p[6] = (uint8_t)(count >> 8);
    p[7] = (uint8_t)count;
    if (rule->trick == TRICK_WRONG_ID)
        p[0] ^= 0x55;
    if (rule->trick == TRICK_WRONG_QUESTION)
        p[13] ^= 0x01;
    if (rule->trick == TRICK_SHORT)
        b->end--;
    if (rule->trick == TRICK_GARBAGE) {
        p[7] = 9;
        b->end = b->start + question_end;
        buf_append(b, "\xc0\xff\xff\xc0\x01\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff", 15);
    }
}

static void reply_free(struct reply *r)
{
    struct reply **p = &r->server->replies;

    while (*p != r)
        p = &(*p)->next;
    *p = r->next;
    ev_timer_stop(r->server->loop, &r->timer);
    buf_free(&r->message);
    free(r);
}

static void on_reply(struct ev_loop *loop, ev_timer *w, int revents)
{
    struct reply *r = w->data;
    size_t n = buf_len(&r->message);

    (void)loop;
    (void)revents;
    if (r->tcp >= 0) {
        uint8_t head[2] = {(uint8_t)(n >> 8), (uint8_t)n};
        (void)!send(r->tcp, head, 2, MSG_NOSIGNAL);
        (void)!send(r->tcp, buf_data(&r->message), n, MSG_NOSIGNAL);
    } else {
        (void)!sendto(r->server->udp, n == 0 ? (const void *)"" : buf_data(&r->message), n, 0,
                      (const struct sockaddr *)&r->to, sizeof(r->to));
    }
    reply_free(r);
}

static struct reply *reply_new(struct scripted_dns *s, const struct sockaddr_in *to, int tcp,
                               double delay)
{
    struct reply *r = mem_alloc(sizeof(*r));

    r->server = s;
    r->tcp = tcp;
    if (to != NULL)
        r->to = *to;
    buf_init(&r->message, MESSAGE_MAX);
    ev_timer_init(&r->timer, on_reply, delay, 0.);
    r->timer.data = r;
    ev_timer_start(s->loop, &r->timer);
    r->next = s->replies;
    s->replies = r;
    return r;
}

static const struct dns_rule *find_rule(struct scripted_dns *s, const char *name, unsigned type)
{
    static const struct dns_rule none = {.rcode = RCODE_NXDOMAIN};

    for (size_t i = 0; i < RULES_MAX && s->rules[i].name != NULL; i++) {
        const struct dns_rule *r = &s->rules[i];
        if (strcasecmp(r->name, name) != 0 || (r->type != 0 && r->type != type) ||
            (r->times != 0 && s->used[i] >= r->times))
            continue;
        s->used[i]++;
        return r;
    }
    return &none;
}

static void answer(struct scripted_dns *s, const uint8_t *query, size_t n,
                   const struct sockaddr_in *to, int tcp)
{
    char name[256] = "";
    size_t at = 12, used = 0;

    if (n < 17)
        return;
    while (at < n && query[at] != 0 && used + query[at] + 2 < sizeof(name)) {
        if (used > 0)
            name[used++] = '.';
        memcpy(name + used, query + at + 1, query[at]);
        used += query[at];
        at += 1u + query[at];
    }
    name[used] = '\0';
    unsigned type = (unsigned)query[at + 1] << 8 | query[at + 2];
    if (s->seen_count < SEEN_MAX) {
        snprintf(s->seen[s->seen_count].name, sizeof(name), "%s", name);
        s->seen[s->seen_count++].type = type;
    }
    s->seen_tcp += tcp >= 0;
    const struct dns_rule *rule = find_rule(s, name, type);
    if (rule->trick == TRICK_SILENT)
        return;
    if (rule->trick == TRICK_EMPTY_FIRST && tcp < 0)
        (void)!sendto(s->udp, "", 0, 0, (const struct sockaddr *)to, sizeof(*to));
    struct reply *r = reply_new(s, to, tcp, rule->delay);
    build(&r->message, rule, query, at + 5, type, tcp >= 0);
}

static void on_udp(struct ev_loop *loop, ev_io *w, int revents)
{
    struct scripted_dns *s = w->data;
    uint8_t query[1024];
    struct sockaddr_in from;
    socklen_t n = sizeof(from);
    ssize_t got = recvfrom(s->udp, query, sizeof(query), 0, (struct sockaddr *)&from, &n);

    (void)loop;
    (void)revents;
    if (got > 0)
        answer(s, query, (size_t)got, &from, -1);
}

static void client_free(struct client *c)
{
    struct client **p = &c->server->clients;
    int fd = c->io.fd;

    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    for (struct reply *r = c->server->replies, *next; r != NULL; r = next) {
        next = r->next;
        if (r->tcp == fd)
            reply_free(r);
    }
    ev_io_stop(c->server->loop, &c->io);
    close(fd);
    buf_free(&c->in);
    free(c);
}

static void on_client(struct ev_loop *loop, ev_io *w, int revents)
{
    struct client *c = w->data;
    uint8_t bytes[1024];
    ssize_t got = recv(w->fd, bytes, sizeof(bytes), 0);

    (void)loop;
    (void)revents;
    if (got <= 0) {
        client_free(c);
        return;
    }
    buf_append(&c->in, bytes, (size_t)got);
    while (buf_len(&c->in) >= 2) {
        size_t n = (size_t)buf_data(&c->in)[0] << 8 | buf_data(&c->in)[1];
        if (buf_len(&c->in) < 2 + n)
            return;
        answer(c->server, buf_data(&c->in) + 2, n, NULL, w->fd);
        buf_consume(&c->in, 2 + n);
    }
}

static void on_accept(struct ev_loop *loop, ev_io *w, int revents)
{
    struct scripted_dns *s = w->data;
    int fd = accept(s->tcp, NULL, NULL);

    (void)revents;
    if (fd < 0)
        return;
    struct client *c = mem_alloc(sizeof(*c));
    c->server = s;
    buf_init(&c->in, MESSAGE_MAX);
    ev_io_init(&c->io, on_client, fd, EV_READ);
    c->io.data = c;
    ev_io_start(loop, &c->io);
    c->next = s->clients;
    s->clients = c;
}

/* The same free port for both. */
static void listen_both(struct scripted_dns *s)
{
    for (;;) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t n = sizeof(at);
        s->udp = socket(AF_INET, SOCK_DGRAM, 0);
        s->tcp = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s->udp, (struct sockaddr *)&at, n) != 0 ||
            getsockname(s->udp, (struct sockaddr *)&at, &n) != 0)
            abort();
        if (bind(s->tcp, (struct sockaddr *)&at, n) == 0 && listen(s->tcp, 16) == 0) {
            snprintf(s->address, sizeof(s->address), "127.0.0.1:%u", ntohs(at.sin_port));
            return;
        }
        close(s->udp);
        close(s->tcp);
    }
}

struct scripted_dns *scripted_dns_new(struct ev_loop *loop, const struct dns_rule *rules)
{
    struct scripted_dns *s = mem_alloc(sizeof(*s));

    s->loop = loop;
    s->rules = rules;
    listen_both(s);
    ev_io_init(&s->udp_io, on_udp, s->udp, EV_READ);
    ev_io_init(&s->tcp_io, on_accept, s->tcp, EV_READ);
    s->udp_io.data = s->tcp_io.data = s;
    ev_io_start(loop, &s->udp_io);
    ev_io_start(loop, &s->tcp_io);
    return s;
}

void scripted_dns_free(struct scripted_dns *s)
{
    ev_io_stop(s->loop, &s->udp_io);
    ev_io_stop(s->loop, &s->tcp_io);
    while (s->clients != NULL)
        client_free(s->clients);
    while (s->replies != NULL)
        reply_free(s->replies);
    close(s->udp);
    close(s->tcp);
    free(s);
}

char *scripted_dns_address(struct scripted_dns *s)
{
    return s->address;
}

unsigned scripted_dns_seen(const struct scripted_dns *s, const char *name, unsigned type)
{
    unsigned count = 0;

    for (size_t i = 0; i < s->seen_count; i++)
        count += (name == NULL || strcasecmp(s->seen[i].name, name) == 0) &&
                 (type == 0 || s->seen[i].type == type);
    return count;
}

const char *scripted_dns_names(const struct scripted_dns *s, unsigned type)
{
    char *out = (char *)(uintptr_t)s->names;
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i].type == type)
            n += (size_t)snprintf(out + n, sizeof(s->names) - n, "%s%s", n > 0 ? " " : "",
                                  s->seen[i].name);
        assert(n < sizeof(s->names));
    }
    return out;
}

unsigned scripted_dns_seen_tcp(const struct scripted_dns *s)
{
    return s->seen_tcp;
}
