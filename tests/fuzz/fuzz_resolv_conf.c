/*
 * resolv.conf and the walk over its search list: any text gives servers and
 * bounds that hold, and every walk ends, asks each name once, and stays within
 * the length of a host. The input is results of queries, a newline, and a file.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/net/resolv_conf.h"
#include "proxy/net/search_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct resolv_conf *c, const char *name, const uint8_t *results, size_t n)
{
    char candidate[HOST_MAX + 1];
    struct search_walk w;
    size_t steps = 0, as_is = 0;
    enum dns_status status;

    search_start(&w, c, name, candidate);
    do {
        size_t length = strlen(candidate);
        assert(length <= HOST_MAX);
        assert(strncmp(candidate, name, strlen(name)) == 0);
        as_is += length == strlen(name);
        assert(length == strlen(name) || candidate[strlen(name)] == '.');
        status = n == 0 ? DNS_NO_NAME : (enum dns_status)(results[steps % n] % (DNS_FAILED + 1));
        steps++;
        assert(steps <= c->domain_count + 1);
    } while (search_next(&w, status, candidate));
    assert(as_is <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size == 0 ? NULL : memchr(data, '\n', size);
    struct resolv_environment environment = {.host_name = "box.example.test"};

    if (newline == NULL)
        return 0;
    size_t n = (size_t)(newline - data);
    struct resolv_conf *c = resolv_conf_parse((const char *)newline + 1, size - n - 1,
                                              n % 2 != 0 ? &environment : NULL);
    assert(c->server_count >= 1 && c->server_count <= RESOLV_SERVERS_MAX);
    assert(c->domain_count <= RESOLV_DOMAINS_MAX);
    assert(c->ndots <= 15 && c->timeout_s <= 30 && c->attempts <= 5);
    for (size_t i = 0; i < c->server_count; i++)
        assert(c->servers[i].port != 0 &&
               (c->servers[i].address.family == 4 || c->servers[i].address.family == 6));
    for (size_t i = 0; i < c->domain_count; i++)
        assert(strlen(c->domains[i]) <= 253);
    walk(c, "db", data, n);
    walk(c, "a.b.c", data, n);
    resolv_conf_release(c);
    return 0;
}
