#include "decider/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

/* Where the child keeps the pipe that tells of its start. */
enum { STARTED_FD = STDERR_FILENO + 1 };

/* The number that a directory entry of /proc/self/fd is, or -1. */
static int descriptor_number(const char *name)
{
    int fd = 0;

    for (; *name >= '0' && *name <= '9' && fd < INT_MAX / 10 - 1; name++)
        fd = fd * 10 + (*name - '0');
    return *name == 0 ? fd : -1;
}

/* For kernels without close_range(): what /proc lists. */
static void close_listed(int from)
{
    _Alignas(struct dirent64) char entries[4096];
    ssize_t n;
    int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (list < 0)
        return;
    while ((n = getdents64(list, entries, sizeof entries)) > 0) {
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            int fd = descriptor_number(entry->d_name);
            at += entry->d_reclen;
            if (fd >= from && fd != list)
                close(fd);
        }
    }
    close(list);
}

static void close_from(int from)
{
    if (close_range((unsigned)from, UINT_MAX, 0) != 0)
        close_listed(from);
}

static bool standard_error_is_ours_to_pass_on(void)
{
    int flags = fcntl(STDERR_FILENO, F_GETFD);

    /* A process started without one has something of its own at that number. */
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

/* Everything at its place: stream, standard error, and the pipe at STARTED_FD. */
static bool arrange_descriptors(int stream, int started)
{
    /* Out of the way of the places first. */
    int high_stream = fcntl(stream, F_DUPFD_CLOEXEC, STARTED_FD + 1);
    int high_started = fcntl(started, F_DUPFD_CLOEXEC, STARTED_FD + 1);

    if (high_stream < 0 || high_started < 0)
        return false;
    if (!standard_error_is_ours_to_pass_on()) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (null < 0 ||
            (null == STDERR_FILENO ? !fd_cloexec(null, false) : dup2(null, STDERR_FILENO) < 0))
            return false;
    }
    if (dup2(high_stream, STDIN_FILENO) < 0 || dup2(high_stream, STDOUT_FILENO) < 0 ||
        dup3(high_started, STARTED_FD, O_CLOEXEC) < 0)
        return false;
    close_from(STARTED_FD + 1);
    return true;
}

static void fresh_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        sigaction(i, &standard, NULL); /* SIGKILL and SIGSTOP, and the C library's own, refuse */
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* In the child, which may do what a signal handler may. */
__attribute__((noreturn)) static void become(char *const *words, const struct rlimit *files,
                                             pid_t parent, int stream, int started)
{
    int why = 0;

    fresh_signals();
    setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) == 0 && getppid() != parent)
        _exit(127);
    if (arrange_descriptors(stream, started)) {
        started = STARTED_FD;
        if (files == NULL || setrlimit(RLIMIT_NOFILE, files) == 0)
            execv(words[0], words);
    }
    why = errno;
    /* Who does not get it takes the end of the stream for the reason. */
    (void)!write(started, &why, sizeof why);
    _exit(127);
}

/* No handler of ours may run in the child: it would write to pipes that it shares with us. */
static pid_t fork_without_signals(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    return fork();
}

bool spawn(char *const *words, const struct rlimit *files, struct spawned *out)
{
    int pair[2] = {-1, -1}, started[2] = {-1, -1};
    sigset_t before;
    pid_t parent = getpid(), pid = -1;
    int why;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
        pipe2(started, O_CLOEXEC) != 0 || !fd_nonblock(pair[0], true) ||
        !fd_nonblock(started[0], true))
        goto out;
    pid = fork_without_signals(&before);
    if (pid == 0)
        become(words, files, parent, pair[1], started[1]);
    why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    if (pid < 0)
        goto out;
    /* The C library has a function for it only since glibc 2.36. */
    *out = (struct spawned){.pid = pid,
                            .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
                            .stream = pair[0],
                            .started = started[0]};
    pair[0] = started[0] = -1;
out:
    why = errno;
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0)
            close(pair[i]);
        if (started[i] >= 0)
            close(started[i]);
    }
    errno = why;
    return pid > 0;
}
