#include "launcher/inside/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/inside/failure.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

bool confine_keyring(struct buf *error)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
        return true;
    /* A kernel without keys, or a container that refuses the call, has none to protect. */
    return errno == ENOSYS || errno == EPERM || errno == EACCES ||
           failure(error, "session keyring", NULL);
}

/* Both need CAP_SETPCAP. Where bubblewrap could not grant it, it has emptied the sets itself. */
static bool drop_bounds(struct buf *error)
{
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                               SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EPERM)
            return failure(error, "bounding set", NULL);
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 && errno != EPERM)
        return failure(error, "securebits", NULL);
    return true;
}

bool confine_capabilities(struct buf *error)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

    if (!drop_bounds(error))
        return false;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return failure(error, "ambient capabilities", NULL);
    if (syscall(SYS_capset, &header, none) != 0)
        return failure(error, "capabilities", NULL);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failure(error, "no_new_privs", NULL);
    return true;
}

static int load(const void *program, size_t n, unsigned flags)
{
    struct sock_fprog prog = {.len = (unsigned short)(n / sizeof(struct sock_filter)),
                              .filter = (struct sock_filter *)(uintptr_t)program};

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
}

bool confine_filter(const void *program, size_t n, struct buf *error)
{
    return n == 0 || load(program, n, 0) == 0 || failure(error, "seccomp", NULL);
}

int confine_observe(const void *program, size_t n)
{
    /* Without it a signal to the caller makes its call, and the record, anew (Linux 5.19). */
    int fd =
        load(program, n, SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    return fd >= 0 || errno != EINVAL ? fd : load(program, n, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}
