#include "seccomp/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "seccomp/observed.h"

/* Younger than the headers of some systems. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

enum {
    BATCH = 32,       /* notifications taken in one wake-up, so that the proxy is not starved */
    POLL_MOST = 4096, /* and by notify_poll(), whatever the box does meanwhile */
    READ_UNIT = 4096  /* memory is there, or not, in units of at least this */
};

struct notify {
    struct ev_loop *loop;
    ev_io readable;
    int fd; /* -1: the last process of the box is gone */
    notify_fn *fn;
    void *ctx;
    /* As large as this kernel's, which may be larger than this build's. */
    struct seccomp_notif *request;
    struct seccomp_notif_resp *response;
    size_t request_size, response_size;
    char paths[OBSERVED_PATHS][2 * PATH_MAX + 1];
};

/* A string of at most PATH_MAX bytes with its NUL. False when it is longer or cannot be read. */
static bool read_string(pid_t pid, uint64_t address, char *out)
{
    size_t first = READ_UNIT - (size_t)(address % READ_UNIT);
    struct iovec local = {.iov_base = out, .iov_len = PATH_MAX};
    /* A part that is not there fails alone. */
    struct iovec remote[2] = {
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): another process's address */
        {.iov_base = (void *)(uintptr_t)address, .iov_len = first},
        /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        {.iov_base = (void *)(uintptr_t)(address + first), .iov_len = PATH_MAX - first},
    };

    if (address == 0)
        return false;
    ssize_t n = process_vm_readv(pid, &local, 1, remote, first < PATH_MAX ? 2 : 1, 0);
    return n > 0 && memchr(out, '\0', (size_t)n) != NULL;
}

static bool read_word(pid_t pid, uint64_t address, uint64_t *out)
{
    struct iovec local = {.iov_base = out, .iov_len = sizeof *out};
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = sizeof *out};

    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof *out;
}

/* Where relative names of the caller start. Returns the length, 0 when it is no directory. */
static size_t read_directory(pid_t pid, int directory, char out[PATH_MAX])
{
    char link[64];

    if (directory == AT_FDCWD)
        (void)snprintf(link, sizeof link, "/proc/%d/cwd", (int)pid);
    else
        (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, directory);
    ssize_t n = readlink(link, out, PATH_MAX);
    /* Full: it was cut. "socket:[1]" and the like: nothing has a name there. */
    return n > 0 && n < PATH_MAX && out[0] == '/' ? (size_t)n : 0;
}

/* The path of one argument into `out`, "" when there is none. */
static void read_path(const struct seccomp_notif *request, int directory, int path,
                      char out[2 * PATH_MAX + 1])
{
    const __u64 *arguments = request->data.args;
    pid_t pid = (pid_t)request->pid;
    char name[PATH_MAX];
    size_t n = 0;

    out[0] = '\0';
    /* An empty name means the descriptor itself, and those are not looked at. */
    if (path == OBSERVED_NO_ARGUMENT || !read_string(pid, arguments[path], name) || name[0] == '\0')
        return;
    if (name[0] != '/') {
        int fd = directory == OBSERVED_NO_ARGUMENT ? AT_FDCWD : (int)(uint32_t)arguments[directory];
        n = read_directory(pid, fd, out);
        if (n == 0) {
            out[0] = '\0';
            return;
        }
        out[n++] = '/';
    }
    memcpy(out + n, name, strlen(name) + 1);
}

/* False for an open that only reads, where the filter could not tell. */
static bool may_write(const struct observed_call *call, const struct seccomp_notif *request)
{
    uint64_t flags;

    return call->opening != OPENING_STRUCT ||
           (read_word((pid_t)request->pid, request->data.args[call->flags], &flags) &&
            (flags & OBSERVED_FLAGS) != 0);
}

static void read_paths(struct notify *n, const struct observed_call *call)
{
    /* No process: one that this name space does not show. */
    bool readable = call != NULL && n->request->pid != 0 && may_write(call, n->request);

    for (size_t i = 0; i < OBSERVED_PATHS; i++) {
        n->paths[i][0] = '\0';
        if (readable)
            read_path(n->request, call->at[i].directory, call->at[i].path, n->paths[i]);
    }
}

/* The caller waits until this. */
static void let_go(struct notify *n)
{
    memset(n->response, 0, n->response_size);
    n->response->id = n->request->id;
    n->response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    /* It fails for a caller that is gone or was interrupted. */
    (void)ioctl(n->fd, SECCOMP_IOCTL_NOTIF_SEND, n->response);
}

static void end(struct notify *n)
{
    if (n->fd < 0)
        return;
    ev_io_stop(n->loop, &n->readable);
    close(n->fd);
    n->fd = -1;
}

/* Takes one that is there; false when there can be no more now. Receiving would wait for one, hence
 * the poll. */
static bool take(struct notify *n)
{
    struct pollfd waiting = {.fd = n->fd, .events = POLLIN};

    if (n->fd < 0 || poll(&waiting, 1, 0) <= 0)
        return false;
    if ((waiting.revents & POLLIN) == 0) {
        end(n);
        return false;
    }
    memset(n->request, 0, n->request_size);
    if (ioctl(n->fd, SECCOMP_IOCTL_NOTIF_RECV, n->request) != 0) {
        /* Its caller was killed between the two calls, or a signal came to us. */
        if (errno == ENOENT || errno == EINTR || errno == EAGAIN)
            return true;
        end(n);
        return false;
    }
    const struct observed_call *call = observed_call(n->request->data.nr);
    read_paths(n, call);
    /* Until here the process of that number may have become another one. */
    bool same = ioctl(n->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &n->request->id) == 0;
    let_go(n);
    for (size_t i = 0; same && i < OBSERVED_PATHS; i++)
        if (n->paths[i][0] != '\0')
            n->fn(n->ctx, call->nr, call->name, (pid_t)n->request->pid, n->paths[i]);
    return true;
}

static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
    struct notify *n = watcher->data;

    (void)loop;
    (void)events;
    for (unsigned i = 0; i < BATCH && take(n); i++)
        ;
}

/* The larger of this kernel's size and this build's. */
static void measure(struct notify *n)
{
    struct seccomp_notif_sizes sizes = {0};

    n->request_size = sizeof *n->request;
    n->response_size = sizeof *n->response;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
        return;
    if (sizes.seccomp_notif > n->request_size)
        n->request_size = sizes.seccomp_notif;
    if (sizes.seccomp_notif_resp > n->response_size)
        n->response_size = sizes.seccomp_notif_resp;
}

struct notify *notify_new(struct ev_loop *loop, int listener, notify_fn *fn, void *ctx)
{
    struct notify *n = mem_alloc(sizeof *n);

    *n = (struct notify){.loop = loop, .fd = listener, .fn = fn, .ctx = ctx};
    measure(n);
    n->request = mem_alloc(n->request_size);
    n->response = mem_alloc(n->response_size);
    (void)fd_nonblock(listener, true);
    /* Each call waits for us and we for the next call: one processor is best for both. Kernels
     * before 6.6 refuse, and are slower. */
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    ev_io_init(&n->readable, on_readable, listener, EV_READ);
    n->readable.data = n;
    ev_io_start(loop, &n->readable);
    return n;
}

void notify_poll(struct notify *n)
{
    for (unsigned i = 0; i < POLL_MOST && take(n); i++)
        ;
}

void notify_free(struct notify *n)
{
    if (n == NULL)
        return;
    end(n);
    free(n->request);
    free(n->response);
    free(n);
}
