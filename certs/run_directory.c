#include "certs/run_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

enum { PATH_ROOM = 4096 };

static const char prefix[] = "srt-ca-";
/* Made when the lock is held: other programs' directories of such names have none. */
static const char mark[] = ".srt";

const char *const run_directory_names[] = {"ca.crt", "trust-bundle.crt", "trust-store.p12", NULL};

/* The temp directory without a slash at its end, made absolute: a command may go elsewhere. The
 * caller frees it. */
static char *temporary_directory(void)
{
    static const char *const names[] = {"TMPDIR", "TMP", "TEMP"};
    const char *value = "/tmp";

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *set = secure_getenv(names[i]);
        if (set != NULL && set[0] != '\0') {
            value = set;
            break;
        }
    }
    char *absolute = value[0] != '/' ? realpath(value, NULL) : NULL;
    char *path = mem_dup(absolute != NULL ? absolute : value);
    free(absolute);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    return path;
}

/* A file system without locks on directories gets no mark: what is left there stays. */
static void lock(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return;
    int file = openat(fd, mark, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
}

bool run_directory_make(struct run_directory *d, struct buf *error)
{
    char *temporary = temporary_directory();
    struct buf name;
    bool ok = false;

    *d = (struct run_directory){.fd = -1};
    buf_init(&name, PATH_ROOM);
    buf_printf(&name, "%s/%sXXXXXX", strcmp(temporary, "/") == 0 ? "" : temporary, prefix);
    char *made = mem_dup(buf_cstr(&name));
    if (mkdtemp(made) == NULL) {
        buf_printf(error, "tlsTerminate: no directory can be made in %s: %s", temporary,
                   strerror(errno));
        free(made);
        goto out;
    }
    d->path = made;
    d->fd = open(made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Said again, because the umask has had its say. */
    ok = d->fd >= 0 && fchmod(d->fd, 0700) == 0;
    if (ok)
        lock(d->fd);
    else
        buf_printf(error, "tlsTerminate: %s cannot be used: %s", made, strerror(errno));
out:
    free(temporary);
    buf_free(&name);
    return ok;
}

static bool write_at(int directory, const char *name, const struct buf *content)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

    bool ok =
        fd >= 0 && fchmod(fd, 0644) == 0 && fd_write_all(fd, buf_data(content), buf_len(content));
    int number = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        number = errno;
        ok = false;
    }
    errno = number;
    return ok;
}

static void remember(struct run_directory *d, const char *name)
{
    for (size_t i = 0; i < RUN_FILES_MAX; i++) {
        if (d->files[i] == NULL) {
            d->files[i] = name;
            return;
        }
    }
    abort();
}

char *run_directory_write(struct run_directory *d, const char *name, const struct buf *content,
                          struct buf *error)
{
    struct buf path;
    char *written = NULL;

    buf_init(&path, PATH_ROOM);
    buf_printf(&path, "%s/%s", d->path, name);
    remember(d, name);
    if (write_at(d->fd, name, content))
        written = mem_dup(buf_cstr(&path));
    else
        buf_printf(error, "tlsTerminate: %s cannot be written: %s", buf_cstr(&path),
                   strerror(errno));
    buf_free(&path);
    return written;
}

static void remove_file(int fd, const char *name)
{
    if (unlinkat(fd, name, 0) != 0 && errno != ENOENT)
        log_debug("%s cannot be removed: %s", name, strerror(errno));
}

/* By the descriptor: a command that may write to the temp directory can put another in its
 * place. */
void run_directory_remove(struct run_directory *d)
{
    if (d->path == NULL)
        return;
    if (d->fd >= 0) {
        for (size_t i = 0; i < RUN_FILES_MAX && d->files[i] != NULL; i++)
            remove_file(d->fd, d->files[i]);
        remove_file(d->fd, mark);
    }
    if (rmdir(d->path) != 0 && errno != ENOENT)
        log_debug("%s cannot be removed: %s", d->path, strerror(errno));
    if (d->fd >= 0)
        close(d->fd);
    MEM_FREE(d->path);
}

/* --- what killed runs left ------------------------------------------------------------------ */

static bool is_stale(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700 &&
           fstatat(fd, mark, &st, AT_SYMLINK_NOFOLLOW) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static void clear(int temporary, const char *name)
{
    int fd = openat(temporary, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return;
    if (is_stale(fd)) {
        for (size_t i = 0; run_directory_names[i] != NULL; i++)
            remove_file(fd, run_directory_names[i]);
        remove_file(fd, mark);
        if (unlinkat(temporary, name, AT_REMOVEDIR) != 0)
            log_debug("%s cannot be removed: %s", name, strerror(errno));
    }
    close(fd);
}

void run_directory_clear_stale(void)
{
    char *path = temporary_directory();
    DIR *temporary = opendir(path);
    const struct dirent *entry;

    free(path);
    if (temporary == NULL)
        return;
    while ((entry = readdir(temporary)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            clear(dirfd(temporary), entry->d_name);
    closedir(temporary);
}
