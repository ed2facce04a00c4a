#include "launcher/standins_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"

/* Nobody is meant to open one; a directory may be used on the host while the box lives. */
enum { LEAF_MODE = 0444, DIRECTORY_MODE = 0755 };
enum { PROC_PATH_MAX = 32 };

bool node_same(const struct node_identity *a, const struct node_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->birth_s == b->birth_s &&
           a->birth_ns == b->birth_ns;
}

int node_open_parent(const char *path, const char **name)
{
    enum { FLAGS = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    char *copy, *at, *last;
    int fd, number = 0;

    if (path[0] != '/' || path[1] == '\0') {
        errno = EINVAL;
        return -1;
    }
    copy = mem_dup(path);
    last = strrchr(copy, '/');
    *last = '\0';
    *name = path + (last - copy) + 1;
    at = copy;
    fd = open("/", FLAGS);
    while (fd >= 0 && *at != '\0') {
        char *component = at + 1;
        at = component + strcspn(component, "/");
        bool more = *at == '/';
        *at = '\0';
        int next = openat(fd, component, FLAGS);
        number = errno;
        close(fd);
        fd = next;
        if (more)
            *at = '/';
    }
    free(copy);
    if (fd < 0)
        errno = number;
    return fd;
}

static enum node_kind kind_of(const struct statx *st)
{
    if (S_ISSOCK(st->stx_mode))
        return NODE_SOCKET;
    if (S_ISDIR(st->stx_mode))
        return NODE_DIRECTORY;
    if (S_ISREG(st->stx_mode) && st->stx_size == 0 && st->stx_nlink == 1)
        return NODE_FILE;
    return NODE_OTHER;
}

int node_look(int parent, const char *name, struct node *out)
{
    struct statx st;

    *out = (struct node){0};
    if (statx(parent, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS | STATX_BTIME,
              &st) != 0)
        return errno;
    out->kind = kind_of(&st);
    out->identity = (struct node_identity){
        .device = makedev(st.stx_dev_major, st.stx_dev_minor),
        .inode = st.stx_ino,
    };
    if (st.stx_mask & STATX_BTIME) {
        out->identity.birth_s = st.stx_btime.tv_sec;
        out->identity.birth_ns = st.stx_btime.tv_nsec;
    }
    out->owner = st.stx_uid;
    out->changed = st.stx_ctime.tv_sec;
    return 0;
}

static int make(int parent, const char *name, enum node_kind kind)
{
    int result;

    switch (kind) {
    case NODE_SOCKET:
        result = mknodat(parent, name, S_IFSOCK | LEAF_MODE, 0);
        break;
    case NODE_DIRECTORY:
        result = mkdirat(parent, name, DIRECTORY_MODE);
        break;
    case NODE_FILE:
        result =
            openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, LEAF_MODE);
        if (result >= 0)
            close(result);
        break;
    default:
        return EINVAL;
    }
    return result < 0 ? errno : 0;
}

static int remove_node(int parent, const char *name, enum node_kind kind)
{
    return unlinkat(parent, name, kind == NODE_DIRECTORY ? AT_REMOVEDIR : 0) != 0 ? errno : 0;
}

/*
 * A directory of this user's that forbids writing does not keep the command from it, since that can
 * change the mode: so it must not keep us. It is opened for the moment it takes. False when it is
 * not such a directory.
 */
static bool open_for_a_moment(int parent, char path[PROC_PATH_MAX], mode_t *mode)
{
    struct stat st;

    if (fstat(parent, &st) != 0 || st.st_uid != geteuid() ||
        (st.st_mode & (S_IWUSR | S_IXUSR)) == (S_IWUSR | S_IXUSR))
        return false;
    *mode = st.st_mode & 07777;
    snprintf(path, PROC_PATH_MAX, "/proc/self/fd/%d", parent);
    return chmod(path, *mode | S_IWUSR | S_IXUSR) == 0;
}

static int change(int (*what)(int parent, const char *name, enum node_kind kind), int parent,
                  const char *name, enum node_kind kind)
{
    char path[PROC_PATH_MAX];
    mode_t mode;
    int number = what(parent, name, kind);

    if (number != EACCES || !open_for_a_moment(parent, path, &mode))
        return number;
    number = what(parent, name, kind);
    (void)chmod(path, mode);
    return number;
}

int node_make(int parent, const char *name, enum node_kind kind)
{
    return change(make, parent, name, kind);
}

int node_remove(int parent, const char *name, enum node_kind kind)
{
    return change(remove_node, parent, name, kind);
}
