#include "launcher/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

enum { PROC_TEXT_MAX = 16384 };

/* The start of a small file of /proc as text; empty where it cannot be read. */
static void read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    while (fd >= 0 && n < size - 1) {
        ssize_t got = read(fd, out + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = 0;
    if (fd >= 0)
        close(fd);
}

static long read_switch(const char *path)
{
    char text[32], *end;
    read_text(path, text, sizeof text);
    errno = 0;
    long n = strtol(text, &end, 10);
    return errno != 0 || end == text || n < 0 ? -1 : n;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != 0;
}

void machine_look(struct machine *m)
{
    *m = (struct machine){
        .apparmor_restricts = read_switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        .user_namespaces = read_switch("/proc/sys/kernel/unprivileged_userns_clone"),
        .namespaces_max = read_switch("/proc/sys/user/max_user_namespaces"),
        .container = access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
                     is_set("KUBERNETES_SERVICE_HOST"),
        .nested = is_set("SANDBOX_RUNTIME"),
        .root = geteuid() == 0,
    };
}

bool machine_is_wsl1(const char *version)
{
    for (const char *at = strstr(version, "WSL"); at != NULL; at = strstr(at + 1, "WSL"))
        if (at[3] >= '0' && at[3] <= '9')
            return at[3] == '1' && !(at[4] >= '0' && at[4] <= '9');
    return strstr(version, "Microsoft") != NULL;
}

bool machine_runs_wsl1(void)
{
    char text[1024];
    read_text("/proc/version", text, sizeof text);
    return machine_is_wsl1(text);
}

/* A set of /proc/self/status: "\nCapBnd:\t000001ffffffffff". False when the line is not there. */
static bool read_set(const char *status, const char *line, uint64_t *set)
{
    const char *at = strstr(status, line);
    char *end;
    if (at == NULL)
        return false;
    errno = 0;
    *set = strtoull(at + strlen(line), &end, 16);
    return errno == 0 && end != at + strlen(line);
}

bool machine_text_lacks_setfcap(const char *status)
{
    uint64_t bounding, inheritable;
    return read_set(status, "\nCapBnd:", &bounding) &&
           read_set(status, "\nCapInh:", &inheritable) &&
           ((bounding | inheritable) & (UINT64_C(1) << CAP_SETFCAP)) == 0;
}

bool machine_lacks_setfcap(void)
{
    char text[PROC_TEXT_MAX];
    read_text("/proc/self/status", text, sizeof text);
    return machine_text_lacks_setfcap(text);
}

/*
 * Each call is made wrong on purpose. The kernel says EINVAL before it asks for a privilege;
 * ENOSYS comes from an old one, and EPERM from the filter of a container. move_mount asks for the
 * privilege first, so that it cannot be tried here; it is older than mount_setattr.
 */
bool machine_has_mount_calls(void)
{
    bool attributes = syscall(SYS_mount_setattr, -1, "", 0u, NULL, (size_t)0) == 0 ||
                      (errno != ENOSYS && errno != EPERM);
    bool trees = syscall(SYS_open_tree, -1, "", ~0u) >= 0 || (errno != ENOSYS && errno != EPERM);
    return attributes && trees;
}
