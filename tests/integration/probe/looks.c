/* What the box looks like from inside: credentials, descriptors, files that open for writing. */
#include "tests/integration/probe/probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_MAX = 20, WALK_MAX = 400000 };

/* A field of /proc/self/status. */
static void print_status(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[512];
    size_t n = strlen(field);

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, n) == 0 && line[n] == ':') {
            line[strcspn(line, "\n")] = '\0';
            printf("%s", line + n + 1 + strspn(line + n + 1, "\t "));
            break;
        }
    }
    if (file != NULL)
        (void)fclose(file);
}

static void cap_inheritable(void)
{
    print_status("CapInh");
}
static void cap_permitted(void)
{
    print_status("CapPrm");
}
static void cap_effective(void)
{
    print_status("CapEff");
}
static void cap_bounding(void)
{
    print_status("CapBnd");
}
static void cap_ambient(void)
{
    print_status("CapAmb");
}
static void no_new_privileges(void)
{
    print_status("NoNewPrivs");
}
static void seccomp_mode(void)
{
    print_status("Seccomp");
}
static void securebits(void)
{
    printf("%#x", (unsigned)prctl(PR_GET_SECUREBITS));
}
static void persona(void)
{
    printf("%#x", (unsigned)personality(0xffffffff));
}

/* Every open descriptor but the three standard ones and that of the listing. */
static void descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned shown = 0;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char target[256] = "";
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || fd <= STDERR_FILENO || fd == dirfd(list))
            continue;
        (void)readlinkat(dirfd(list), entry->d_name, target, sizeof target - 1);
        printf("%s%d:%s", shown++ != 0 ? "," : "", fd, target);
    }
    printf(list == NULL ? "unreadable" : shown == 0 ? "none" : "");
}

/* The processes that are seen, and those of them whose memory opens, the probe's own left out. */
static void each_process(bool memory)
{
    DIR *list = opendir("/proc");
    struct dirent *entry;
    unsigned shown = 0;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[300];
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid() || pid == getppid())
            continue;
        (void)snprintf(path, sizeof path, "/proc/%ld/mem", pid);
        int fd = memory ? open(path, O_RDONLY) : 0;
        if (fd < 0)
            continue;
        printf("%s%ld", shown++ != 0 ? "," : "", pid);
        if (memory)
            close(fd);
    }
    printf(list == NULL ? "unreadable" : shown == 0 ? "none" : "");
}
static void processes(void)
{
    each_process(false);
}
static void memories(void)
{
    each_process(true);
}

struct walk {
    unsigned files, writable;
};

static void walk_file(struct walk *w, int directory, const char *name, const char *above)
{
    int fd = openat(directory, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);

    w->files++;
    if (fd < 0)
        return;
    if (w->writable++ < SHOWN_MAX)
        (void)fprintf(stderr, "writable: %s/%s\n", above, name);
    close(fd);
}

/* Counts the files below that open for writing; links are not followed, processes left out. */
static void walk_directory(struct walk *w, int parent, const char *name, const char *path,
                           bool processes_too)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (list != NULL && w->files < WALK_MAX && (entry = readdir(list)) != NULL) {
        char below[4096];
        struct stat st;
        const char *n = entry->d_name;
        if (strcmp(n, ".") == 0 || strcmp(n, "..") == 0 ||
            (!processes_too && isdigit((unsigned char)n[0])) ||
            fstatat(fd, n, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        (void)snprintf(below, sizeof below, "%s/%s", path, n);
        if (S_ISDIR(st.st_mode))
            walk_directory(w, fd, n, below, true);
        else if (!S_ISLNK(st.st_mode))
            walk_file(w, fd, n, path);
    }
    if (list != NULL)
        (void)closedir(list);
}

static void count_writable(const char *path, bool all)
{
    struct walk w = {0, 0};

    walk_directory(&w, AT_FDCWD, path, path, all);
    printf("%u", w.writable);
}
static void writable_sysctl(void)
{
    count_writable("/proc/sys", true);
}
static void writable_proc(void)
{
    count_writable("/proc", false);
}
static void writable_sys(void)
{
    count_writable("/sys", true);
}

static void print_open(const char *path, int flags)
{
    int fd = open(path, flags | O_NONBLOCK | O_NOCTTY);

    printf("%s", fd >= 0 ? "ok" : strerrorname_np(errno));
}
static void core_pattern(void)
{
    print_open("/proc/sys/kernel/core_pattern", O_WRONLY);
}
static void sysrq(void)
{
    print_open("/proc/sysrq-trigger", O_WRONLY);
}

/* A hidden file may open, and be empty. */
static void print_first(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);

    printf("%s", n > 0 ? "readable" : n == 0 ? "empty" : strerrorname_np(errno));
}
static void kcore(void)
{
    print_first("/proc/kcore");
}
static void keys(void)
{
    print_first("/proc/keys");
}
static void timer_list(void)
{
    print_first("/proc/timer_list");
}
static void kernel_messages(void)
{
    print_first("/dev/kmsg");
}
static void physical_memory(void)
{
    print_first("/dev/mem");
}

static void user_namespaces(void)
{
    FILE *file = fopen("/proc/sys/user/max_user_namespaces", "re");
    char line[32] = "unreadable";

    if (file != NULL) {
        (void)fgets(line, sizeof line, file);
        (void)fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    printf("%s", line);
}

static void shared_memory(void)
{
    struct shm_info info = {0};

    if (shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info) < 0)
        printf("%s", strerrorname_np(errno));
    else
        printf("%d", info.used_ids);
}

static void print_namespace(const char *kind)
{
    char path[64], target[64] = "unreadable";

    (void)snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : (ssize_t)strlen(target)] = '\0';
    printf("%s", target);
}
static void namespace_user(void)
{
    print_namespace("user");
}
static void namespace_mount(void)
{
    print_namespace("mnt");
}
static void namespace_pid(void)
{
    print_namespace("pid");
}
static void namespace_net(void)
{
    print_namespace("net");
}
static void namespace_ipc(void)
{
    print_namespace("ipc");
}
static void namespace_uts(void)
{
    print_namespace("uts");
}
static void namespace_cgroup(void)
{
    print_namespace("cgroup");
}

const struct look looks[] = {
    {"cap-inheritable", cap_inheritable},
    {"cap-permitted", cap_permitted},
    {"cap-effective", cap_effective},
    {"cap-bounding", cap_bounding},
    {"cap-ambient", cap_ambient},
    {"securebits", securebits},
    {"no-new-privs", no_new_privileges},
    {"seccomp", seccomp_mode},
    {"personality-now", persona},
    {"descriptors", descriptors},
    {"processes", processes},
    {"processes-memory", memories},
    {"proc-sys-writable", writable_sysctl},
    {"proc-writable", writable_proc},
    {"sys-writable", writable_sys},
    {"core-pattern", core_pattern},
    {"sysrq-trigger", sysrq},
    {"proc-kcore", kcore},
    {"proc-keys", keys},
    {"proc-timer-list", timer_list},
    {"dev-kmsg", kernel_messages},
    {"dev-mem", physical_memory},
    {"max-user-namespaces", user_namespaces},
    {"shared-memory", shared_memory},
    {"namespace-user", namespace_user},
    {"namespace-mount", namespace_mount},
    {"namespace-pid", namespace_pid},
    {"namespace-net", namespace_net},
    {"namespace-ipc", namespace_ipc},
    {"namespace-uts", namespace_uts},
    {"namespace-cgroup", namespace_cgroup},
};
const size_t look_count = sizeof looks / sizeof looks[0];
