#include "launcher/locate.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/path.h"

/* The running executable; NULL where /proc does not say. The caller frees. */
static char *executable(void)
{
    return realpath("/proc/self/exe", NULL);
}

/* The path of `name` beside the executable; NULL when that is not known. */
static char *beside(const char *name)
{
    char *self = executable();
    if (self == NULL)
        return NULL;
    char *directory = path_parent(self);
    char *path = path_join(directory, name);
    free(directory);
    free(self);
    return path;
}

int locate_inside(struct buf *error)
{
    char *near = beside("srt-inside");
    int fd = near != NULL ? open(near, O_PATH | O_CLOEXEC) : -1;
    if (fd < 0)
        fd = open(SRT_LIBEXECDIR "/srt-inside", O_PATH | O_CLOEXEC);
    if (fd < 0)
        buf_printf(
            error,
            "srt-inside is neither beside srt (%s) nor at %s: the installation is incomplete",
            near != NULL ? near : "unknown", SRT_LIBEXECDIR "/srt-inside");
    free(near);
    return fd;
}

char *locate_java_agent(const char *given)
{
    if (given != NULL && access(given, R_OK) == 0)
        return mem_dup(given);
    char *path = beside("srt-proxy-agent.jar");
    if (path != NULL && access(path, R_OK) == 0)
        return path;
    free(path);
    return access(SRT_DATADIR "/srt-proxy-agent.jar", R_OK) == 0
               ? mem_dup(SRT_DATADIR "/srt-proxy-agent.jar")
               : NULL;
}

static int library_hidden(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const struct mounts *mounts = ctx;
    (void)size;
    /* The executable itself and the kernel's own object have no path. */
    if (info->dlpi_name == NULL || info->dlpi_name[0] != '/')
        return 0;
    char *real = path_canonical(info->dlpi_name);
    bool visible = mounts_visible(mounts, real);
    free(real);
    return !visible;
}

char *locate_connector(const struct mounts *mounts)
{
    char *self = executable();
    if (self != NULL && mounts_visible(mounts, self) &&
        dl_iterate_phdr(library_hidden, (void *)mounts) == 0)
        return self;
    free(self);
    return NULL;
}
