/*
 * Where a user's records are: the same place for all runs of a user, whatever their environment.
 * Every box hides it, and may write any other place that its settings open. So there is one place,
 * which is there before any box is: what a box wrote elsewhere is read by nobody. Only where others
 * have taken its name there is a second one.
 */
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

/* A real directory of the caller's, closed to everybody else; its mode is put right. 0 or the
 * errno. */
static int check_private(const char *path)
{
    struct stat st;
    int number = 0;
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) != 0)
        number = errno;
    else if (st.st_uid != geteuid())
        number = EPERM;
    /* Nobody else can put something in its place: /tmp is sticky, a home its owner's. */
    else if ((st.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) != S_IRWXU && chmod(path, S_IRWXU) != 0)
        number = errno;
    else if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) != 0)
        number = errno;
    close(fd);
    return number;
}

/* Ours now, or the errno of what is in the way; *taken: something is. */
static int make_private(const char *path, bool *taken)
{
    mode_t before = umask(S_IRWXG | S_IRWXO);
    int number = mkdir(path, S_IRWXU) != 0 ? errno : 0;
    (void)umask(before);
    *taken = number == EEXIST;
    return number == 0 || number == EEXIST ? check_private(path) : number;
}

static int in_home(struct buf *path)
{
    bool taken;
    const struct passwd *user = getpwuid(geteuid());
    if (user == NULL || user->pw_dir == NULL || user->pw_dir[0] != '/') {
        buf_puts(path, "~/.cache/srt");
        return ENOENT;
    }
    buf_printf(path, "%s/.cache", user->pw_dir);
    if (mkdir(buf_cstr(path), S_IRWXU) != 0 && errno != EEXIST)
        return errno;
    buf_puts(path, "/srt");
    return make_private(buf_cstr(path), &taken);
}

static void add_tried(struct buf *tried, struct buf *path, int number)
{
    buf_printf(tried, "%s%s (%s)", buf_len(tried) != 0 ? ", " : "", buf_cstr(path),
               strerror(number));
}

char *standins_directory(struct buf *error)
{
    struct buf path, tried;
    bool taken;

    buf_init(&path, PATH_MAX);
    buf_init(&tried, 3 * PATH_MAX);
    buf_printf(&path, "/tmp/.srt-%u", (unsigned)geteuid());
    int number = make_private(buf_cstr(&path), &taken);
    if (number != 0) {
        add_tried(&tried, &path, number);
        if (taken) {
            buf_clear(&path);
            number = in_home(&path);
            if (number != 0)
                add_tried(&tried, &path, number);
        }
    }
    char *result = number == 0 ? mem_dup(buf_cstr(&path)) : NULL;
    if (result == NULL)
        buf_printf(error, "no private directory can be had: %s", buf_cstr(&tried));
    buf_free(&path);
    buf_free(&tried);
    return result;
}
