#include "launcher/inside/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "launcher/inside/box.h"
#include "launcher/inside/descriptors.h"
#include "launcher/inside/devices.h"
#include "launcher/inside/failure.h"
#include "launcher/inside/mount_calls.h"
#include "launcher/inside/system.h"
#include "launcher/mounts.h"

static bool is_root(const char *path)
{
    return path[strspn(path, "/")] == 0;
}

/* Opens the host's tree, and the node that stands for a hidden file. */
static bool open_host(struct box *b, struct buf *error)
{
    struct stat st;

    b->host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (b->host < 0)
        return failure(error, "open", "/");
    b->null = open_canonical(b->host, "/dev/null");
    if (b->null < 0 || fstat(b->null, &st) != 0)
        return failure(error, "open", "/dev/null");
    /* Anything else there could be read where it is meant to hide something. */
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
        return failure_because(error, "/dev/null", "not the null device");
    return true;
}

/*
 * Makes the command's root from the last mount on "/", if there is one: what
 * comes before it would lie beneath it. *first is the first mount after it.
 */
static bool make_root(struct box *b, const struct orders *o, size_t *first, struct buf *error)
{
    const char *source = "/";
    bool writable = (o->flags & ORDER_ROOT_WRITABLE) != 0;
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

    for (*first = o->mount_count; *first != 0; --*first) {
        const struct order_mount *m = &o->mounts[*first - 1];
        if (!is_root(m->place))
            continue;
        if (m->kind != MOUNT_READ_ONLY && m->kind != MOUNT_WRITABLE)
            return failure_because(error, "mount /", "the root directory cannot be hidden");
        source = m->source;
        writable = m->kind == MOUNT_WRITABLE;
        break;
    }
    int from = open_canonical(b->host, source);
    b->root = from >= 0 ? mount_copy(from) : -1;
    descriptors_close(from);
    if (b->root < 0 && errno == EPERM)
        return failure(error, ORDERS_MOUNTS_REFUSED, NULL);
    /* The private files go below: the copy was made before, so that it does not hold them. */
    if (b->root < 0 ||
        !mount_attributes(b->root, attributes | (writable ? 0 : MOUNT_ATTR_RDONLY), 0))
        return failure(error, "mount", "/");
    if (!box_make_private(b))
        return failure(error, "mount", "tmpfs");
    return mount_attach(b->root, b->host) || failure(error, "mount", "/");
}

static int open_source(struct box *b, const struct order_mount *m)
{
    switch (m->kind) {
    case MOUNT_HIDE_DIRECTORY:
        return box_private_directory(b, 0755);
    case MOUNT_HIDE_FILE:
        return fcntl(b->null, F_DUPFD_CLOEXEC, 0);
    case MOUNT_PIN_LINK:
        return open_canonical(b->host, m->place);
    default:
        return open_canonical(b->host, m->source);
    }
}

static uint64_t attributes_of(const struct order_mount *m)
{
    /* Hidden files too: the owner of /dev/null could change its mode otherwise. */
    bool read_only = m->kind != MOUNT_WRITABLE && m->kind != MOUNT_HIDE_DIRECTORY;

    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0);
}

static bool attach(const struct order_mount *m, int source, int place)
{
    int mount = mount_copy(source);
    bool ok =
        mount >= 0 && mount_attributes(mount, attributes_of(m), 0) && mount_attach(mount, place);

    descriptors_close(mount);
    return ok;
}

static bool is_hiding(const struct order_mount *m)
{
    return m->kind == MOUNT_HIDE_DIRECTORY || m->kind == MOUNT_HIDE_FILE;
}

/* What cannot be reached is hidden with the directory that bars the way; the root never is. */
static bool hide_reachable(struct box *b, const struct order_mount *m)
{
    static const struct order_mount hide = {.kind = MOUNT_HIDE_DIRECTORY};
    struct stat root, st;
    int place = box_open_reachable(b, m->place);
    int source = box_private_directory(b, 0755);
    bool ok = place >= 0 && source >= 0 && fstat(b->root, &root) == 0 && fstat(place, &st) == 0;

    if (ok && st.st_dev == root.st_dev && st.st_ino == root.st_ino) {
        errno = EACCES;
        ok = false;
    }
    ok = ok && attach(&hide, source, place);
    descriptors_close(source);
    descriptors_close(place);
    return ok;
}

/*
 * The source or the place of a mount is not there any more, or never was in
 * reach (errno). May it be left out? What opens something may, if it is gone:
 * less is open. What closes something may only where the command sees nothing
 * of the host's anyway: beneath a hidden directory, or behind one that neither
 * it nor its owner's rights let it pass.
 */
static bool may_leave_out(const struct box *b, const struct order_mount *m)
{
    int why = errno;
    struct stat st;

    if (why != ENOENT && why != EACCES)
        return false;
    if (why == ENOENT && m->kind == MOUNT_WRITABLE)
        return true;
    int reached = box_open_reachable(b, m->place);
    bool ok = reached >= 0 && fstat(reached, &st) == 0 &&
              (box_is_private(b, reached) ||
               (why == EACCES && m->kind != MOUNT_WRITABLE && st.st_uid != geteuid()));
    descriptors_close(reached);
    errno = why;
    return ok;
}

/* True when the link at the place leads to what is to be shown there: the place of a mount is
 * canonical but for a link that is named itself, and may have come back with its directory. */
static bool leads_to(const struct order_mount *m, const struct stat *source)
{
    struct stat st;

    return (m->kind == MOUNT_READ_ONLY || m->kind == MOUNT_WRITABLE) && stat(m->place, &st) == 0 &&
           st.st_dev == source->st_dev && st.st_ino == source->st_ino &&
           strcmp(m->source, m->place) != 0;
}

static bool mount_onto(struct box *b, const struct order_mount *m, int source)
{
    struct stat from, to;
    bool pin = m->kind == MOUNT_PIN_LINK, ok;

    if (fstat(source, &from) != 0)
        return false;
    if (S_ISLNK(from.st_mode) != pin) {
        errno = pin ? EINVAL : ELOOP;
        return false;
    }
    int place = pin ? open_canonical(b->root, m->place)
                    : box_open_place(b, m->place, S_ISDIR(from.st_mode));
    if (place < 0 && errno == EACCES && is_hiding(m))
        return hide_reachable(b, m);
    if (place < 0)
        return may_leave_out(b, m);
    ok = fstat(place, &to) == 0;
    if (ok && !pin && S_ISLNK(to.st_mode)) {
        ok = leads_to(m, &from);
        errno = ELOOP;
        /* No directory can be mounted on a link; what it leads to has its own rules. */
        if (ok && S_ISDIR(from.st_mode))
            goto out;
    }
    if (ok && pin && !S_ISLNK(to.st_mode)) {
        ok = box_is_private(b, place);
        errno = EINVAL;
        goto out;
    }
    ok = ok && attach(m, source, place);
out:
    descriptors_close(place);
    return ok;
}

static bool apply(struct box *b, const struct order_mount *m, struct buf *error)
{
    /* The host's root has the command's stacked on it by now. */
    if (is_root(m->source) && m->source[0] != 0)
        return failure_because(error, m->place, "the root directory cannot be shown here");
    int source = open_source(b, m);
    bool ok = source >= 0 ? mount_onto(b, m, source) : may_leave_out(b, m);

    descriptors_close(source);
    return ok || failure(error, "mount", m->place);
}

/*
 * The new root comes into its place, and with that lies beneath the two that it was made on: the
 * host's tree, and on that the private files. The topmost of them goes first; each has to.
 */
static bool enter(const struct box *b, struct buf *error)
{
    if (fchdir(b->root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
        umount2(".", MNT_DETACH) == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
        return true;
    return failure(error, "pivot_root", NULL);
}

bool tree_build(const struct orders *o, struct buf *error)
{
    struct box b = {.host = -1, .root = -1, .null = -1, .private_mount = -1};
    mode_t mask = umask(0);
    size_t first = 0;

    bool ok = open_host(&b, error) && make_root(&b, o, &first, error) &&
              system_show_proc(&b, (o->flags & ORDER_KEEP_PROC) != 0, error);
    for (size_t i = first; ok && i < o->mount_count; i++)
        ok = apply(&b, &o->mounts[i], error);
    ok = ok && devices_make(&b, (o->flags & ORDER_CONSOLE) != 0, error);
    if (ok && (o->flags & ORDER_NO_USER_NAMESPACES) != 0)
        system_limit_user_namespaces();
    if (ok && (o->flags & ORDER_COVER_SYSTEM) != 0)
        ok = system_cover(&b, (o->flags & ORDER_KEEP_PROC) == 0, error);
    ok = ok && enter(&b, error);
    umask(mask);
    descriptors_close(b.private_mount);
    descriptors_close(b.null);
    descriptors_close(b.root);
    descriptors_close(b.host);
    return ok;
}
