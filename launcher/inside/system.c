#include "launcher/inside/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/inside/descriptors.h"
#include "launcher/inside/failure.h"
#include "launcher/inside/mount_calls.h"

static const char *const read_only[] = {
    "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi",
    "/proc/fs",  "/proc/scsi",          "/sys"};

/* The machine's memory and its layout, keys, timers, firmware and its meters. */
static const char *const hidden[] = {"/proc/kcore",
                                     "/proc/keys",
                                     "/proc/timer_list",
                                     "/proc/timer_stats",
                                     "/proc/latency_stats",
                                     "/proc/sched_debug",
                                     "/proc/kmsg",
                                     "/proc/kpagecount",
                                     "/proc/kpageflags",
                                     "/proc/kpagecgroup",
                                     "/proc/vmallocinfo",
                                     "/sys/firmware",
                                     "/sys/devices/virtual/powercap"};

enum { COVERED = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY };

void system_limit_user_namespaces(void)
{
    static const char setting[] = "sys/user/max_user_namespaces";
    /* A copy of /proc alone: bubblewrap has covered some of it where root calls. */
    int proc = open_tree(AT_FDCWD, "/proc", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (proc < 0)
        proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(proc, setting, O_WRONLY | O_CLOEXEC);
    /* Where it fails the filter alone has to do. */
    if (fd >= 0)
        (void)!write(fd, "0", 1);
    descriptors_close(fd);
    descriptors_close(proc);
}

bool system_show_proc(const struct box *b, bool fresh, struct buf *error)
{
    static const char *const no_options[] = {NULL};
    const uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    int from = open_canonical(b->host, "/proc");
    int place = open_canonical(b->root, "/proc");
    int mount = fresh ? mount_new("proc", no_options, attributes) : -1;
    if (mount < 0 && from >= 0)
        mount = mount_copy(from);
    bool ok = place >= 0 && mount >= 0 && mount_attributes(mount, attributes, 0) &&
              mount_attach(mount, place);

    descriptors_close(mount);
    descriptors_close(place);
    descriptors_close(from);
    return ok || failure(error, "mount", "/proc");
}

static bool cover(const struct box *b, const char *path, int source)
{
    int place = open_canonical(b->root, path);
    int mount = place >= 0 ? mount_copy(source >= 0 ? source : place) : -1;
    bool ok = mount >= 0 && mount_attributes(mount, COVERED, 0) && mount_attach(mount, place);

    descriptors_close(mount);
    descriptors_close(place);
    return ok;
}

static bool hide(struct box *b, const char *path)
{
    struct stat st;
    int place = open_canonical(b->root, path);
    bool directory = place >= 0 && fstat(place, &st) == 0 && S_ISDIR(st.st_mode);

    if (place < 0)
        return false;
    descriptors_close(place);
    int source = directory ? box_private_directory(b, 0755) : fcntl(b->null, F_DUPFD_CLOEXEC, 0);
    bool ok = source >= 0 && cover(b, path, source);
    descriptors_close(source);
    return ok;
}

static bool missing(void)
{
    return errno == ENOENT || errno == ENOTDIR;
}

bool system_cover(struct box *b, bool strict, struct buf *error)
{
    for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++)
        if (!cover(b, read_only[i], -1) && strict && !missing())
            return failure(error, "cover", read_only[i]);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (!hide(b, hidden[i]) && strict && !missing())
            return failure(error, "hide", hidden[i]);
    return true;
}

/* Kernels without the newer calls too: this is what bubblewrap is asked to mount for. */
static void cover_mounted(int root, const char *source, const char *path)
{
    const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (mount(source, path, NULL, MS_BIND | MS_REC, NULL) != 0)
        return;
    int place = open_canonical(root, path);
    if (place < 0 || !mount_attributes(place, COVERED, 0))
        mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL);
    descriptors_close(place);
}

void system_cover_mounted(void)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++)
        cover_mounted(root, read_only[i], read_only[i]);
    /* Of a directory and a device the kernel makes no mount: those of firmware stay. */
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        cover_mounted(root, "/dev/null", hidden[i]);
    descriptors_close(root);
}
