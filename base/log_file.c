#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

/* O_NONBLOCK is for a FIFO: neither opening nor writing may wait for its reader. */
enum {
    FLAGS = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
    MODE = 0600 /* of a file that is made */
};

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Elsewhere in /dev and /proc a link may lead anywhere, as /dev/shm/x and /proc/self/cwd/x do. */
static bool names_descriptor(const char *path)
{
    static const char directory[] = "/fd/";
    const char *last = strrchr(path, '/');

    if (strcmp(path, "/dev/stdin") == 0 || strcmp(path, "/dev/stdout") == 0 ||
        strcmp(path, "/dev/stderr") == 0)
        return true;
    if (strncmp(path, "/dev/fd/", 8) != 0 && strncmp(path, "/proc/", 6) != 0)
        return false;
    size_t n = (size_t)(last + 1 - path);
    return is_number(last + 1) && n >= sizeof directory - 1 &&
           strncmp(last + 1 - (sizeof directory - 1), directory, sizeof directory - 1) == 0;
}

/* The directory of that name in `parent`; -1 with errno, which for a link is ELOOP. */
static int enter(int parent, const char *name)
{
    struct stat st;
    int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR)
        errno = fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)
                    ? ELOOP
                    : ENOTDIR;
    return fd;
}

/* Component by component, for a kernel before 5.6 or a filter that knows no openat2. */
static int open_stepwise(const char *path)
{
    char text[PATH_MAX];
    size_t n = strlen(path);
    int directory = AT_FDCWD, fd = -1;

    errno = n == 0 ? ENOENT : ENAMETOOLONG;
    if (n == 0 || n >= sizeof text)
        return -1;
    memcpy(text, path, n + 1);
    char *name = text;
    for (char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        *slash = '\0';
        if (name == slash)
            continue;
        int next = enter(directory, name);
        int number = errno;
        if (directory != AT_FDCWD)
            close(directory);
        if (next < 0) {
            errno = number;
            return -1;
        }
        directory = next;
    }
    fd = openat(directory, *name != '\0' ? name : ".", FLAGS | O_NOFOLLOW, MODE);
    int number = errno;
    if (directory != AT_FDCWD)
        close(directory);
    errno = number;
    return fd;
}

static int open_without_links(const char *path)
{
    const struct open_how how = {.flags = FLAGS, .mode = MODE, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);

    /* EPERM is what older filters of containers say to a call they do not know. */
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? open_stepwise(path) : fd;
}

/* An absolute path goes by links that the system or its administrator has made (/var/run, a home
 * elsewhere); what a relative one passes is the place where commands work. */
static int open_guarded(const char *path)
{
    return path[0] == '/' ? open(path, FLAGS | O_NOFOLLOW, MODE) : open_without_links(path);
}

static bool takes_lines(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) ||
                                   S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode));
}

int log_file_open(const char *what, const char *path, bool may_be_planted, struct buf *error)
{
    bool guarded = may_be_planted && !names_descriptor(path);
    int fd = guarded ? open_guarded(path) : open(path, FLAGS, MODE);

    if (fd >= 0 && takes_lines(fd))
        return fd;
    if (fd >= 0) {
        close(fd);
        buf_printf(error, "%s %s: neither a file nor a FIFO nor a device", what, path);
    } else if (guarded && errno == ELOOP) {
        buf_printf(error,
                   "%s %s: is a symbolic link or passes through one, which a command may have put "
                   "there; name what it leads to",
                   what, path);
    } else {
        buf_printf(error, "%s %s: %s", what, path, strerror(errno));
    }
    return -1;
}
