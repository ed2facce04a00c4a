#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ev.h>

#include "seccomp/notify.h"
#include "tests/unit/observed_child.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

enum { HEARD_MAX = 64 };

static struct {
    char syscall[24];
    char path[8200];
    pid_t pid;
    int nr;
} heard[HEARD_MAX];
static size_t heard_count;
static char directory[] = "/tmp/test_notify.XXXXXX";

static void hear(void *ctx, int nr, const char *name, pid_t pid, const char *path)
{
    assert_ptr_equal(ctx, &heard_count);
    assert_true(heard_count < HEARD_MAX);
    (void)snprintf(heard[heard_count].syscall, sizeof heard[0].syscall, "%s", name);
    (void)snprintf(heard[heard_count].path, sizeof heard[0].path, "%s", path);
    heard[heard_count].pid = pid;
    heard[heard_count++].nr = nr;
}

/* Runs the work to its end; the loop has nothing else to wait for than the listener. */
static int observe(observed_work_fn *work)
{
    struct observed_child child = observed_child_start(directory, work);
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct notify *n = notify_new(loop, child.listener, hear, &heard_count);

    heard_count = 0;
    observed_child_go(&child);
    ev_run(loop, 0);
    int status = observed_child_end(&child);
    for (size_t i = 0; i < heard_count; i++)
        assert_int_equal(heard[i].pid, child.pid);
    notify_poll(n);
    notify_free(n);
    ev_loop_destroy(loop);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Names without a slash in front lie in the directory. */
static void assert_heard(const char *const (*want)[2], size_t count)
{
    for (size_t i = 0; i < count && i < heard_count; i++) {
        char path[8200];
        bool absolute = want[i][1][0] == '/';
        (void)snprintf(path, sizeof path, "%s%s%s", absolute ? "" : directory, absolute ? "" : "/",
                       want[i][1]);
        assert_string_equal(heard[i].syscall, want[i][0]);
        assert_string_equal(heard[i].path, path);
    }
    assert_int_equal(heard_count, count);
}

/* Not through the C library, which has its own idea of the call to make. */
static void calls_of_all_shapes(void)
{
    struct open_how reading = {.flags = O_RDONLY}, writing = {.flags = O_WRONLY | O_CREAT};
    int top = open("/", O_RDONLY | O_DIRECTORY);
    bool ok = true;

    writing.mode = 0600;
    ok = ok && syscall(SYS_openat, AT_FDCWD, "a", O_WRONLY | O_CREAT, 0600) >= 0;
    ok = ok && syscall(SYS_openat, AT_FDCWD, "a", O_RDONLY) >= 0;
    ok = ok && syscall(SYS_openat, top, "nosuch/x", O_RDWR) < 0 && errno == ENOENT;
    ok = ok && syscall(SYS_openat, top, "/nosuch/../y", O_RDWR) < 0;
    ok = ok && syscall(SYS_openat2, AT_FDCWD, "a", &reading, sizeof reading) >= 0;
    ok = ok && syscall(SYS_openat2, AT_FDCWD, "./b", &writing, sizeof writing) >= 0;
    ok = ok && syscall(SYS_mkdirat, AT_FDCWD, "d", 0700) == 0;
    ok = ok && syscall(SYS_symlinkat, "/etc/target", AT_FDCWD, "link") == 0;
    ok = ok && syscall(SYS_renameat2, AT_FDCWD, "a", AT_FDCWD, "d/../c", 0) == 0;
    ok = ok && syscall(SYS_linkat, AT_FDCWD, "c", AT_FDCWD, "e", 0) == 0;
    ok = ok && syscall(SYS_truncate, "c", 10) == 0;
    ok = ok && syscall(SYS_unlinkat, AT_FDCWD, "c", 0) == 0 && access("c", F_OK) != 0;
    _exit(ok ? 0 : 1);
}

static void paths_are_told_and_calls_go_on(void **state)
{
    static const char *const want[][2] = {
        {"openat", "a"},    {"openat", "//nosuch/x"}, {"openat", "/nosuch/../y"},
        {"openat2", "./b"}, {"mkdirat", "d"},         {"symlinkat", "link"},
        {"renameat2", "a"}, {"renameat2", "d/../c"},  {"linkat", "c"},
        {"linkat", "e"},    {"truncate", "c"},        {"unlinkat", "c"},
    };
    (void)state;
    assert_int_equal(observe(calls_of_all_shapes), 0);
    assert_heard(want, COUNT(want));
    assert_int_equal(heard[0].nr, SYS_openat);
}

#ifdef SYS_open
static void old_calls(void)
{
    bool ok = syscall(SYS_open, "/nosuch/o", O_APPEND) < 0;
    ok = ok && syscall(SYS_open, "/", O_RDONLY) >= 0;
    ok = ok && syscall(SYS_creat, "/nosuch/c", 0600) < 0;
    ok = ok && syscall(SYS_unlink, "/nosuch/u") < 0;
    ok = ok && syscall(SYS_rename, "/nosuch/r", "/nosuch/s") < 0;
    ok = ok && syscall(SYS_link, "/nosuch/l", "/nosuch/m") < 0;
    ok = ok && syscall(SYS_symlink, "/target", "/nosuch/y") < 0;
    ok = ok && syscall(SYS_chmod, "/nosuch/h", 0) < 0;
    ok = ok && syscall(SYS_utimes, "/nosuch/t", NULL) < 0;
    _exit(ok ? 0 : 1);
}

static void old_calls_are_told(void **state)
{
    static const char *const want[][2] = {
        {"open", "/nosuch/o"},   {"creat", "/nosuch/c"},   {"unlink", "/nosuch/u"},
        {"rename", "/nosuch/r"}, {"rename", "/nosuch/s"},  {"link", "/nosuch/l"},
        {"link", "/nosuch/m"},   {"symlink", "/nosuch/y"}, {"chmod", "/nosuch/h"},
        {"utimes", "/nosuch/t"},
    };
    (void)state;
    assert_int_equal(observe(old_calls), 0);
    assert_heard(want, COUNT(want));
}
#endif

/* Two pages, the second of which is not there; `n` bytes end at its edge. */
static char *at_the_edge(const char *text, size_t n)
{
    long page = sysconf(_SC_PAGESIZE);
    char *two =
        mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(two + page, (size_t)page);
    memcpy(two + page - n, text, n);
    return two + page - n;
}

static void odd_names(void)
{
    static char crossing[3 * 4096], longest[4096], endless[8192];
    size_t offset = 4096 - (uintptr_t)crossing % 4096 + 4096 - 4;
    int pair[2];

    memcpy(crossing + offset, "/nosuch/crossing", 17);
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    memset(endless, 'y', sizeof endless);
    endless[0] = '/';
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);

    syscall(SYS_unlinkat, AT_FDCWD, crossing + offset, 0);
    syscall(SYS_unlinkat, AT_FDCWD, at_the_edge("/nosuch/edge", 13), 0);
    syscall(SYS_unlinkat, AT_FDCWD, longest, 0);
    /* None of these names anything. */
    syscall(SYS_unlinkat, AT_FDCWD, at_the_edge("/nosuch/unterminated", 20), 0);
    syscall(SYS_unlinkat, AT_FDCWD, endless, 0);
    syscall(SYS_unlinkat, AT_FDCWD, "", 0);
    syscall(SYS_unlinkat, AT_FDCWD, (char *)16, 0);
    syscall(SYS_unlinkat, 99, "relative", 0);
    syscall(SYS_unlinkat, pair[0], "relative", 0);
    syscall(SYS_utimensat, pair[0], NULL, NULL, 0);
    /* The other path is still told. */
    syscall(SYS_linkat, pair[0], "", AT_FDCWD, "/nosuch/new", AT_EMPTY_PATH);
    /* The register holds more than the int. */
    syscall(SYS_unlinkat, 0x5500000000L | (uint32_t)AT_FDCWD, "high", 0);
    _exit(0);
}

static void odd_names_do_no_harm(void **state)
{
    (void)state;
    assert_int_equal(observe(odd_names), 0);
    assert_int_equal(heard_count, 5);
    assert_string_equal(heard[0].path, "/nosuch/crossing");
    assert_string_equal(heard[1].path, "/nosuch/edge");
    assert_int_equal(strlen(heard[2].path), 4095);
    assert_string_equal(heard[3].path, "/nosuch/new");
    assert_string_equal(heard[4].path + strlen(directory), "/high");
}

static void wait_for(int fd)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&readable, 1, 5000), 1);
}

static void one_call(void)
{
    _exit(syscall(SYS_unlinkat, AT_FDCWD, "one", 0) < 0 && errno == ENOENT ? 0 : 1);
}

static void a_caller_killed_meanwhile_is_forgotten(void **state)
{
    struct observed_child child = observed_child_start(directory, one_call);
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

    (void)state;
    heard_count = 0;
    observed_child_go(&child);
    wait_for(child.listener);
    struct notify *n = notify_new(loop, child.listener, hear, &heard_count);
    kill(child.pid, SIGKILL);
    assert_true(WIFSIGNALED(observed_child_end(&child)));
    ev_run(loop, 0);
    assert_int_equal(heard_count, 0);
    notify_free(n);
    ev_loop_destroy(loop);
}

static void polling_answers_what_waits(void **state)
{
    struct observed_child child = observed_child_start(directory, one_call);
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct notify *n = notify_new(loop, child.listener, hear, &heard_count);

    (void)state;
    heard_count = 0;
    notify_poll(n); /* nothing is there, and it does not wait for it */
    assert_int_equal(heard_count, 0);
    observed_child_go(&child);
    wait_for(child.listener);
    notify_poll(n);
    assert_int_equal(heard_count, 1);
    assert_int_equal(observed_child_end(&child), 0);
    notify_free(n);
    ev_loop_destroy(loop);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    static const char *const left[] = {"b", "e", "link"};
    (void)state;
    for (size_t i = 0; i < COUNT(left); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s/%s", directory, left[i]);
        unlink(path);
    }
    char path[64];
    (void)snprintf(path, sizeof path, "%s/d", directory);
    rmdir(path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_told_and_calls_go_on),
#ifdef SYS_open
        cmocka_unit_test(old_calls_are_told),
#endif
        cmocka_unit_test(odd_names_do_no_harm),
        cmocka_unit_test(a_caller_killed_meanwhile_is_forgotten),
        cmocka_unit_test(polling_answers_what_waits),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
