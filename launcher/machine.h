/* What the kernel says about this machine and this process: facts that boxes depend on. */
#ifndef LAUNCHER_MACHINE_H
#define LAUNCHER_MACHINE_H

#include <stdbool.h>

/* Switches of /proc/sys: their value, or -1 where there is none. */
struct machine {
    long apparmor_restricts; /* kernel.apparmor_restrict_unprivileged_userns */
    long user_namespaces;    /* kernel.unprivileged_userns_clone, of Debian's kernels */
    long namespaces_max;     /* user.max_user_namespaces */
    bool container;
    bool nested; /* in a box of our own */
    bool root;   /* euid 0 */
};

void machine_look(struct machine *m);

/* Of the text of /proc/version: the Windows Subsystem for Linux, version 1. */
bool machine_is_wsl1(const char *version);
bool machine_runs_wsl1(void);

/* Of the text of /proc/self/status: CAP_SETFCAP neither in the bounding nor in the inheritable
 * set. False when the text does not say. */
bool machine_text_lacks_setfcap(const char *status);
bool machine_lacks_setfcap(void);

/* open_tree and mount_setattr are there; where they are, move_mount is. */
bool machine_has_mount_calls(void);

#endif
