#include "proxy/net/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

static bool is_loopback(const struct address *a)
{
    static const uint8_t v6[16] = {[15] = 1};

    return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, v6, sizeof v6) == 0;
}

static void fail(struct buf *error, const struct listen_spec *spec, const char *why)
{
    buf_printf(error, "%s: %s", spec->text, why);
}

static void fail_errno(struct buf *error, const struct listen_spec *spec)
{
    fail(error, spec, strerror(errno));
}

static bool set_option(int fd, int level, int name)
{
    int on = 1;

    return setsockopt(fd, level, name, &on, sizeof on) == 0;
}

static struct listener *listener_new(int fd)
{
    struct listener *l = mem_alloc(sizeof *l);

    l->fd = fd;
    return l;
}

/* "127.0.0.1:3128" of the address the socket is bound to. */
static bool take_address(struct listener *l)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof ss;
    struct address address = {0};
    char host[ADDRESS_TEXT_MAX];
    struct buf text;

    if (getsockname(l->fd, (struct sockaddr *)&ss, &len) != 0 ||
        !address_from_sockaddr((struct sockaddr *)&ss, &address, &l->port))
        return false;
    address_format(&address, host);
    l->loopback = is_loopback(&address);
    buf_init(&text, ADDRESS_TEXT_MAX + 16);
    buf_printf(&text, address.family == 6 ? "[%s]:%u" : "%s:%u", host, (unsigned)l->port);
    l->address = mem_dup(buf_cstr(&text));
    buf_free(&text);
    return true;
}

static bool bind_tcp(int fd, const struct listen_spec *spec, unsigned flags)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = address_to_sockaddr(&spec->address, spec->port, &ss);

    return set_option(fd, SOL_SOCKET, SO_REUSEADDR) &&
           (!(flags & LISTEN_REUSE_PORT) || set_option(fd, SOL_SOCKET, SO_REUSEPORT)) &&
           (ss.ss_family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY)) &&
           set_option(fd, IPPROTO_TCP, TCP_NODELAY) && bind(fd, (struct sockaddr *)&ss, len) == 0 &&
           listen(fd, LISTEN_BACKLOG) == 0;
}

bool listen_permitted(const struct listen_spec *spec, unsigned flags, struct buf *error)
{
    if (spec->kind != LISTEN_TCP || (flags & LISTEN_ANY_INTERFACE) || is_loopback(&spec->address))
        return true;
    buf_printf(error, "%s is not a loopback address", spec->text);
    return false;
}

static struct listener *open_tcp(const struct listen_spec *spec, unsigned flags, struct buf *error)
{
    int family = spec->address.family == 6 ? AF_INET6 : AF_INET;

    if (!listen_permitted(spec, flags, error)) {
        return NULL;
    }
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail_errno(error, spec);
        return NULL;
    }
    struct listener *l = listener_new(fd);
    if (!bind_tcp(fd, spec, flags) || !take_address(l)) {
        fail_errno(error, spec);
        listener_close(&l);
    }
    return l;
}

/* Removes a socket file that nothing listens on any more; false with errno when the path is taken
 * by anything else. */
static bool remove_stale(const struct sockaddr_un *sun)
{
    struct stat st;

    if (lstat(sun->sun_path, &st) != 0)
        return errno == ENOENT;
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
        errno = EEXIST;
        return false;
    }
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    bool refused =
        connect(probe, (const struct sockaddr *)sun, sizeof *sun) != 0 && errno == ECONNREFUSED;
    close(probe);
    if (!refused) {
        errno = EADDRINUSE;
        return false;
    }
    return unlink(sun->sun_path) == 0 || errno == ENOENT;
}

static bool bind_unix(struct listener *l, const struct listen_spec *spec)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    struct stat st;

    memcpy(sun.sun_path, spec->path, sizeof sun.sun_path);
    /* The mode of the descriptor is the most that bind() gives the file, so that it is never open
     * to others, whatever the umask; a chmod() by path could be led astray. */
    if (!remove_stale(&sun) || fchmod(l->fd, 0600) != 0 ||
        bind(l->fd, (struct sockaddr *)&sun, sizeof sun) != 0)
        return false;
    if (lstat(spec->path, &st) != 0)
        return false;
    l->path = mem_dup(spec->path);
    l->device = st.st_dev;
    l->inode = st.st_ino;
    l->owner = getpid();
    if (!S_ISSOCK(st.st_mode) || (st.st_mode & 077) != 0) {
        errno = EPERM;
        return false;
    }
    return listen(l->fd, LISTEN_BACKLOG) == 0;
}

static struct listener *open_unix(const struct listen_spec *spec, struct buf *error)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        fail_errno(error, spec);
        return NULL;
    }
    struct listener *l = listener_new(fd);
    l->is_unix = true;
    l->loopback = true;
    l->address = mem_dup(spec->text);
    if (!bind_unix(l, spec)) {
        fail_errno(error, spec);
        listener_close(&l);
    }
    return l;
}

static int socket_option(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

/* Of a listening stream socket, else -1. */
static int listening_family(int fd)
{
    int family = socket_option(fd, SO_DOMAIN);

    if ((family != AF_INET && family != AF_INET6 && family != AF_UNIX) ||
        socket_option(fd, SO_TYPE) != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) != 1)
        return -1;
    return family;
}

/* Without an address for a Unix socket. NULL with errno. */
static struct listener *take_over(int fd, bool is_unix)
{
    struct listener *l = listener_new(fd);

    l->is_unix = is_unix;
    l->loopback = is_unix;
    if (fd_cloexec(fd, true) && fd_nonblock(fd, true) &&
        (is_unix || (take_address(l) && set_option(fd, IPPROTO_TCP, TCP_NODELAY))))
        return l;
    int number = errno;
    free(l->address);
    free(l);
    errno = number;
    return NULL;
}

static struct listener *open_inherited(const struct listen_spec *spec, struct buf *error)
{
    int family = listening_family(spec->fd);

    if (family < 0) {
        fail(error, spec, "is not a listening TCP or Unix stream socket");
        return NULL;
    }
    struct listener *l = take_over(spec->fd, family == AF_UNIX);
    if (l == NULL) {
        fail_errno(error, spec);
        return NULL;
    }
    free(l->address);
    l->address = mem_dup(spec->text);
    return l;
}

struct listener *listener_adopt(int fd)
{
    int family = listening_family(fd);

    if (family != AF_INET && family != AF_INET6) {
        errno = EINVAL;
        return NULL;
    }
    struct listener *l = take_over(fd, false);
    if (l != NULL)
        l->loopback = true;
    return l;
}

struct listener *listener_open(const struct listen_spec *spec, unsigned flags, struct buf *error)
{
    switch (spec->kind) {
    case LISTEN_TCP:
        return open_tcp(spec, flags, error);
    case LISTEN_UNIX:
        return open_unix(spec, error);
    case LISTEN_INHERITED:
        return open_inherited(spec, error);
    }
    return NULL;
}

static bool still_ours(const struct listener *l)
{
    struct stat st;

    return l->path != NULL && l->owner == getpid() && lstat(l->path, &st) == 0 &&
           st.st_dev == l->device && st.st_ino == l->inode;
}

void listener_close(struct listener **l)
{
    struct listener *old = *l;

    *l = NULL;
    if (old == NULL)
        return;
    if (still_ours(old))
        unlink(old->path);
    close(old->fd);
    free(old->address);
    free(old->path);
    free(old);
}

/* Errors of the connection that was at the head of the queue, which is gone with them (accept(2)):
 * the next one may be fine. */
static bool is_of_connection(int number)
{
    switch (number) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return true;
    default:
        return false;
    }
}

int listener_accept(const struct listener *l, struct sockaddr_storage *peer)
{
    for (;;) {
        socklen_t len = sizeof *peer;
        memset(peer, 0, sizeof *peer);
        int fd = accept4(l->fd, (struct sockaddr *)peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0 || !is_of_connection(errno))
            return fd;
    }
}
