#include "launcher/ask_hint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char own[] = "this is a service of this machine";
static const char link_local[] = "a link-local address: on clouds the place of credentials";
static const char metadata[] = "on clouds the place of credentials";

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Only an address of the machine can be bound to; those of groups can too. */
static bool can_bind(const struct sockaddr *address, socklen_t n)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && bind(fd, address, n) == 0;

    if (fd >= 0)
        close(fd);
    return can;
}

static const char *hint4(const struct in_addr *a)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = *a};
    uint32_t bits = ntohl(a->s_addr);

    if (bits >> 16 == 0xA9FE) /* 169.254.0.0/16 */
        return link_local;
    if (bits == 0 || bits >> 24 == 127)
        return own;
    if (bits >> 28 >= 0xE) /* groups, and everybody */
        return NULL;
    return can_bind((const struct sockaddr *)&address, sizeof address) ? own : NULL;
}

static const char *hint6(const struct in6_addr *a)
{
    static const struct in6_addr amazon = {
        .s6_addr = {0xFD, 0x00, 0x0E, 0xC2, [14] = 0x02, [15] = 0x54}};
    const struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = *a};

    if (IN6_IS_ADDR_LINKLOCAL(a))
        return link_local;
    if (memcmp(a, &amazon, sizeof amazon) == 0)
        return metadata;
    if (IN6_IS_ADDR_MULTICAST(a))
        return NULL;
    if (IN6_IS_ADDR_LOOPBACK(a) || IN6_IS_ADDR_UNSPECIFIED(a))
        return own;
    return can_bind((const struct sockaddr *)&address, sizeof address) ? own : NULL;
}

const char *ask_hint(const char *host)
{
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, host, &four) == 1)
        return hint4(&four);
    if (inet_pton(AF_INET6, host, &six) == 1) {
        if (!IN6_IS_ADDR_V4MAPPED(&six))
            return hint6(&six);
        memcpy(&four, &six.s6_addr[12], sizeof four);
        return hint4(&four);
    }
    if (strcmp(host, "localhost") == 0 || ends_with(host, ".localhost"))
        return own;
    if (strcmp(host, "metadata.google.internal") == 0)
        return metadata;
    return NULL;
}
