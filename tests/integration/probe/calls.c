/* System calls that one table line describes. Arguments are such that a call which is not refused
 * at its door fails with another errno than EPERM where that can be had, or does no harm. */
#include "tests/integration/probe/probe.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define HIGH (1L << 32)
#define NR_OPEN_TREE_ATTR 467
#define EMPTY_MOUNT_NAMESPACE 0x100000L

static int pair[2];
static char zeros[256];

const struct call calls[] = {
    /* 12.1 */
    {"socket-unix-stream", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
    {"socket-unix-dgram", SYS_socket, {AF_UNIX, SOCK_DGRAM, 0}},
    {"socket-unix-seqpacket", SYS_socket, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0}},
    {"socket-unix-high", SYS_socket, {HIGH | AF_UNIX, SOCK_STREAM, 0}},
    {"socket-vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
    {"socket-vsock-high", SYS_socket, {HIGH | AF_VSOCK, SOCK_STREAM, 0}},
    {"socket-inet", SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"socket-inet-dgram", SYS_socket, {AF_INET, SOCK_DGRAM, 0}},
    {"socket-inet6", SYS_socket, {AF_INET6, SOCK_STREAM, 0}},
    {"socket-netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
    {"socket-packet", SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
    {"socket-inet-raw", SYS_socket, {AF_INET, SOCK_RAW, 1}},
    {"socketpair-stream", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, (long)pair}},
    {"socketpair-stream-cloexec",
     SYS_socketpair,
     {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, (long)pair}},
    {"socketpair-seqpacket", SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET, 0, (long)pair}},
    {"socketpair-dgram", SYS_socketpair, {AF_UNIX, SOCK_DGRAM, 0, (long)pair}},
    {"socketpair-dgram-cloexec",
     SYS_socketpair,
     {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, (long)pair}},
    {"socketpair-dgram-nonblock",
     SYS_socketpair,
     {AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, (long)pair}},
    {"socketpair-dgram-high", SYS_socketpair, {HIGH | AF_UNIX, HIGH | SOCK_DGRAM, 0, (long)pair}},
    {"socketpair-raw", SYS_socketpair, {AF_UNIX, SOCK_RAW, 0, (long)pair}},
    {"io-uring-setup", SYS_io_uring_setup, {1, (long)zeros}},
    {"io-uring-enter", SYS_io_uring_enter, {-1}},
    {"io-uring-register", SYS_io_uring_register, {-1}},
    {"add-key", SYS_add_key, {(long)"user", (long)"probe", (long)"x", 1, KEY_SPEC_PROCESS_KEYRING}},
    {"request-key", SYS_request_key, {(long)"user", (long)"probe", 0, 0}},
    {"keyctl-session", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0}},
    {"keyctl-join", SYS_keyctl, {KEYCTL_JOIN_SESSION_KEYRING, 0}},
    {"keyctl-user", SYS_keyctl, {KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0}},
    {"bpf", SYS_bpf, {BPF_MAP_CREATE, (long)zeros, 1}},
    {"perf-event-open", SYS_perf_event_open, {(long)zeros, 0, -1, -1, 0}},
    {"userfaultfd", SYS_userfaultfd, {1 /* user mode alone */}},
    {"init-module", SYS_init_module, {0, 0, (long)""}},
    {"finit-module", SYS_finit_module, {-1, (long)"", 0}},
    {"delete-module", SYS_delete_module, {(long)"no-such-module", O_NONBLOCK}},
    {"kexec-load", SYS_kexec_load, {0, 0, 0, -1}},
    {"kexec-file-load", SYS_kexec_file_load, {-1, -1, 0, (long)"", 0}},

    /* 12.2 */
    {"mount", SYS_mount, {(long)"none", (long)"/no-such-place", (long)"tmpfs", 0, 0}},
    {"mount-tmpfs", SYS_mount, {(long)"none", (long)"/proc", (long)"tmpfs", 0, 0}},
    {"mount-bind", SYS_mount, {(long)"/", (long)"/proc", 0, MS_BIND, 0}},
    {"mount-move", SYS_mount, {(long)"/proc", (long)"/dev", 0, MS_MOVE, 0}},
    {"mount-remount", SYS_mount, {0, (long)"/", 0, MS_REMOUNT | MS_BIND, 0}},
    {"mount-private", SYS_mount, {0, (long)"/", 0, MS_PRIVATE | MS_REC, 0}},
    {"umount", SYS_umount2, {(long)"/no-such-place", 0}},
    {"umount-proc", SYS_umount2, {(long)"/proc", MNT_DETACH}},
    {"pivot-root", SYS_pivot_root, {(long)"/no-such-place", (long)"/no-such-place"}},
    {"setns", SYS_setns, {-1, 0}},
    {"open-tree", SYS_open_tree, {AT_FDCWD, (long)"/", 0}},
    {"open-tree-clone", SYS_open_tree, {AT_FDCWD, (long)"/", OPEN_TREE_CLONE | AT_RECURSIVE}},
    {"open-tree-attr", NR_OPEN_TREE_ATTR, {AT_FDCWD, (long)"/", 0, (long)zeros, 32}},
    {"move-mount", SYS_move_mount, {AT_FDCWD, (long)"/proc", AT_FDCWD, (long)"/dev", 0}},
    {"fsopen", SYS_fsopen, {(long)"no-such-type", 0}},
    {"fsconfig", SYS_fsconfig, {-1, 6, 0, 0, 0}},
    {"fsmount", SYS_fsmount, {-1, 0, 0}},
    {"fspick", SYS_fspick, {AT_FDCWD, (long)"/no-such-place", 0}},
    {"mount-setattr", SYS_mount_setattr, {AT_FDCWD, (long)"/", 0, (long)zeros, 32}},
    {"unshare-user", SYS_unshare, {CLONE_NEWUSER}},
    {"unshare-user-high", SYS_unshare, {HIGH | CLONE_NEWUSER}},
    {"unshare-user-mount", SYS_unshare, {CLONE_NEWUSER | CLONE_NEWNS}},
    {"unshare-mount", SYS_unshare, {CLONE_NEWNS}},
    {"unshare-empty-mount", SYS_unshare, {EMPTY_MOUNT_NAMESPACE}},
    {"unshare-pid", SYS_unshare, {CLONE_NEWPID}},
    {"unshare-net", SYS_unshare, {CLONE_NEWNET}},
    {"unshare-ipc", SYS_unshare, {CLONE_NEWIPC}},
    {"unshare-uts", SYS_unshare, {CLONE_NEWUTS}},
    {"unshare-cgroup", SYS_unshare, {CLONE_NEWCGROUP}},
    {"unshare-files", SYS_unshare, {CLONE_FILES}},
    {"clone3", SYS_clone3, {0, 0}},

    /* Signals. The first process of a name space takes none that it has no handler for. */
    {"kill-init", SYS_kill, {1, SIGKILL}},
    {"kill-init-stop", SYS_kill, {1, SIGSTOP}},
    {"kill-outside", SYS_kill, {0x3fffff, SIGKILL}},

    /* Terminals: standard input need not be one for the filter to answer. */
    {"tiocsti", SYS_ioctl, {0, TIOCSTI, (long)"x"}},
    {"tiocsti-high", SYS_ioctl, {0, HIGH | TIOCSTI, (long)"x"}},
    {"tioclinux", SYS_ioctl, {0, TIOCLINUX, (long)zeros}},
    {"tioclinux-high", SYS_ioctl, {0, HIGH | TIOCLINUX, (long)zeros}},

    /* What takes a capability. */
    {"chroot", SYS_chroot, {(long)"/"}},
    {"sethostname", SYS_sethostname, {(long)"probe", 5}},
    {"mknod-device", SYS_mknodat, {AT_FDCWD, (long)"probe-device", 0060600, 0x0100}},
    {"syslog", SYS_syslog, {3, (long)zeros, sizeof zeros}},
    {"personality", SYS_personality, {PER_LINUX}},
    {"personality-32", SYS_personality, {PER_LINUX32}},
    {"personality-no-random", SYS_personality, {ADDR_NO_RANDOMIZE}},
};
const size_t call_count = sizeof calls / sizeof calls[0];
