/*
 * srt-inside CONTROL_FD STDERR_FD
 *
 * The first process of the box, started by bubblewrap from a descriptor: makes
 * the proxy's listeners and passes them out, takes its orders, builds the file
 * system, gives up every right, and runs the command. What goes wrong is told
 * over the control socket. It reads no environment and runs nothing but the
 * command.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/inside/confine.h"
#include "launcher/inside/descriptors.h"
#include "launcher/inside/failure.h"
#include "launcher/inside/init.h"
#include "launcher/inside/listeners.h"
#include "launcher/inside/system.h"
#include "launcher/inside/tree.h"
#include "launcher/orders.h"

/* The memory file, mapped, and what it says. */
struct orders_map {
    void *memory;
    size_t size;
    void *arena;
    struct orders orders;
};

/* A decimal number from 2 up, or -1. */
static int parse_fd(const char *s)
{
    char *end;
    long n;

    if (*s < '0' || *s > '9')
        return -1;
    errno = 0;
    n = strtol(s, &end, 10);
    return *end == 0 && errno == 0 && n >= STDERR_FILENO && n < INT32_MAX ? (int)n : -1;
}

static bool prepare(int control, int stderr_fd, struct buf *error)
{
    if (!descriptors_fill(error) || !descriptors_standard_error(stderr_fd, error))
        return false;
    prctl(PR_SET_NAME, "srt-inside", 0, 0, 0);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return failure(error, "prctl", NULL);
    if (!descriptors_close_others(control, STDERR_FILENO, error))
        return false;
    return (fd_cloexec(control, true) && fd_nonblock(control, false)) ||
           failure(error, "control socket", NULL);
}

static bool map_orders(int fd, struct orders_map *map, struct buf *error)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat st;
    int set = fcntl(fd, F_GET_SEALS);

    if (set < 0 || fstat(fd, &st) != 0)
        return failure(error, "orders", NULL);
    if ((set & seals) != seals || st.st_size <= 0 || st.st_size > ORDERS_MAX)
        return failure_because(error, "orders", "not a sealed file of a fair size");
    map->size = (size_t)st.st_size;
    map->memory = mmap(NULL, map->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map->memory == MAP_FAILED)
        return failure(error, "orders", NULL);
    return orders_decode(map->memory, map->size, &map->orders, &map->arena) ||
           failure_because(error, "orders", "malformed");
}

/* A process of this name space can slow this one down, but not hide it: whoever waits for its end
 * does so by this. Kernels before 5.3 have none. */
static bool send_pidfd(int control, struct buf *error)
{
    static const uint8_t kind = MESSAGE_INIT;
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return true;
    bool sent = fd_send(control, &kind, 1, &fd, 1);
    close(fd);
    return sent || failure(error, "control socket", NULL);
}

static bool receive_orders(int control, struct orders_map *map, struct buf *error)
{
    enum { FILE_OF_ORDERS, LOCK, PASSED };
    uint8_t message[MESSAGE_MAX];
    int fds[PASSED];
    size_t count;
    ssize_t n = fd_receive(control, message, sizeof message, fds, PASSED, &count);

    if (n < 0)
        return failure(error, "orders", NULL);
    if (n == 0) /* the launcher has gone: there is nobody to tell */
        _exit(1);
    bool ok = (n == 1 && message[0] == MESSAGE_ORDERS && count >= 1)
                  ? map_orders(fds[FILE_OF_ORDERS], map, error)
                  : failure_because(error, "orders", "not what was expected");
    if (count != 0)
        close(fds[FILE_OF_ORDERS]); /* the lock stays open, close-on-exec, for as long as we live */
    return ok;
}

static bool build(const struct orders *o, struct buf *error)
{
    if ((o->flags & ORDER_MOUNT) != 0)
        return tree_build(o, error);
    if ((o->flags & ORDER_NO_USER_NAMESPACES) != 0)
        system_limit_user_namespaces();
    if ((o->flags & ORDER_COVER_SYSTEM) != 0)
        system_cover_mounted();
    return true;
}

static bool run(int control, int stderr_fd, struct buf *error)
{
    struct orders_map map = {0};
    const struct orders *o = &map.orders;
    struct init init;

    if (!prepare(control, stderr_fd, error) || !send_pidfd(control, error) ||
        !listeners_send(control, error) || !receive_orders(control, &map, error) ||
        !confine_keyring(error) || !build(o, error) || !confine_capabilities(error) ||
        !confine_filter(o->filter, o->filter_len, error) || !init_start(&init, control, o, error))
        return false;
    /* They hold the environment, secrets included: the command has its own copy. */
    free(map.arena);
    munmap(map.memory, map.size);
    init_serve(&init);
}

int main(int argc, char **argv)
{
    char message[MESSAGE_MAX] = {MESSAGE_FAILED};
    struct buf error;
    int control = argc == 3 ? parse_fd(argv[1]) : -1;
    int stderr_fd = argc == 3 ? parse_fd(argv[2]) : -1;

    if (control <= STDERR_FILENO || stderr_fd < 0 || control == stderr_fd) {
        fputs("srt-inside: started by srt, not by hand\n", stderr);
        return 1;
    }
    buf_init(&error, sizeof message - 1);
    run(control, stderr_fd, &error);
    for (size_t i = 0; i < buf_len(&error); i++)
        message[1 + i] = buf_chars(&error)[i];
    fd_send(control, message, 1 + buf_len(&error), NULL, 0);
    return 1;
}
