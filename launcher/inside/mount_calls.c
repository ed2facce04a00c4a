#include "launcher/inside/mount_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/inside/descriptors.h"

int open_canonical(int directory, const char *name)
{
    const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve =
                                     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd;

    while (*name == '/')
        name++;
    /* EAGAIN: something was renamed meanwhile, and only that keeps the kernel from being sure. */
    do
        fd = syscall(SYS_openat2, directory, *name != 0 ? name : ".", &how, sizeof how);
    while (fd < 0 && (errno == EAGAIN || errno == EINTR));
    return (int)fd;
}

int mount_copy(int source)
{
    return open_tree(source, "",
                     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
}

bool mount_attributes(int mount, uint64_t set, uint64_t clear)
{
    struct mount_attr attributes = {.attr_set = set, .attr_clr = clear, .propagation = MS_PRIVATE};

    return mount_setattr(mount, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) ==
           0;
}

bool mount_attach(int mount, int place)
{
    return move_mount(mount, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

int mount_new(const char *type, const char *const *options, uint64_t attributes)
{
    int mount = -1;
    int context = fsopen(type, FSOPEN_CLOEXEC);

    if (context < 0)
        return -1;
    for (size_t i = 0; options[i] != NULL; i += 2)
        if (fsconfig(context, FSCONFIG_SET_STRING, options[i], options[i + 1], 0) != 0)
            goto out;
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        goto out;
    mount = fsmount(context, FSMOUNT_CLOEXEC, (unsigned)attributes);
out:
    descriptors_close(context);
    return mount;
}
