/* Where a user's records are: the same place for all runs of a user, whatever their environment. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/standins.h"

/* A real directory of the caller's that is closed to everybody else. 0 or the errno. */
static int check_private(const char *path)
{
    struct stat st;
    int number = 0;
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) != 0)
        number = errno;
    else if (st.st_uid != geteuid() || (st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        number = EPERM;
    else if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) != 0)
        number = errno;
    close(fd);
    return number;
}

/* Ours now, or the errno of what is in the way. */
static int make_private(const char *path)
{
    mode_t before = umask(S_IRWXG | S_IRWXO);
    int number = mkdir(path, S_IRWXU) != 0 ? errno : 0;
    (void)umask(before);
    return number == 0 || number == EEXIST ? check_private(path) : number;
}

/* The runtime directory of a login, which others than its owner cannot have made. */
static int in_runtime_directory(struct buf *path)
{
    buf_printf(path, "/run/user/%u", (unsigned)geteuid());
    int number = check_private(buf_cstr(path));
    buf_puts(path, "/srt");
    return number != 0 ? number : make_private(buf_cstr(path));
}

static int in_tmp(struct buf *path)
{
    buf_printf(path, "/tmp/.srt-%u", (unsigned)geteuid());
    return make_private(buf_cstr(path));
}

static int in_home(struct buf *path)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user == NULL || user->pw_dir == NULL || user->pw_dir[0] != '/') {
        buf_puts(path, "~/.cache/srt");
        return ENOENT;
    }
    buf_printf(path, "%s/.cache", user->pw_dir);
    if (mkdir(buf_cstr(path), S_IRWXU) != 0 && errno != EEXIST)
        return errno;
    buf_puts(path, "/srt");
    return make_private(buf_cstr(path));
}

char *standins_directory(struct buf *error)
{
    static int (*const candidates[])(struct buf *) = {in_runtime_directory, in_tmp, in_home};
    enum { COUNT = sizeof candidates / sizeof candidates[0] };
    char *result = NULL;
    struct buf path, tried;

    buf_init(&path, PATH_MAX);
    buf_init(&tried, (COUNT + 1) * PATH_MAX);
    for (size_t i = 0; i < COUNT && result == NULL; i++) {
        buf_clear(&path);
        int number = candidates[i](&path);
        if (number == 0)
            result = mem_dup(buf_cstr(&path));
        else
            buf_printf(&tried, "%s%s (%s)", buf_len(&tried) != 0 ? ", " : "", buf_cstr(&path),
                       strerror(number));
    }
    if (result == NULL)
        buf_printf(error, "no private directory can be had: %s", buf_cstr(&tried));
    buf_free(&path);
    buf_free(&tried);
    return result;
}
