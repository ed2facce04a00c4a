#include "proxy/net/dns_upstream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proxy/net/system_file.h"
#include "proxy/policy/host.h"

enum { RESOLV_CONF_MAX = 65536 };

/* A channel replaced while it had queries. */
struct retired {
    struct dns_channel *channel;
    struct retired *next;
};

struct dns_upstream {
    struct ev_loop *loop;
    const struct limits *limits;
    bool follow_file;        /* resolv.conf, not given servers */
    bool follow_environment; /* LOCALDOMAIN, RES_OPTIONS */
    struct system_file file;
    struct buf text; /* of the file, when conf was made of it */
    struct resolv_conf *conf;
    struct dns_channel *channel;
    struct retired *retired;
};

static struct resolv_conf *conf_from_options(char **servers, const char **error)
{
    struct resolv_conf *conf = NULL;
    struct dns_server *list;
    size_t count = 0;

    while (servers[count] != NULL)
        count++;
    list = mem_array(count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        if (!dns_server_parse(servers[i], strlen(servers[i]), &list[i])) {
            *error = "not an IP address with an optional port";
            goto out;
        }
    }
    if (count == 0)
        *error = "no server";
    else
        conf = resolv_conf_from_servers(list, count);
out:
    free(list);
    return conf;
}

struct dns_upstream *dns_upstream_new(struct ev_loop *loop, const struct limits *limits,
                                      char **servers, const char *path, const char **error)
{
    struct resolv_conf *conf = NULL;

    *error = NULL;
    if (servers != NULL && (conf = conf_from_options(servers, error)) == NULL)
        return NULL;
    struct dns_upstream *u = mem_alloc(sizeof(*u));
    u->loop = loop;
    u->limits = limits;
    u->conf = conf;
    buf_init(&u->text, RESOLV_CONF_MAX);
    if (conf == NULL) {
        u->follow_file = true;
        u->follow_environment = path == NULL;
        system_file_init(&u->file, path != NULL ? path : "/etc/resolv.conf");
    }
    return u;
}

static void retire_channel(struct dns_upstream *u)
{
    if (u->channel == NULL)
        return;
    if (dns_channel_pending(u->channel) == 0) {
        dns_channel_free(u->channel);
    } else {
        struct retired *old = mem_alloc(sizeof(*old));
        old->channel = u->channel;
        old->next = u->retired;
        u->retired = old;
    }
    u->channel = NULL;
}

void dns_upstream_tidy(struct dns_upstream *u)
{
    for (struct retired **p = &u->retired; *p != NULL;) {
        struct retired *old = *p;
        if (dns_channel_pending(old->channel) > 0) {
            p = &old->next;
            continue;
        }
        *p = old->next;
        dns_channel_free(old->channel);
        free(old);
    }
}

void dns_upstream_free(struct dns_upstream *u)
{
    if (u == NULL)
        return;
    dns_channel_free(u->channel);
    for (struct retired *old = u->retired, *next; old != NULL; old = next) {
        next = old->next;
        dns_channel_free(old->channel);
        free(old);
    }
    system_file_free(&u->file);
    buf_free(&u->text);
    resolv_conf_release(u->conf);
    free(u);
}

static struct resolv_conf *parse_file(const struct dns_upstream *u, struct buf *text)
{
    char host_name[HOST_MAX + 1] = "";
    struct resolv_environment environment = {.host_name = host_name};

    if (gethostname(host_name, sizeof(host_name) - 1) != 0)
        environment.host_name = NULL;
    if (u->follow_environment) {
        environment.local_domain = getenv("LOCALDOMAIN");
        environment.options = getenv("RES_OPTIONS");
    }
    return resolv_conf_parse(buf_cstr(text), buf_len(text), &environment);
}

struct resolv_conf *dns_upstream_conf(struct dns_upstream *u)
{
    struct buf text;

    if (!u->follow_file || !system_file_changed(&u->file))
        return u->conf;
    buf_init(&text, RESOLV_CONF_MAX);
    system_file_read(&u->file, &text);
    if (u->conf != NULL && buf_len(&text) == buf_len(&u->text) &&
        memcmp(buf_cstr(&text), buf_cstr(&u->text), buf_len(&text)) == 0) {
        buf_free(&text);
        return u->conf;
    }
    buf_free(&u->text);
    u->text = text;
    resolv_conf_release(u->conf);
    u->conf = parse_file(u, &u->text);
    retire_channel(u);
    return u->conf;
}

/* The smaller of ours and what the file says; 0 is not said. */
static uint32_t bounded(uint32_t ours, uint32_t said)
{
    return said != 0 && said < ours ? said : ours;
}

struct dns_channel *dns_upstream_channel(struct dns_upstream *u)
{
    if (u->channel != NULL && dns_channel_spent(u->channel))
        retire_channel(u);
    if (u->channel == NULL) {
        const struct resolv_conf *c = u->conf;
        struct dns_channel_options options = {
            .servers = c->servers,
            .server_count = c->server_count,
            .timeout_ms = bounded(u->limits->dns_query_ms, c->timeout_s * 1000),
            .tries = bounded(u->limits->dns_tries, c->attempts),
            .rotate = c->rotate,
            .use_tcp = c->use_tcp,
        };
        u->channel = dns_channel_new(u->loop, &options);
    }
    return u->channel;
}
