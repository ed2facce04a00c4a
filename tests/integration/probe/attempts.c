/* Attempts of more than one call. */
#include "tests/integration/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH (1L << 32)

/* The raw call, since the library makes only children it knows about. */
static long clone_with(long flags)
{
    long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

    if (child == 0)
        _exit(0);
    return child < 0 ? -1 : waitpid((pid_t)child, NULL, 0);
}

static long clone_plain(void)
{
    return clone_with(0);
}
static long clone_user(void)
{
    return clone_with(CLONE_NEWUSER);
}
static long clone_user_high(void)
{
    return clone_with(HIGH | CLONE_NEWUSER);
}
static long clone_mount(void)
{
    return clone_with(CLONE_NEWNS);
}
static long clone_user_mount(void)
{
    return clone_with(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID);
}

static long setns_own(void)
{
    return setns(open("/proc/self/ns/mnt", O_RDONLY), CLONE_NEWNS);
}

static long setns_init(void)
{
    return setns((int)syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS);
}

static long pivot_root_here(void)
{
    return chdir("/") != 0 ? -1 : syscall(SYS_pivot_root, ".", ".");
}

static long handle_open(void)
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } h = {.handle.handle_bytes = MAX_HANDLE_SZ};
    int mount_id, top = open("/", O_RDONLY | O_DIRECTORY);

    /* Not every file system has handles; the call is made all the same. */
    (void)name_to_handle_at(AT_FDCWD, "/", &h.handle, &mount_id, 0);
    return open_by_handle_at(top, &h.handle, O_RDONLY);
}

static long stream_pair(int pair[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
}

static long pass_descriptor(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec byte = {.iov_base = (char[]){"x"}, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control.room,
    };
    int pair[2], fd = STDOUT_FILENO;

    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    if (stream_pair(pair) != 0 || sendmsg(pair[0], &message, 0) != 1)
        return -1;
    return recvmsg(pair[1], &message, 0) == 1 ? 0 : -1;
}

static long pass_credentials(void)
{
    int pair[2], on = 1;

    if (stream_pair(pair) != 0)
        return -1;
    return setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

/* Out through an end of a pair: neither kind may reach a name. */
static long pair_to_name(int type)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
    int pair[2];

    if (socketpair(AF_UNIX, type, 0, pair) != 0)
        return -1;
    return connect(pair[0], (struct sockaddr *)&name, sizeof name);
}
static long stream_pair_to_name(void)
{
    return pair_to_name(SOCK_STREAM);
}
static long datagram_pair_to_name(void)
{
    return pair_to_name(SOCK_DGRAM);
}

/* What was attached to is let go, not left stopped. */
static long trace(pid_t pid)
{
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0)
        return -1;
    (void)waitpid(pid, NULL, __WALL);
    return ptrace(PTRACE_DETACH, pid, NULL, NULL);
}

static long trace_init(void)
{
    return trace(1);
}
static long seize_init(void)
{
    return ptrace(PTRACE_SEIZE, 1, NULL, NULL);
}

static long trace_child(void)
{
    pid_t child = fork();

    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    long result = trace(child);
    int error = errno;
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    errno = error;
    return result;
}

static long read_init_memory(void)
{
    char here[8];
    struct iovec local = {.iov_base = here, .iov_len = sizeof here};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)0x400000, .iov_len = sizeof here};

    return process_vm_readv(1, &local, 1, &remote, 1, 0);
}

static long init_descriptor(void)
{
    return syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, 1, 0), 0, 0);
}

static long mem_init(void)
{
    return open("/proc/1/mem", O_RDWR);
}
static long environ_init(void)
{
    char byte;
    int fd = open("/proc/1/environ", O_RDONLY);
    return fd < 0 ? -1 : read(fd, &byte, 1);
}
static long root_init(void)
{
    return open("/proc/1/root/", O_RDONLY | O_DIRECTORY);
}
static long cwd_init(void)
{
    return open("/proc/1/cwd/", O_RDONLY | O_DIRECTORY);
}
static long exe_init(void)
{
    return open("/proc/1/exe", O_RDONLY);
}
static long fd_init(void)
{
    return open("/proc/1/fd/", O_RDONLY | O_DIRECTORY);
}
static long mem_own(void)
{
    return open("/proc/self/mem", O_RDWR);
}

static long controlling_terminal(void)
{
    int fd = open("/dev/tty", O_RDWR);
    return fd < 0 ? -1 : syscall(SYS_ioctl, fd, HIGH | TIOCSTI, "x");
}

#ifdef __x86_64__
enum { X32 = 0x40000000 };

static long x32_getpid(void)
{
    return syscall(X32 | SYS_getpid);
}
static long x32_socket(void)
{
    return syscall(X32 | SYS_socket, AF_UNIX, SOCK_STREAM, 0);
}
static long x32_ioctl(void)
{
    return syscall(X32 | 514, 0, TIOCSTI, "x");
}

/* The 32-bit table, by its interrupt. Pointers do not fit, so none is passed. */
static long i386(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c)
                     : "memory", "cc", "r8", "r9", "r10", "r11");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static long i386_getpid(void)
{
    return i386(20, 0, 0, 0);
}
static long i386_socket(void)
{
    return i386(359, AF_UNIX, SOCK_STREAM, 0);
}
static long i386_ioctl(void)
{
    return i386(54, 0, TIOCSTI, 0);
}
static long i386_unshare(void)
{
    return i386(310, CLONE_NEWUSER, 0, 0);
}
#endif

const struct attempt attempts[] = {
    {"clone-plain", clone_plain},
    {"clone-user", clone_user},
    {"clone-user-high", clone_user_high},
    {"clone-mount", clone_mount},
    {"clone-user-mount", clone_user_mount},
    {"setns-own", setns_own},
    {"setns-init", setns_init},
    {"pivot-root-here", pivot_root_here},
    {"open-by-handle-at", handle_open},
    {"scm-rights", pass_descriptor},
    {"so-passcred", pass_credentials},
    {"stream-pair-to-name", stream_pair_to_name},
    {"dgram-pair-to-name", datagram_pair_to_name},
    {"ptrace-init", trace_init},
    {"ptrace-init-seize", seize_init},
    {"ptrace-child", trace_child},
    {"process-vm-readv-init", read_init_memory},
    {"pidfd-getfd-init", init_descriptor},
    {"proc-init-mem", mem_init},
    {"proc-init-environ", environ_init},
    {"proc-init-root", root_init},
    {"proc-init-cwd", cwd_init},
    {"proc-init-exe", exe_init},
    {"proc-init-fd", fd_init},
    {"proc-self-mem", mem_own},
    {"tiocsti-tty", controlling_terminal},
#ifdef __x86_64__
    {"x32-getpid", x32_getpid},
    {"x32-socket", x32_socket},
    {"x32-ioctl", x32_ioctl},
    {"i386-getpid", i386_getpid},
    {"i386-socket", i386_socket},
    {"i386-ioctl", i386_ioctl},
    {"i386-unshare", i386_unshare},
#endif
};
const size_t attempt_count = sizeof attempts / sizeof attempts[0];
