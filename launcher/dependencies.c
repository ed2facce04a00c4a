#include "launcher/dependencies.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/executable.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "launcher/explain.h"
#include "launcher/machine.h"
#include "launcher/writable.h"
#include "seccomp/filters.h"

enum {
    PROBE_MS = 5000,
    PROBE_TICK_MS = 10,
    PROBE_TEXT_MAX = 4096, /* of bubblewrap's stderr */
    SHOWN_UNITS = 200,
    PASSED_MAX = 16384 /* names of programs that are not used */
};

static void list_add(struct buf *list, const char *text)
{
    if (buf_len(list) != 0)
        buf_puts(list, ", ");
    buf_puts(list, text);
}

/* The first on PATH that no command can have put there, since the box must not be built by a bwrap
 * that a checkout brought along; what the others were is said. */
static char *search_bwrap(const struct sandbox_settings *s, struct buf *problems)
{
    const char *path = getenv("PATH");
    struct buf passed;
    char *found;

    buf_init(&passed, PASSED_MAX);
    while ((found = executable_next(&path, "bwrap")) != NULL && writable_by_command(s, found)) {
        list_add(&passed, found);
        free(found);
    }
    if (found == NULL && buf_len(&passed) == 0) {
        list_add(problems, "bubblewrap (bwrap) not installed");
    } else if (found == NULL) {
        list_add(problems, "bubblewrap (bwrap) only where the command may write (");
        text_clean(problems, buf_chars(&passed), buf_len(&passed));
        buf_puts(problems, "): name it by bwrapPath if it is to be trusted");
    } else if (buf_len(&passed) != 0) {
        log_warning("%s is used, not %s, where the command may write: bwrapPath names one to be "
                    "trusted",
                    found, buf_cstr(&passed));
    }
    buf_free(&passed);
    return found;
}

static char *locate_bwrap(const struct sandbox_settings *s, struct buf *problems)
{
    char *found = NULL;
    if (s->bwrap_path == NULL) {
        found = search_bwrap(s, problems);
    } else if (executable_is(s->bwrap_path)) {
        found = mem_dup(s->bwrap_path);
    } else {
        list_add(problems, "bubblewrap (bwrap) not executable at ");
        text_clean(problems, s->bwrap_path, strlen(s->bwrap_path));
    }
    return found;
}

/* A set-user-id program of our own user's is no different from any other. */
static bool is_setuid(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_ISUID) != 0 && st.st_uid != getuid();
}

/* Starts `bwrap --unshare-user --dev-bind / / true`, its stderr to `write_end`. */
static bool start_probe(const char *bwrap, int write_end, pid_t *child)
{
    char *const argv[] = {mem_dup(bwrap),
                          mem_dup("--unshare-user"),
                          mem_dup("--dev-bind"),
                          mem_dup("/"),
                          mem_dup("/"),
                          mem_dup("true"),
                          NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, ordinary;
    sigemptyset(&none);
    sigemptyset(&ordinary);
    sigaddset(&ordinary, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, write_end, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ordinary);
    int failed = posix_spawn(child, bwrap, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; argv[i] != NULL; i++)
        free(argv[i]);
    return failed == 0;
}

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000LL * t.tv_sec + t.tv_nsec / 1000000;
}

/* What is there to read, as far as it is wanted; false at the end. */
static bool drain(int fd, struct buf *out)
{
    char piece[512];
    ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    size_t room = buf_room(out);
    buf_append(out, piece, (size_t)n < room ? (size_t)n : room);
    return n != 0;
}

/* Waits for the child, PROBE_MS at most, and kills what it left. True when it ended well. */
static bool await_probe(pid_t child, int fd, struct buf *text)
{
    long long deadline = now_ms() + PROBE_MS;
    int status = 0;
    bool open = true, ended = false;
    while (!ended && now_ms() < deadline) {
        struct pollfd p = {.fd = open ? fd : -1, .events = POLLIN};
        if (poll(&p, 1, PROBE_TICK_MS) > 0)
            open = drain(fd, text);
        ended = waitpid(child, &status, WNOHANG) == child;
    }
    kill(-child, SIGKILL);
    if (!ended)
        waitpid(child, &status, 0);
    /* What it wrote last. */
    struct pollfd rest = {.fd = fd, .events = POLLIN};
    while (open && ended && poll(&rest, 1, 0) > 0)
        open = drain(fd, text);
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether bubblewrap can make a user namespace as uid 0; its first line otherwise. */
static bool probe(const char *bwrap, struct buf *line)
{
    struct buf text;
    int ends[2];
    pid_t child;
    bool good = false;
    buf_init(&text, PROBE_TEXT_MAX);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool started = start_probe(bwrap, ends[1], &child);
    close(ends[1]);
    if (started)
        good = await_probe(child, ends[0], &text);
    close(ends[0]);
    const char *shown = buf_cstr(&text);
    size_t n = strcspn(shown, "\n");
    text_clean(line, shown, text_cut(shown, n, SHOWN_UNITS));
    buf_free(&text);
    return good;
}

static void check_setfcap(const char *bwrap, struct buf *problems)
{
    struct buf line;
    if (geteuid() != 0 || bwrap == NULL || !machine_lacks_setfcap())
        return;
    buf_init(&line, 3 * PROBE_TEXT_MAX);
    if (!probe(bwrap, &line)) {
        list_add(problems,
                 "running as uid 0 without CAP_SETFCAP in this process's capability bounding set - "
                 "Linux 5.12 and later want it for a user namespace that maps uid 0; give it (in a "
                 "container: --cap-add SETFCAP) or run as another user");
        if (buf_len(&line) != 0)
            buf_printf(problems, " (bubblewrap: %s)", buf_cstr(&line));
    }
    buf_free(&line);
}

bool dependencies_check(const struct sandbox_settings *s, struct dependencies *out,
                        struct buf *error)
{
    enum { PROBLEMS_MAX = 65536 };
    struct buf problems;
    *out = (struct dependencies){0};
    buf_init(&problems, PROBLEMS_MAX);
    if (machine_runs_wsl1())
        list_add(&problems, "Unsupported platform");
    out->bwrap = locate_bwrap(s, &problems);
    check_setfcap(out->bwrap, &problems);
    bool good = buf_len(&problems) == 0;
    if (good) {
        out->bwrap_setuid = is_setuid(out->bwrap);
        out->mount_calls = machine_has_mount_calls();
        out->filters = filters_supported();
        if (!out->filters)
            log_debug("seccomp not available - unix socket access not restricted");
    } else {
        buf_printf(error, "Sandbox dependencies not available: %s", buf_cstr(&problems));
        dependencies_free(out);
    }
    buf_free(&problems);
    return good;
}

void dependencies_free(struct dependencies *d)
{
    MEM_FREE(d->bwrap);
}

void dependencies_explain(const char *text, size_t n, bool weaker_nested, struct buf *out)
{
    struct machine m;
    machine_look(&m);
    explain_bwrap(text, n, weaker_nested, &m, out);
}
