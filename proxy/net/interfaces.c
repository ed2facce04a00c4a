#include "proxy/net/interfaces.h"

#include <ifaddrs.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#endif

#include "base/mem.h"

struct interfaces {
    int fd; /* where the kernel tells of changes, or -1: it is asked each time */
    struct address_set *set;
};

#ifdef __linux__

static int open_notices(void)
{
    struct sockaddr_nl self = {.nl_family = AF_NETLINK,
                               .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&self, sizeof(self)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/*
 * Whether a notice came since the last call. The socket is read at each
 * question and not by a watcher: a change the kernel has made must count even
 * when the loop has not turned since. Notices lost to a full queue are an error
 * here, and that is a change, too.
 */
static bool notices_came(int fd)
{
    char message[4096];
    bool any = false;

    for (;;) {
        ssize_t n = recv(fd, message, sizeof(message), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return any;
        any = true;
        if (n < 0 && errno != ENOBUFS && errno != EINTR)
            return true;
    }
}

#else

static int open_notices(void)
{
    return -1;
}

static bool notices_came(int fd)
{
    (void)fd;
    return true;
}

#endif

static struct address_set *read_interfaces(void)
{
    struct address_set *set = address_set_new();
    struct ifaddrs *list = NULL;

    if (getifaddrs(&list) == 0) {
        for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
            struct address_range range;
            uint16_t port;
            if (i->ifa_addr == NULL || !address_from_sockaddr(i->ifa_addr, &range.first, &port))
                continue;
            range.first.scope = 0;
            range.last = range.first;
            address_set_add(set, &range);
        }
        freeifaddrs(list);
    }
    address_set_seal(set);
    return set;
}

struct interfaces *interfaces_new(struct ev_loop *loop)
{
    struct interfaces *i = mem_alloc(sizeof(*i));

    (void)loop; /* nothing is watched */
    i->fd = open_notices();
    return i;
}

void interfaces_free(struct interfaces *i)
{
    if (i == NULL)
        return;
    if (i->fd >= 0)
        close(i->fd);
    address_set_free(i->set);
    free(i);
}

const struct address_set *interfaces_addresses(struct interfaces *i)
{
    if (i->set != NULL && i->fd >= 0 && !notices_came(i->fd))
        return i->set;
    address_set_free(i->set);
    i->set = read_interfaces();
    return i->set;
}
