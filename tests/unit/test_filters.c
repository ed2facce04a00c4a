#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
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

#ifdef __x86_64__
#define NATIVE AUDIT_ARCH_X86_64
#define SMALL AUDIT_ARCH_I386
#define SMALL_IOCTL 54
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define SMALL AUDIT_ARCH_ARM
#define SMALL_IOCTL 54
#endif

enum {
    PROGRAM_MAX = 65536,
    ALL = FILTER_TERMINAL | FILTER_SOCKETS | FILTER_NAMESPACES,
    DENIED = SECCOMP_RET_ERRNO | EPERM,
    MISSING = SECCOMP_RET_ERRNO | ENOSYS
};

/* ---- the kernel's machine, as far as such programs use it ---- */

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t word;

    assert_true(offset % 4 == 0 && offset <= sizeof *data - 4);
    memcpy(&word, (const char *)data + offset, sizeof word);
    return word;
}

static bool holds(uint16_t code, uint32_t a, uint32_t k)
{
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return a == k;
    case BPF_JGT:
        return a > k;
    case BPF_JGE:
        return a >= k;
    case BPF_JSET:
        return (a & k) != 0;
    default:
        fail_msg("jump %#x", (unsigned)code);
        return false;
    }
}

static uint32_t interpret(const struct sock_filter *program, size_t count,
                          const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < count; pc++) {
        const struct sock_filter *i = &program[pc];
        if (i->code == (BPF_RET | BPF_K))
            return i->k;
        if (i->code == (BPF_LD | BPF_W | BPF_ABS))
            a = load(data, i->k);
        else if (i->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= i->k;
        else if (i->code == (BPF_JMP | BPF_JA))
            pc += i->k;
        else if (BPF_CLASS(i->code) == BPF_JMP && BPF_SRC(i->code) == BPF_K)
            pc += holds(i->code, a, i->k) ? i->jt : i->jf;
        else
            fail_msg("instruction %#x", (unsigned)i->code);
    }
    fail_msg("no return");
    return 0;
}

static uint32_t answer(struct buf *program, const struct seccomp_data *data)
{
    return interpret((const struct sock_filter *)(void *)buf_data(program),
                     buf_len(program) / sizeof(struct sock_filter), data);
}

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

/* ---- the contract's tables ---- */

static const struct {
    unsigned part;
    int nr;
    uint32_t answer;
} whole_calls[] = {
    {FILTER_SOCKETS, 425, DENIED},
    {FILTER_SOCKETS, 426, DENIED},
    {FILTER_SOCKETS, 427, DENIED},
    {FILTER_SOCKETS, SYS_add_key, DENIED},
    {FILTER_SOCKETS, SYS_request_key, DENIED},
    {FILTER_SOCKETS, SYS_keyctl, DENIED},
    {FILTER_SOCKETS, SYS_bpf, DENIED},
    {FILTER_SOCKETS, SYS_perf_event_open, DENIED},
    {FILTER_SOCKETS, SYS_userfaultfd, DENIED},
    {FILTER_SOCKETS, SYS_open_by_handle_at, DENIED},
    {FILTER_SOCKETS, SYS_init_module, DENIED},
    {FILTER_SOCKETS, SYS_finit_module, DENIED},
    {FILTER_SOCKETS, SYS_delete_module, DENIED},
    {FILTER_SOCKETS, SYS_kexec_load, DENIED},
    {FILTER_SOCKETS, SYS_kexec_file_load, DENIED},
    {FILTER_NAMESPACES, SYS_mount, DENIED},
    {FILTER_NAMESPACES, SYS_umount2, DENIED},
    {FILTER_NAMESPACES, SYS_pivot_root, DENIED},
    {FILTER_NAMESPACES, SYS_setns, DENIED},
    {FILTER_NAMESPACES, 428, DENIED},
    {FILTER_NAMESPACES, 429, DENIED},
    {FILTER_NAMESPACES, 430, DENIED},
    {FILTER_NAMESPACES, 431, DENIED},
    {FILTER_NAMESPACES, 432, DENIED},
    {FILTER_NAMESPACES, 433, DENIED},
    {FILTER_NAMESPACES, 442, DENIED},
    {FILTER_NAMESPACES, 467, DENIED},
    {FILTER_NAMESPACES, 435, MISSING},
};

static uint32_t expected_whole(unsigned parts, int nr)
{
    for (size_t i = 0; i < COUNT(whole_calls); i++)
        if (whole_calls[i].nr == nr && (whole_calls[i].part & parts) != 0)
            return whole_calls[i].answer;
    return SECCOMP_RET_ALLOW;
}

static void calls_are_answered_by_number(void **state)
{
    (void)state;
    for (unsigned parts = 1; parts <= ALL; parts++) {
        struct buf program;
        build(parts, &program);
        for (int nr = 0; nr < 1200; nr++) {
            struct seccomp_data data = {.nr = nr, .arch = NATIVE};
            uint32_t got = answer(&program, &data);
            if (got != expected_whole(parts, nr))
                fail_msg("parts %u, call %d: %#x", parts, nr, got);
        }
        buf_free(&program);
    }
}

static const struct {
    unsigned part; /* 0: allowed by all */
    int nr;
    uint64_t a, b;
} argument_calls[] = {
    {FILTER_TERMINAL, SYS_ioctl, 0, 0x5412},
    {FILTER_TERMINAL, SYS_ioctl, 0, HIGH | 0x5412},
    {FILTER_TERMINAL, SYS_ioctl, HIGH, 0x541c},
    {FILTER_TERMINAL, SYS_ioctl, 0, HIGH | 0x541c},
    {FILTER_TERMINAL, SYS_ioctl, 0, 0x5423},
    {FILTER_TERMINAL, SYS_ioctl, 0, HIGH | 0x5423},
    {FILTER_TERMINAL, SYS_ioctl, 0, 0x540c},
    {FILTER_TERMINAL, SYS_ioctl, 0, HIGH | 0x540c},
    {FILTER_TERMINAL, SYS_ioctl, 0, 0x541d},
    {FILTER_TERMINAL, SYS_ioctl, 0, 0x5437},
    /* Modes, size, foreground group, controlling terminal, the end of exclusive use. */
    {0, SYS_ioctl, 0, 0x5401},
    {0, SYS_ioctl, 0, 0x5402},
    {0, SYS_ioctl, 0, 0x5414},
    {0, SYS_ioctl, 0, 0x5410},
    {0, SYS_ioctl, 0, 0x540e},
    {0, SYS_ioctl, 0, 0x540d},
    {0, SYS_ioctl, 0, 0x5424},
    {0, SYS_ioctl, 0, 0x5413},
    {0, SYS_ioctl, 0x5412, 0},
    {0, SYS_ioctl, 0, UINT64_C(0x541200000000)},
    {FILTER_SOCKETS, SYS_socket, 1, 1},
    {FILTER_SOCKETS, SYS_socket, HIGH | 1, 2},
    {FILTER_SOCKETS, SYS_socket, 40, 1},
    {FILTER_SOCKETS, SYS_socket, HIGH | 40, 5},
    {0, SYS_socket, 2, 1},
    {0, SYS_socket, 10, 2},
    {0, SYS_socket, 16, 3},
    {0, SYS_socket, 0x101, 1},
    {0, SYS_socket, 41, 1},
    {FILTER_SOCKETS, SYS_socketpair, 1, 2},
    {FILTER_SOCKETS, SYS_socketpair, 1, 2 | SOCK_CLOEXEC},
    {FILTER_SOCKETS, SYS_socketpair, 1, 2 | SOCK_NONBLOCK | SOCK_CLOEXEC},
    {FILTER_SOCKETS, SYS_socketpair, HIGH | 1, HIGH | 2},
    {FILTER_SOCKETS, SYS_socketpair, 1, 3},
    {FILTER_SOCKETS, SYS_socketpair, 1, 3 | SOCK_CLOEXEC},
    {0, SYS_socketpair, 1, 1},
    {0, SYS_socketpair, 1, 1 | SOCK_CLOEXEC | SOCK_NONBLOCK},
    {0, SYS_socketpair, 1, 5},
    {0, SYS_socketpair, 2, 2},
    {FILTER_NAMESPACES, SYS_unshare, 0x10000000, 0},
    {FILTER_NAMESPACES, SYS_unshare, 0x20000, 0},
    {FILTER_NAMESPACES, SYS_unshare, 0x100000, 0},
    {FILTER_NAMESPACES, SYS_unshare, 0x7c020000, 0},
    {FILTER_NAMESPACES, SYS_unshare, HIGH | 0x10000000, 0},
    {0, SYS_unshare, 0x400, 0},
    {0, SYS_unshare, 0x40000000, 0},
    {0, SYS_unshare, 0, 0x10000000},
    {FILTER_NAMESPACES, SYS_clone, 0x10000000 | SIGCHLD, 0},
    {FILTER_NAMESPACES, SYS_clone, 0x20000, 0},
    {FILTER_NAMESPACES, SYS_clone, HIGH | 0x20000 | SIGCHLD, 0},
    /* What threads and fork() of the C library ask for. */
    {0, SYS_clone, 0x3d0f00, 0},
    {0, SYS_clone, 0x1200000 | SIGCHLD, 0},
    {0, SYS_clone, 0x4100 | SIGCHLD, 0},
};

/* What could starve PID 1; everything else of these calls is allowed. */
static const int pid_calls[] = {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam,
                                SYS_sched_setattr,     SYS_prlimit64,          SYS_move_pages,
                                SYS_migrate_pages};

static const struct {
    int nr;
    uint64_t which, who;
    bool denied;
} priorities[] = {
    {SYS_setpriority, 0, 0, false},       {SYS_setpriority, 0, 1, true},
    {SYS_setpriority, 0, 2, false},       {SYS_setpriority, HIGH, HIGH | 1, true},
    {SYS_setpriority, 0, 0x101, false},   {SYS_setpriority, 1, 0, true},
    {SYS_setpriority, HIGH | 1, 7, true}, {SYS_setpriority, 2, 0, true},
    {SYS_setpriority, 3, 1, false},       {SYS_ioprio_set, 1, 0, false},
    {SYS_ioprio_set, 1, 1, true},         {SYS_ioprio_set, 1, 2, false},
    {SYS_ioprio_set, HIGH | 1, 1, true},  {SYS_ioprio_set, 2, 0, true},
    {SYS_ioprio_set, 3, 9, true},         {SYS_ioprio_set, 0, 1, false},
    {SYS_getpriority, 2, 1, false},       {SYS_ioprio_get, 1, 1, false},
};

static void init_cannot_be_starved(void **state)
{
    static const struct {
        uint64_t pid;
        bool init;
    } pids[] = {{0, false},          {1, true},      {HIGH | 1, true},
                {2, false},          {12345, false}, {0x10001, false},
                {0xffffffff, false}, {HIGH, false},  {0x101, false}};

    (void)state;
    for (unsigned parts = 1; parts <= ALL; parts++) {
        struct buf program;
        bool held = (parts & FILTER_TERMINAL) != 0;
        build(parts, &program);
        for (size_t i = 0; i < COUNT(pid_calls); i++) {
            for (size_t k = 0; k < COUNT(pids); k++) {
                struct seccomp_data data = {
                    .nr = pid_calls[i], .arch = NATIVE, .args = {pids[k].pid, 1}};
                uint32_t want = held && pids[k].init ? DENIED : SECCOMP_RET_ALLOW;
                if (answer(&program, &data) != want)
                    fail_msg("parts %u, call %zu, pid %zu", parts, i, k);
            }
        }
        for (size_t i = 0; i < COUNT(priorities); i++) {
            struct seccomp_data data = {.nr = priorities[i].nr,
                                        .arch = NATIVE,
                                        .args = {priorities[i].which, priorities[i].who, 19}};
            uint32_t want = held && priorities[i].denied ? DENIED : SECCOMP_RET_ALLOW;
            if (answer(&program, &data) != want)
                fail_msg("parts %u, priority %zu", parts, i);
        }
        buf_free(&program);
    }
}

static void calls_are_answered_by_arguments(void **state)
{
    (void)state;
    for (unsigned parts = 1; parts <= ALL; parts++) {
        struct buf program;
        build(parts, &program);
        for (size_t i = 0; i < COUNT(argument_calls); i++) {
            struct seccomp_data data = {
                .nr = argument_calls[i].nr,
                .arch = NATIVE,
                .args = {argument_calls[i].a, argument_calls[i].b},
            };
            uint32_t want = (argument_calls[i].part & parts) != 0 ? DENIED : SECCOMP_RET_ALLOW;
            if (answer(&program, &data) != want)
                fail_msg("parts %u, row %zu", parts, i);
        }
        buf_free(&program);
    }
}

static void foreign_architectures_are_killed(void **state)
{
    (void)state;
    for (unsigned parts = 1; parts <= ALL; parts++) {
        struct buf program;
        bool small_runs = parts == FILTER_TERMINAL;
        build(parts, &program);
        for (int nr = 0; nr < 600; nr++) {
            struct seccomp_data data = {.nr = nr, .arch = SMALL};
            assert_int_equal(answer(&program, &data),
                             small_runs ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_THREAD);
            data.arch = AUDIT_ARCH_PPC64LE;
            assert_int_equal(answer(&program, &data), SECCOMP_RET_KILL_THREAD);
#ifdef __x86_64__
            data.arch = NATIVE;
            data.nr = 0x40000000 | nr;
            assert_int_equal(answer(&program, &data), SECCOMP_RET_KILL_THREAD);
#endif
        }
        buf_free(&program);
    }
}

static void the_terminal_rule_holds_for_small_programs(void **state)
{
    struct buf program;
    struct seccomp_data data = {.nr = SMALL_IOCTL, .arch = SMALL, .args = {0, 0x5412}};

    (void)state;
    build(FILTER_TERMINAL, &program);
    assert_int_equal(answer(&program, &data), DENIED);
    data.args[1] = 0x541c;
    assert_int_equal(answer(&program, &data), DENIED);
    data.args[1] = 0x5423;
    assert_int_equal(answer(&program, &data), DENIED);
    data.args[1] = 0x5413;
    assert_int_equal(answer(&program, &data), SECCOMP_RET_ALLOW);
    /* setpriority, of all processes of a user */
    data = (struct seccomp_data){.nr = 97, .arch = SMALL, .args = {2, 0, 19}};
    assert_int_equal(answer(&program, &data), DENIED);
    data.args[0] = 0;
    assert_int_equal(answer(&program, &data), SECCOMP_RET_ALLOW);
    /* sched_setscheduler */
    data = (struct seccomp_data){.nr = 156, .arch = SMALL, .args = {1}};
    assert_int_equal(answer(&program, &data), DENIED);
    buf_free(&program);
}

static void nothing_is_no_filter(void **state)
{
    struct buf program, error;

    (void)state;
    buf_init(&program, PROGRAM_MAX);
    buf_init(&error, 256);
    assert_true(filters_supported());
    assert_false(filters_build(0, &program, &error));
    assert_string_equal(buf_cstr(&error), "cannot build the seccomp filter: Invalid argument");
    assert_int_equal(buf_len(&program), 0);
    buf_free(&error);
}

/* ---- the observing filter ---- */

static const int observed[] = {
    437,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_symlinkat,
    SYS_linkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_fchmodat,
    452,
    SYS_fchownat,
    SYS_utimensat,
    SYS_truncate,
#ifdef __x86_64__
    85,
    87,
    84,
    82,
    86,
    88,
    83,
    133,
    90,
    92,
    94,
    132,
    235,
#endif
};

static bool is_observed(int nr)
{
    for (size_t i = 0; i < COUNT(observed); i++)
        if (observed[i] == nr)
            return true;
    return false;
}

static bool is_open(int nr)
{
#ifdef __x86_64__
    if (nr == SYS_open)
        return true;
#endif
    return nr == SYS_openat;
}

static void the_observer_hears_of_writes(void **state)
{
    static const struct {
        uint64_t flags;
        bool heard;
    } opens[] = {
        {0, false},       {O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW, false},
        {O_PATH, false},  {HIGH, false},
        {O_WRONLY, true}, {O_RDWR | O_CLOEXEC, true},
        {O_CREAT, true},  {O_TRUNC, true},
        {O_APPEND, true}, {HIGH | O_CREAT, true},
        {0x643, true},    {UINT64_C(0x64300000000), false},
    };
    struct buf program, error;

    (void)state;
    buf_init(&program, PROGRAM_MAX);
    buf_init(&error, 256);
    assert_true(filters_build_observer(&program, &error));
    for (int nr = 0; nr < 1200; nr++) {
        struct seccomp_data data = {.nr = nr, .arch = NATIVE};
        uint32_t want = is_observed(nr) ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
        assert_int_equal(answer(&program, &data), want);
        data.nr = nr | 0x40000000;
        assert_int_equal(answer(&program, &data), SECCOMP_RET_ALLOW);
        data = (struct seccomp_data){.nr = nr, .arch = SMALL, .args = {O_RDWR, O_RDWR, O_RDWR}};
        assert_int_equal(answer(&program, &data), SECCOMP_RET_ALLOW);
        if (!is_open(nr))
            continue;
        for (size_t i = 0; i < COUNT(opens); i++) {
            data = (struct seccomp_data){.nr = nr, .arch = NATIVE};
            data.args[nr == SYS_openat ? 2 : 1] = opens[i].flags;
            want = opens[i].heard ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
            assert_int_equal(answer(&program, &data), want);
        }
    }
    buf_free(&program);
    buf_free(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_by_number),
        cmocka_unit_test(calls_are_answered_by_arguments),
        cmocka_unit_test(init_cannot_be_starved),
        cmocka_unit_test(foreign_architectures_are_killed),
        cmocka_unit_test(the_terminal_rule_holds_for_small_programs),
        cmocka_unit_test(nothing_is_no_filter),
        cmocka_unit_test(the_observer_hears_of_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
