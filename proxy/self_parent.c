#include "proxy/self_parent.h"

#include <string.h>

#include "proxy/policy/host.h"

static bool is_any(const struct address *a)
{
    static const uint8_t zero[sizeof a->bytes];
    return memcmp(a->bytes, zero, sizeof zero) == 0;
}

static bool is_own(const struct address *a, struct interfaces *interfaces)
{
    return (a->family == 4 && a->bytes[0] == 127) ||
           address_set_has(interfaces_addresses(interfaces), a);
}

static bool leads_to(const struct parent_proxy *parent, const struct listener *l,
                     struct interfaces *interfaces)
{
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;
    struct address listens;
    struct host host;
    uint16_t port;

    if (getsockname(l->fd, (struct sockaddr *)&bound, &n) != 0 ||
        !address_from_sockaddr((struct sockaddr *)&bound, &listens, &port) ||
        port != parent->port ||
        host_canonicalise(parent->host, strlen(parent->host), &host) != HOST_OK)
        return false;
    if (!host.is_address)
        return host_is_localhost(&host) && (l->loopback || is_any(&listens));
    return address_equal(&host.address, &listens) ||
           (is_any(&listens) && is_own(&host.address, interfaces));
}

bool self_parent_absent(const struct routes *routes, struct listener *const *listeners,
                        size_t count, struct interfaces *interfaces, struct buf *error)
{
    static const enum route_kind kinds[] = {ROUTE_PLAIN, ROUTE_TUNNEL};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct parent_proxy *parent = routes_parent(routes, kinds[k]);
        for (size_t i = 0; parent != NULL && i < count; i++) {
            if (!leads_to(parent, listeners[i], interfaces))
                continue;
            buf_printf(error,
                       "the parent proxy %s:%u is this proxy itself; see network.parentProxy, "
                       "HTTP_PROXY and HTTPS_PROXY",
                       parent->host, (unsigned)parent->port);
            return false;
        }
    }
    return true;
}
