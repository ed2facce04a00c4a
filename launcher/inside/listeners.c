#include "launcher/inside/listeners.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/inside/failure.h"
#include "launcher/orders.h"

enum { BACKLOG = 4096, TYPE = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK };

static const struct {
    in_port_t port;
    enum listener_port name;
} ports[] = {{3128, LISTENER_3128}, {1080, LISTENER_1080}};

/* bubblewrap has done it where it made the namespace. */
static bool loopback_up(struct buf *error)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    bool ok = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    if (ok && (request.ifr_flags & IFF_UP) == 0) {
        request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
        ok = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    }
    if (!ok)
        failure(error, "interface", "lo");
    if (fd >= 0)
        close(fd);
    return ok;
}

static int listen_on(int fd, const void *address, socklen_t n)
{
    if (fd >= 0 && (bind(fd, address, n) != 0 || listen(fd, BACKLOG) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int listen_ipv4(in_port_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return listen_on(socket(AF_INET, TYPE, 0), &address, sizeof address);
}

static int listen_ipv6(in_port_t port)
{
    struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int only = 1;
    int fd = socket(AF_INET6, TYPE, 0);

    if (fd >= 0)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    return listen_on(fd, &address, sizeof address);
}

bool listeners_send(int control, struct buf *error)
{
    int fds[LISTENERS_PASSED_MAX];
    uint8_t message[1 + LISTENERS_PASSED_MAX] = {MESSAGE_LISTENERS};
    size_t count = 0;
    bool ok = loopback_up(error);

    for (size_t i = 0; ok && i < sizeof ports / sizeof *ports; i++) {
        int fd = listen_ipv4(ports[i].port);
        if (fd < 0) {
            ok = failure(error, "listeners", NULL);
            break;
        }
        fds[count++] = fd;
        message[count] = (uint8_t)ports[i].name;
        /* A machine without IPv6 has no ::1, and nobody there connects to it. */
        fd = listen_ipv6(ports[i].port);
        if (fd >= 0) {
            fds[count++] = fd;
            message[count] = (uint8_t)ports[i].name;
        }
    }
    if (ok && !fd_send(control, message, 1 + count, fds, count))
        ok = failure(error, "listeners", NULL);
    while (count != 0)
        close(fds[--count]);
    return ok;
}
