#include "launcher/inside/box.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "launcher/inside/descriptors.h"
#include "launcher/inside/mount_calls.h"

bool box_make_private(struct box *b)
{
    static const char *const options[] = {"mode", "0755", NULL};
    struct stat st;

    b->private_mount = mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (b->private_mount < 0 || fstat(b->private_mount, &st) != 0)
        return false;
    b->private_device = st.st_dev;
    return mount_attach(b->private_mount, b->host);
}

int box_private_directory(struct box *b, mode_t mode)
{
    char name[16];

    if (b->private_mount < 0) {
        errno = ENOTSUP;
        return -1;
    }
    snprintf(name, sizeof name, "%u", b->private_made++);
    if (mkdirat(b->private_mount, name, mode) != 0)
        return -1;
    return open_canonical(b->private_mount, name);
}

bool box_is_private(const struct box *b, int fd)
{
    struct stat st;

    return b->private_mount >= 0 && fstat(fd, &st) == 0 && st.st_dev == b->private_device;
}

/* Takes the next component of *path; false at the end. Too long a name stays too long. */
static bool next_name(const char **path, char name[NAME_MAX + 2])
{
    const char *p = *path + strspn(*path, "/");
    size_t n = strcspn(p, "/");

    *path = p + n;
    if (n > NAME_MAX)
        n = NAME_MAX + 1;
    memcpy(name, p, n);
    name[n] = 0;
    return n != 0;
}

static int make_private(const struct box *b, int directory, const char *name, bool as_directory)
{
    if (!box_is_private(b, directory)) {
        errno = ENOENT;
        return -1;
    }
    int made =
        as_directory ? mkdirat(directory, name, 0755) : mknodat(directory, name, S_IFREG | 0644, 0);
    return made == 0 ? open_canonical(directory, name) : -1;
}

int box_open_place(const struct box *b, const char *place, bool directory)
{
    char name[NAME_MAX + 2];
    int fd = open_canonical(b->root, place);

    if (fd >= 0 || errno != ENOENT || b->private_mount < 0)
        return fd;
    fd = open_canonical(b->root, "");
    while (fd >= 0 && next_name(&place, name)) {
        int next = open_canonical(fd, name);
        if (next < 0 && errno == ENOENT)
            next = make_private(b, fd, name, directory || place[strspn(place, "/")] != 0);
        descriptors_close(fd);
        fd = next;
    }
    return fd;
}

int box_open_reachable(const struct box *b, const char *place)
{
    char name[NAME_MAX + 2];
    int fd = open_canonical(b->root, "");

    while (fd >= 0 && next_name(&place, name)) {
        int next = open_canonical(fd, name);
        if (next < 0)
            break;
        descriptors_close(fd);
        fd = next;
    }
    return fd;
}
