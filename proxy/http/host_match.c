#include <string.h>

#include "base/text.h"
#include "proxy/http/target.h"

/* The port in decimal without leading zeros is exactly s[0..n). */
static bool is_port(const char *s, size_t n, uint16_t port)
{
    unsigned value = 0;
    if (n == 0 || n > 5 || s[0] == '0')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned)(s[i] - '0');
    }
    return value == port;
}

/* Whether `host[:port]` names the target, without any canonicalisation of it. */
static bool names_target(const struct host_match *m, const char *s, size_t n)
{
    size_t host_len = strlen(m->hostname);
    bool ipv6 = memchr(m->hostname, ':', host_len) != NULL;
    size_t around = ipv6 ? 1 : 0;
    if (host_len == 0 || n < host_len + 2 * around)
        return false;
    if (ipv6 && (s[0] != '[' || s[host_len + 1] != ']'))
        return false;
    if (!text_equal_fold(s + around, host_len, m->hostname, host_len))
        return false;
    size_t used = host_len + 2 * around;
    if (used == n)
        return m->port == m->default_port;
    return s[used] == ':' && is_port(s + used + 1, n - used - 1, m->port);
}

const char *host_mismatch(const struct host_match *m)
{
    if (m->server_name_unreadable)
        return "TLS server name could not be read";
    if (m->server_name != NULL &&
        !text_equal_fold(m->server_name, strlen(m->server_name), m->hostname, strlen(m->hostname)))
        return "TLS server name does not match the request target";
    if (m->authority != NULL && !names_target(m, m->authority, strlen(m->authority)))
        return "request-target authority does not match the request target";
    if (m->host_header_count > 1)
        return "more than one Host header";
    if (m->host_header_count == 1 && !names_target(m, m->host_headers[0], m->host_header_lens[0]))
        return "Host header does not match the request target";
    return NULL;
}
