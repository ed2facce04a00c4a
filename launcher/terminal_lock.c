#include "launcher/terminal_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PTS_MAJOR = 136 };

/* The node by this name, if it is the device. */
static int open_node(const char *name, dev_t device)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != device)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* A descriptor of /dev/tty leads to the terminal, but is no name of it. */
static bool device_of(int fd, dev_t *device)
{
    unsigned number = 0;

    if (ioctl(fd, TIOCGDEV, &number) != 0)
        return false;
    *device = makedev(number >> 8 & 0xFFF, (number & 0xFF) | (number >> 12 & 0xFFF00));
    return true;
}

static int open_device(dev_t device)
{
    char name[PATH_MAX], link[64];

    if (major(device) == PTS_MAJOR) {
        snprintf(name, sizeof name, "/dev/pts/%u", minor(device));
        return open_node(name, device);
    }
    snprintf(link, sizeof link, "/sys/dev/char/%u:%u", major(device), minor(device));
    ssize_t n = readlink(link, name, sizeof name - 1);
    if (n <= 0)
        return -1;
    name[n] = '\0';
    const char *slash = strrchr(name, '/');
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "/dev/%s", slash != NULL ? slash + 1 : name);
    return open_node(path, device);
}

/* A descriptor that was inherited shares a flock() with everybody who inherited it, so this takes a
 * record lock, which is the process's. False: another process has it. */
static bool lock_inherited(dev_t device)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        struct stat st;
        if (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode) || st.st_rdev != device)
            continue;
        if (fcntl(fd, F_SETLK, &whole) == 0)
            return true;
        if (errno == EAGAIN || errno == EACCES)
            return false;
    }
    return true;
}

bool terminal_lock(int fd, int *lock)
{
    dev_t device;

    *lock = -1;
    if (!device_of(fd, &device))
        return true;
    *lock = open_device(device);
    if (*lock < 0)
        return lock_inherited(device);
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return true;
    bool taken = errno == EWOULDBLOCK;
    close(*lock);
    *lock = -1;
    return !taken;
}
