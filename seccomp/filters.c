#include "seccomp/filters.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <seccomp.h>

#include "seccomp/observed.h"

/* Younger than the headers of some systems; one number on every architecture. */
enum { NR_OPEN_TREE_ATTR = 467 };

/* linux/ioprio.h has them only in younger headers. */
enum { IOPRIO_PROCESS = 1, IOPRIO_GROUP = 2, IOPRIO_USER = 3 };
enum { SIGNAL_PROCESS_GROUP = 4 }; /* PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9 */
enum { INIT = 1 };                 /* the process that ends the box, and the run with it */

#define UNSHARE_EMPTY_MOUNTS 0x100000u
#define SOCKET_TYPE 0xfu /* the rest of the argument are flags */
/* The kernel takes an int argument from the low half of a register; a filter that compared all of
 * it could be passed with a bit set above. */
#define INT 0xffffffffu

struct condition {
    unsigned char argument;
    uint64_t mask, value;
};
struct rule {
    unsigned part;
    int nr;
    int answer; /* errno */
    unsigned condition_count;
    struct condition conditions[2]; /* all must hold */
};

#define ALWAYS      \
    0,              \
    {               \
        {0, 0, 0},  \
        {           \
            0, 0, 0 \
        }           \
    }
#define WHEN(argument, mask, value) \
    1,                              \
    {                               \
        {argument, mask, value},    \
        {                           \
            0, 0, 0                 \
        }                           \
    }
#define WHEN_FLAG(argument, flag) WHEN(argument, flag, flag)
#define WHEN_BOTH(first, second_mask, second) \
    2,                                        \
    {                                         \
        {0, INT, first},                      \
        {                                     \
            1, second_mask, second            \
        }                                     \
    }
#define WHEN_PAIR(family, type) WHEN_BOTH(family, SOCKET_TYPE, type)

static const struct rule rules[] = {
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCSTI)},
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCLINUX)},
    /* A line discipline, exclusive use, the console's output here, everybody hung up: these stay
     * when the command has gone. */
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCSETD)},
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCEXCL)},
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCCONS)},
    {FILTER_TERMINAL, SCMP_SYS(ioctl), EPERM, WHEN(1, INT, TIOCVHANGUP)},
    /* A PID 1 without processor time, memory or descriptors would not end the box when it is told
     * to. Groups and users may hold it too, so they are refused as a whole. */
    {FILTER_TERMINAL, SCMP_SYS(sched_setaffinity), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(sched_setscheduler), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(sched_setparam), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(sched_setattr), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(prlimit64), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(move_pages), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(migrate_pages), EPERM, WHEN(0, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(setpriority), EPERM, WHEN_BOTH(PRIO_PROCESS, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(setpriority), EPERM, WHEN(0, INT, PRIO_PGRP)},
    {FILTER_TERMINAL, SCMP_SYS(setpriority), EPERM, WHEN(0, INT, PRIO_USER)},
    {FILTER_TERMINAL, SCMP_SYS(ioprio_set), EPERM, WHEN_BOTH(IOPRIO_PROCESS, INT, INIT)},
    {FILTER_TERMINAL, SCMP_SYS(ioprio_set), EPERM, WHEN(0, INT, IOPRIO_GROUP)},
    {FILTER_TERMINAL, SCMP_SYS(ioprio_set), EPERM, WHEN(0, INT, IOPRIO_USER)},

    {FILTER_SOCKETS, SCMP_SYS(socket), EPERM, WHEN(0, INT, AF_UNIX)},
    {FILTER_SOCKETS, SCMP_SYS(socket), EPERM, WHEN(0, INT, AF_VSOCK)},
    {FILTER_SOCKETS, SCMP_SYS(socketpair), EPERM, WHEN_PAIR(AF_UNIX, SOCK_DGRAM)},
    /* A raw Unix socket is a datagram one. */
    {FILTER_SOCKETS, SCMP_SYS(socketpair), EPERM, WHEN_PAIR(AF_UNIX, SOCK_RAW)},
    /* A ring makes sockets without a system call of their own. */
    {FILTER_SOCKETS, SCMP_SYS(io_uring_setup), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(io_uring_enter), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(io_uring_register), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(add_key), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(request_key), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(keyctl), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(bpf), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(perf_event_open), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(userfaultfd), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(open_by_handle_at), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(init_module), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(finit_module), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(delete_module), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(kexec_load), EPERM, ALWAYS},
    {FILTER_SOCKETS, SCMP_SYS(kexec_file_load), EPERM, ALWAYS},

    {FILTER_GROUP, SCMP_SYS(kill), EPERM, WHEN(0, INT, 0)},
    {FILTER_GROUP, SCMP_SYS(pidfd_send_signal), EPERM, WHEN_FLAG(3, SIGNAL_PROCESS_GROUP)},
    {FILTER_NAMESPACES, SCMP_SYS(mount), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(umount2), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(pivot_root), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(setns), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(open_tree), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(move_mount), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(fsopen), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(fsconfig), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(fsmount), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(fspick), EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(mount_setattr), EPERM, ALWAYS},
    {FILTER_NAMESPACES, NR_OPEN_TREE_ATTR, EPERM, ALWAYS},
    {FILTER_NAMESPACES, SCMP_SYS(unshare), EPERM, WHEN_FLAG(0, CLONE_NEWUSER)},
    {FILTER_NAMESPACES, SCMP_SYS(unshare), EPERM, WHEN_FLAG(0, CLONE_NEWNS)},
    {FILTER_NAMESPACES, SCMP_SYS(unshare), EPERM, WHEN_FLAG(0, UNSHARE_EMPTY_MOUNTS)},
    {FILTER_NAMESPACES, SCMP_SYS(clone), EPERM, WHEN_FLAG(0, CLONE_NEWUSER)},
    {FILTER_NAMESPACES, SCMP_SYS(clone), EPERM, WHEN_FLAG(0, CLONE_NEWNS)},
    /* Its flags lie in memory; a C library falls back to clone(). */
    {FILTER_NAMESPACES, SCMP_SYS(clone3), ENOSYS, ALWAYS},
};

bool filters_supported(void)
{
#if (defined(__x86_64__) && !defined(__ILP32__)) || defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

/* The 32-bit architecture that the same kernel runs. */
static uint32_t small_architecture(void)
{
    return seccomp_arch_native() == SCMP_ARCH_X86_64 ? SCMP_ARCH_X86 : SCMP_ARCH_ARM;
}

/* 0 or a negative errno. */
static int add_rules(scmp_filter_ctx filter, unsigned parts)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *r = &rules[i];
        struct scmp_arg_cmp conditions[2];
        if ((r->part & parts) == 0)
            continue;
        for (unsigned c = 0; c < r->condition_count; c++)
            conditions[c] = (struct scmp_arg_cmp){
                .arg = r->conditions[c].argument,
                .op = SCMP_CMP_MASKED_EQ,
                .datum_a = r->conditions[c].mask,
                .datum_b = r->conditions[c].value,
            };
        int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)r->answer), r->nr,
                                        r->condition_count, conditions);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* One rule a flag: together they ask for any of them. */
static int observe_flags(scmp_filter_ctx filter, const struct observed_call *call)
{
    for (uint32_t flag = 1; flag != 0; flag <<= 1) {
        struct scmp_arg_cmp has_flag = {call->flags, SCMP_CMP_MASKED_EQ, flag, flag};
        if ((flag & OBSERVED_FLAGS) == 0)
            continue;
        int rc = seccomp_rule_add_array(filter, SCMP_ACT_NOTIFY, call->nr, 1, &has_flag);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int add_observed(scmp_filter_ctx filter)
{
    size_t count;
    const struct observed_call *calls = observed_calls(&count);

    for (size_t i = 0; i < count; i++) {
        int rc = calls[i].opening == OPENING_FLAGS
                     ? observe_flags(filter, &calls[i])
                     : seccomp_rule_add_array(filter, SCMP_ACT_NOTIFY, calls[i].nr, 0, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Appends what libseccomp makes of the filter; it can write only to a descriptor. */
static int export_program(scmp_filter_ctx filter, struct buf *program)
{
    struct stat st;
    int rc = 0;
    int fd = memfd_create("filter", MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    rc = seccomp_export_bpf(filter, fd);
    if (rc != 0)
        goto out;
    rc = -EIO;
    if (fstat(fd, &st) != 0 || st.st_size <= 0)
        goto out;
    size_t n = (size_t)st.st_size;
    uint8_t *room = buf_reserve(program, n);
    if (room == NULL || pread(fd, room, n, 0) != (ssize_t)n)
        goto out;
    buf_commit(program, n);
    rc = 0;
out:
    close(fd);
    return rc;
}

static bool failed(struct buf *error, int rc)
{
    buf_printf(error, "cannot build the seccomp filter: %s", strerror(-rc));
    return false;
}

/* With a binary tree of call numbers, so that a call costs a few comparisons. NULL with *rc. */
static scmp_filter_ctx filter_new(uint32_t other_architectures, int *rc)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    *rc = -ENOMEM;
    if (filter == NULL)
        return NULL;
    *rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, other_architectures);
    if (*rc == 0)
        *rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (*rc == 0)
        return filter;
    seccomp_release(filter);
    return NULL;
}

bool filters_build(unsigned parts, struct buf *program, struct buf *error)
{
    int rc;

    if (!filters_supported())
        return failed(error, -EOPNOTSUPP);
    if ((parts & (FILTER_TERMINAL | FILTER_SOCKETS | FILTER_NAMESPACES | FILTER_GROUP)) == 0)
        return failed(error, -EINVAL);
    /* x32 has the number space above 0x40000000 of x86-64 and counts as another architecture. */
    scmp_filter_ctx filter = filter_new(SCMP_ACT_KILL_THREAD, &rc);
    if (filter == NULL)
        return failed(error, rc);
    /* The terminal rules alone take nothing away from 32-bit programs, and hold for them too. */
    if ((parts & (FILTER_SOCKETS | FILTER_NAMESPACES)) == 0)
        rc = seccomp_arch_add(filter, small_architecture());
    if (rc == 0)
        rc = add_rules(filter, parts);
    if (rc == 0)
        rc = export_program(filter, program);
    seccomp_release(filter);
    return rc == 0 || failed(error, rc);
}

bool filters_build_observer(struct buf *program, struct buf *error)
{
    int rc;

    if (!filters_supported())
        return failed(error, -EOPNOTSUPP);
    scmp_filter_ctx filter = filter_new(SCMP_ACT_ALLOW, &rc);
    if (filter == NULL)
        return failed(error, rc);
    rc = add_observed(filter);
    if (rc == 0)
        rc = export_program(filter, program);
    seccomp_release(filter);
    return rc == 0 || failed(error, rc);
}
