#include "launcher/inside/devices.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/inside/descriptors.h"
#include "launcher/inside/failure.h"
#include "launcher/inside/mount_calls.h"

static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};

static const struct {
    const char *name, *target;
} links[] = {{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
             {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
             {"core", "/proc/kcore"},       {"ptmx", "pts/ptmx"}};

/* Attaches a detached mount at a new node of /dev. */
static bool attach_at(int directory, const char *name, int mount)
{
    int place = open_canonical(directory, name);
    bool ok = place >= 0 && mount_attach(mount, place);

    descriptors_close(place);
    return ok;
}

/*
 * A device of the host's. It works on a read-only mount as anywhere, but its
 * owner cannot change its mode there, nor give it away.
 */
static bool add_device(int directory, const char *name, int source)
{
    const uint64_t set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
    int mount = mount_copy(source);
    bool ok = mount >= 0 && mount_attributes(mount, set, MOUNT_ATTR_NODEV) &&
              mknodat(directory, name, S_IFREG | 0444, 0) == 0 && attach_at(directory, name, mount);

    descriptors_close(mount);
    return ok;
}

static bool is_device(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
}

static bool add_nodes(int host, int directory, struct buf *error)
{
    bool ok = true;

    for (size_t i = 0; ok && i < sizeof nodes / sizeof *nodes; i++) {
        int source = open_canonical(host, nodes[i]);
        /* What the host does not have the box does not need. */
        if (source >= 0 && is_device(source))
            ok = add_device(directory, nodes[i], source) || failure(error, "/dev", nodes[i]);
        descriptors_close(source);
    }
    return ok;
}

static bool add_terminals(int directory)
{
    static const char *const options[] = {"ptmxmode", "0666", "mode", "0620", NULL};
    int mount = mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    bool ok =
        mount >= 0 && mkdirat(directory, "pts", 0755) == 0 && attach_at(directory, "pts", mount);

    descriptors_close(mount);
    return ok;
}

static bool add_rest(int directory, struct buf *error)
{
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlinkat(links[i].target, directory, links[i].name) != 0)
            return failure(error, "/dev", links[i].name);
    if (!add_terminals(directory))
        return failure(error, "/dev", "pts");
    return mkdirat(directory, "shm", 01777) == 0 || failure(error, "/dev", "shm");
}

/* Not to be found by its name, or named so by another's /dev: then there is none. */
static bool add_console(int directory, struct buf *error)
{
    char path[PATH_MAX];
    struct stat terminal, found;
    ssize_t n = readlink("/proc/self/fd/1", path, sizeof path - 1);
    bool ok = true;

    if (n <= 0 || fstat(STDOUT_FILENO, &terminal) != 0 || !S_ISCHR(terminal.st_mode))
        return true;
    path[n] = 0;
    int source = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (source >= 0 && fstat(source, &found) == 0 && found.st_dev == terminal.st_dev &&
        found.st_ino == terminal.st_ino && found.st_rdev == terminal.st_rdev)
        ok = add_device(directory, "console", source) || failure(error, "/dev", "console");
    descriptors_close(source);
    return ok;
}

bool devices_make(struct box *b, bool console, struct buf *error)
{
    int directory = -1, place = -1, host = -1;
    int empty = box_private_directory(b, 0755);
    bool ok = empty >= 0 && (directory = mount_copy(empty)) >= 0 &&
              (place = open_canonical(b->root, "/dev")) >= 0 && mount_attach(directory, place) &&
              (host = open_canonical(b->host, "/dev")) >= 0;

    if (!ok)
        failure(error, "mount", "/dev");
    ok = ok && add_nodes(host, directory, error) && add_rest(directory, error) &&
         (!console || add_console(directory, error));
    descriptors_close(host);
    descriptors_close(place);
    descriptors_close(directory);
    descriptors_close(empty);
    return ok;
}
