/* The filters as the kernel runs them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "seccomp/filters.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define HIGH 0xabcdef0100000000u

enum { PROGRAM_MAX = 65536, ALL = FILTER_TERMINAL | FILTER_SOCKETS | FILTER_NAMESPACES };

static void build(unsigned parts, struct buf *program)
{
    struct buf error;

    buf_init(&error, 256);
    buf_init(program, PROGRAM_MAX);
    if (!filters_build(parts, program, &error))
        fail_msg("%s", buf_cstr(&error));
    assert_int_equal(buf_len(program) % sizeof(struct sock_filter), 0);
    assert_true(buf_len(program) / sizeof(struct sock_filter) <= BPF_MAXINSNS);
    buf_free(&error);
}

typedef long attempt_fn(void);

static bool enter(struct buf *program)
{
    struct sock_fprog fprog = {
        .len = (unsigned short)(buf_len(program) / sizeof(struct sock_filter)),
        .filter = (struct sock_filter *)(void *)buf_data(program),
    };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) == 0;
}

/* Wait status of a child that tried: exit status 0 or the errno. */
static int try_under(unsigned parts, attempt_fn *attempt)
{
    struct buf program;
    int status = 0;

    build(parts, &program);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!enter(&program))
            _exit(255);
        _exit(attempt() >= 0 ? 0 : errno);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    buf_free(&program);
    return status;
}

static long unix_socket(void)
{
    return syscall(SYS_socket, HIGH | AF_UNIX, SOCK_STREAM, 0);
}
static long internet_socket(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}
static long datagram_pair(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
}
static long raw_pair(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_RAW, 0, pair);
}
static long stream_pair(void)
{
    int pair[2];
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}
static long type_ahead(void)
{
    return syscall(SYS_ioctl, 0, HIGH | 0x5412, "x");
}
static long user_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}
static long own_files(void)
{
    return unshare(CLONE_FILES);
}
static long new_clone(void)
{
    return syscall(435, NULL, 0);
}
static long fork_and_wait(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child < 0 ? -1 : waitpid(child, NULL, 0);
}
static long tree_attributes(void)
{
    return syscall(467, AT_FDCWD, "/", 0, NULL, 0);
}

static long own_limits(void)
{
    struct rlimit limit;
    return prlimit(getpid(), RLIMIT_NOFILE, NULL, &limit);
}
static long limits_of_init(void)
{
    struct rlimit limit;
    return prlimit(1, RLIMIT_NOFILE, NULL, &limit);
}
static long own_priority(void)
{
    return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0));
}
static long group_priority(void)
{
    return setpriority(PRIO_PGRP, 0, getpriority(PRIO_PROCESS, 0));
}

static long group_signal(void)
{
    return kill(0, 0);
}

static void the_group_is_out_of_reach(void **state)
{
    (void)state;
    int status = try_under(FILTER_TERMINAL | FILTER_GROUP, group_signal);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EPERM);
    status = try_under(FILTER_TERMINAL, group_signal);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_kernel_takes_the_program(void **state)
{
    static const struct {
        attempt_fn *attempt;
        unsigned parts;
        int want;
    } cases[] = {
        {unix_socket, ALL, EPERM},
        {unix_socket, FILTER_TERMINAL, 0},
        {internet_socket, ALL, 0},
        {datagram_pair, ALL, EPERM},
        {raw_pair, ALL, EPERM},
        {stream_pair, ALL, 0},
        {type_ahead, ALL, EPERM},
        {type_ahead, FILTER_TERMINAL, EPERM},
        {user_namespace, ALL, EPERM},
        {own_files, ALL, 0},
        {new_clone, ALL, ENOSYS},
        {new_clone, FILTER_SOCKETS, EINVAL},
        {tree_attributes, ALL, EPERM},
        {fork_and_wait, ALL, 0},
        {own_limits, ALL, 0},
        {limits_of_init, ALL, EPERM},
        {own_priority, ALL, 0},
        {group_priority, ALL, EPERM},
        {group_priority, FILTER_TERMINAL, EPERM},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int status = try_under(cases[i].parts, cases[i].attempt);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != cases[i].want)
            fail_msg("case %zu: status %#x", i, (unsigned)status);
    }
}

#ifdef __x86_64__
static long x32_call(void)
{
    return syscall(0x40000000 | SYS_getpid);
}
static long i386_call(void)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "cc");
    return result;
}

static void other_calls_kill(void **state)
{
    (void)state;
    int status = try_under(ALL, x32_call);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    status = try_under(ALL, i386_call);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    status = try_under(FILTER_TERMINAL, x32_call);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_takes_the_program),
        cmocka_unit_test(the_group_is_out_of_reach),
#ifdef __x86_64__
        cmocka_unit_test(other_calls_kill),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
