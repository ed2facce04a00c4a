/* Stand-ins of runs that were killed, and of many runs at once. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/standins.h"
#include "launcher/standins_record.h"
#include "tests/unit/standins_fixture.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A file named as a run's is, with these bytes. */
static char *make_run(const struct scene *scene, const char *name, const char *content)
{
    char *path = scene_path(scene->records, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
    return path;
}

/* What is not a run's file in the directory stays; malformed ones of the dead go, and those of the
 * living count for nothing. */
static void test_strange_records(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *name, *content;
        bool stays;
    } files[] = {
        {"run-0000000000000000", "", false},
        {"run-0000000000000001", "srt-", false},
        {"run-0000000000000002", "srt-run1", false},
        {"run-0000000000000003", "srt-run1 and then something else", false},
        {"run-0000000000000004",
         "srt-run1................................................................................",
         false},
        {"run-000000000000000", "", true},
        {"run-00000000000000000", "", true},
        {"run-000000000000000A", "", true},
        {"notes", "", true},
    };
    char *paths[COUNT(files)];
    for (size_t i = 0; i < COUNT(files); i++)
        paths[i] = make_run(scene, files[i].name, files[i].content);
    int alive = open(paths[4], O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(alive, LOCK_EX | LOCK_NB), 0);
    standins_close(standins_open(scene->records));
    for (size_t i = 0; i < COUNT(files); i++)
        assert_int_equal(type_of(paths[i]), files[i].stays || i == 4 ? S_IFREG : 0);
    close(alive);
    standins_close(standins_open(scene->records));
    assert_int_equal(type_of(paths[4]), 0);
    for (size_t i = 0; i < COUNT(files); i++)
        free(paths[i]);
}

/* The file of a run that was killed. */
static void leave_run(const struct scene *scene, const struct standin_list *l, off_t cut)
{
    char *path = make_run(scene, "run-0123456789abcdef", "");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    assert_int_equal(standin_record_write(fd, l), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(ftruncate(fd, st.st_size - cut), 0);
    close(fd);
    free(path);
}

/* Killed after it had announced a node and before it could say which one it is. */
static void test_announced_only(void **state)
{
    struct scene *scene = *state;
    const time_t now = time(NULL);
    static const struct {
        mode_t type;
        enum node_kind kind;
        int age;
        const char *content;
        bool stays;
    } rows[] = {
        {S_IFSOCK, NODE_SOCKET, 0, NULL, false},     {S_IFREG, NODE_FILE, 0, NULL, false},
        {S_IFDIR, NODE_DIRECTORY, 0, NULL, false},   {S_IFREG, NODE_FILE, 0, "mine", true},
        {S_IFREG, NODE_SOCKET, 0, NULL, true},       {S_IFSOCK, NODE_OTHER, 0, NULL, true},
        {S_IFSOCK, NODE_SOCKET, 60, NULL, true},     {S_IFSOCK, NODE_SOCKET, -60, NULL, true},
        {S_IFDIR, NODE_DIRECTORY, 3600, NULL, true}, {0, NODE_SOCKET, 0, NULL, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct standin_list l = {0};
        char *path = scene_path(scene->project, "name\n\xff");
        const struct standin_entry e = {
            .kind = rows[i].kind, .begun = now - rows[i].age, .path = path};
        standin_list_add(&l, &e);
        leave_run(scene, &l, 0);
        if (rows[i].type == S_IFDIR)
            assert_int_equal(mkdir(path, 0755), 0);
        else if (rows[i].type != 0)
            assert_int_equal(mknod(path, rows[i].type | 0644, 0), 0);
        if (rows[i].content != NULL) {
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            assert_true(write(fd, rows[i].content, 1) == 1);
            close(fd);
        }
        standins_close(standins_open(scene->records));
        assert_int_equal(type_of(path), rows[i].stays ? rows[i].type : 0);
        assert_int_equal(scene_runs(scene->records), 0);
        if (rows[i].stays)
            assert_int_equal(remove(path), 0);
        standin_list_free(&l);
    }
}

/* Torn in its last entry, the file still speaks of those before. */
static void test_torn(void **state)
{
    struct scene *scene = *state;
    struct standin_list l = {0};
    char *paths[2] = {scene_path(scene->project, "a"), scene_path(scene->project, "b")};

    for (size_t i = 0; i < 2; i++) {
        const struct standin_entry e = {.kind = NODE_SOCKET, .begun = time(NULL), .path = paths[i]};
        standin_list_add(&l, &e);
        assert_int_equal(mknod(paths[i], S_IFSOCK | 0444, 0), 0);
    }
    leave_run(scene, &l, 1);
    standins_close(standins_open(scene->records));
    assert_int_equal(type_of(paths[0]), 0);
    assert_int_equal(type_of(paths[1]), S_IFSOCK);
    standin_list_free(&l);
}

/* A child that makes the stand-ins and is killed. */
static void crash_with(const struct scene *scene, const char *const *paths, size_t count)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct buf error;
        buf_init(&error, 4096);
        struct standins *s = standins_open(scene->records);
        for (size_t i = 0; i < count; i++)
            if (!make_standin(s, paths[i], i % 2 == 1, &error))
                _exit(1);
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_after_a_crash(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"),
         *claude = scene_path(scene->project, ".claude");
    const char *const paths[] = {rc, claude};

    crash_with(scene, paths, COUNT(paths));
    assert_int_equal(scene_entries(scene->project), 2);
    standins_close(standins_open(scene->records));
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);

    /* Shared with a run that lives, it stays until that ends. */
    struct standins *s = standins_open(scene->records);
    assert_true(make_standin(s, rc, false, &scene->error));
    crash_with(scene, paths, COUNT(paths));
    standins_close(standins_open(scene->records));
    assert_int_equal(type_of(rc), S_IFSOCK);
    assert_int_equal(type_of(claude), 0);
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);

    /* The same when that one is what clears. */
    s = standins_open(scene->records);
    assert_true(make_standin(s, rc, false, &scene->error));
    crash_with(scene, paths, COUNT(paths));
    assert_true(make_standin(s, claude, true, &scene->error));
    assert_int_equal(type_of(rc), S_IFSOCK);
    assert_int_equal(type_of(claude), S_IFDIR);
    assert_int_equal(scene_runs(scene->records), 1);
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);

    /* Replaced after the crash: the user's. */
    crash_with(scene, paths, COUNT(paths));
    assert_int_equal(unlink(rc), 0);
    assert_int_equal(mkdir(rc, 0700), 0);
    standins_close(standins_open(scene->records));
    assert_int_equal(type_of(rc), S_IFDIR);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
    free(claude);
}

/* The directory is gone by the next run. */
static void test_after_a_crash_without_the_directory(void **state)
{
    struct scene *scene = *state;
    char *inner = scene_path(scene->project, "inner"), *rc = scene_path(inner, ".bashrc");
    const char *const paths[] = {rc};
    assert_int_equal(mkdir(inner, 0700), 0);
    crash_with(scene, paths, COUNT(paths));
    assert_int_equal(unlink(rc), 0);
    assert_int_equal(rmdir(inner), 0);
    standins_close(standins_open(scene->records));
    assert_int_equal(scene_runs(scene->records), 0);
    free(inner);
    free(rc);
}

/* The owner of a directory may not write it: it is opened for a moment, and closed again. */
static void test_after_a_crash_in_a_closed_directory(void **state)
{
    struct scene *scene = *state;
    struct stat st;
    char *rc = scene_path(scene->project, ".bashrc");
    const char *const paths[] = {rc};

    crash_with(scene, paths, COUNT(paths));
    assert_int_equal(type_of(rc), S_IFSOCK);
    assert_int_equal(chmod(scene->project, 0500), 0);
    standins_close(standins_open(scene->records));
    assert_int_equal(type_of(rc), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    assert_int_equal(stat(scene->project, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0500);
    assert_int_equal(chmod(scene->project, 0700), 0);
    free(rc);
}

/* Two of the dead: one made a directory, the other a name in it. */
static void test_after_two_crashes(void **state)
{
    struct scene *scene = *state;
    char *claude = scene_path(scene->project, ".claude"), *inner = scene_path(claude, "x");
    const char *const outer_first[] = {inner, claude};
    struct standins *s = standins_open(scene->records);
    assert_true(make_standin(s, claude, true, &scene->error));
    crash_with(scene, outer_first, 1);
    crash_with(scene, outer_first, COUNT(outer_first));
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(claude);
    free(inner);
}

/* --- killed at every step ------------------------------------------------------------------ */

/* What changes the disk, in this program: the process is killed when there are no steps left. */
static int steps_left = -1;

/* As on a file system without sockets. */
static bool no_sockets;

static void step(void)
{
    if (steps_left >= 0 && steps_left-- == 0)
        raise(SIGKILL);
}

int mknodat(int directory, const char *name, mode_t mode, dev_t device)
{
    step();
    if (no_sockets) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_mknodat, directory, name, mode, device);
}

int mkdirat(int directory, const char *name, mode_t mode)
{
    step();
    return (int)syscall(SYS_mkdirat, directory, name, mode);
}

int unlinkat(int directory, const char *name, int flags)
{
    step();
    return (int)syscall(SYS_unlinkat, directory, name, flags);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
    step();
    return syscall(SYS_pwrite64, fd, p, n, offset);
}

/* Whatever the step, nothing is left behind. The number of steps. */
static int kill_at_every_step(const struct scene *scene, struct buf *error)
{
    char *rc = scene_path(scene->project, ".bashrc"), *claude = scene_path(scene->project, "x");
    int status, steps = 0;

    do {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            steps_left = steps;
            struct standins *s = standins_open(scene->records);
            bool made = make_standin(s, rc, false, error) && make_standin(s, claude, true, error);
            standins_close(s);
            _exit(made ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) || status == 0);
        standins_close(standins_open(scene->records));
        assert_int_equal(scene_entries(scene->project), 0);
        assert_int_equal(scene_runs(scene->records), 0);
        steps++;
    } while (status != 0);
    free(rc);
    free(claude);
    return steps;
}

static void test_killed_at_every_step(void **state)
{
    struct scene *scene = *state;
    /* Four writes, two nodes made, three names removed, and the end. */
    assert_int_equal(kill_at_every_step(scene, &scene->error), 10);
}

/* An empty file stands in where there are no sockets, and is announced as such. */
static void test_without_sockets(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc");

    no_sockets = true;
    struct standins *first = standins_open(scene->records);
    struct standins *second = standins_open(scene->records);
    assert_true(make_standin(first, rc, false, &scene->error));
    assert_int_equal(type_of(rc), S_IFREG);
    assert_true(standins_known(second, rc));
    assert_true(make_standin(second, rc, false, &scene->error));
    standins_close(first);
    assert_int_equal(type_of(rc), S_IFREG);
    standins_close(second);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(kill_at_every_step(scene, &scene->error), 11);
    no_sockets = false;
    free(rc);
}

/* --- many at once -------------------------------------------------------------------------- */

enum { CHILDREN = 50, NAMES = 4, MAKER_LOOPS = 16 };

/* A run: for a while, opens, plans, makes, looks, closes. Its exit status says what went wrong. */
static int run_of(const struct scene *scene, unsigned seed, int loops)
{
    static const char *const names[NAMES] = {".bashrc", ".claude", ".vscode", ".mcp.json"};
    struct buf error;
    int status = 0;

    buf_init(&error, 4096);
    for (int i = 0; i < loops && status == 0; i++) {
        struct standins *s = standins_open(scene->records);
        for (unsigned n = 0; n < NAMES && status == 0; n++) {
            char *path = scene_path(scene->project, names[(n + seed) % NAMES]);
            /* Nobody but runs makes nodes here, so one that is there is known. */
            if (type_of(path) != 0 && !standins_known(s, path))
                status = 2;
            else if (!make_standin(s, path, (n + seed) % 2 == 1, &error))
                status = 3;
            free(path);
        }
        for (unsigned look = 0; look < 5 && status == 0; look++) {
            for (unsigned n = 0; n < NAMES; n++) {
                char *path = scene_path(scene->project, names[n]);
                if (type_of(path) == 0)
                    status = 4;
                free(path);
            }
            if ((seed + look) % 3 == 0)
                usleep(500);
        }
        standins_close(s);
    }
    if (buf_len(&error) != 0)
        fprintf(stderr, "%s\n", buf_cstr(&error));
    buf_free(&error);
    return status;
}

static void start_runs(const struct scene *scene, pid_t children[CHILDREN], int loops)
{
    for (unsigned i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(run_of(scene, i, loops));
    }
}

static void test_many_at_once(void **state)
{
    struct scene *scene = *state;
    pid_t children[CHILDREN];

    start_runs(scene, children, MAKER_LOOPS);
    for (unsigned i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
}

/* The same with half of them killed somewhere in the middle, again and again. */
static void test_many_killed(void **state)
{
    struct scene *scene = *state;

    for (int round = 0; round < 10; round++) {
        pid_t children[CHILDREN];
        start_runs(scene, children, MAKER_LOOPS / 4);
        for (unsigned i = 0; i < CHILDREN; i += 2) {
            usleep(1000U * (i % 7));
            kill(children[i], SIGKILL);
        }
        for (unsigned i = 0; i < CHILDREN; i++) {
            int status;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (!WIFSIGNALED(status))
                assert_int_equal(status, 0);
        }
        standins_close(standins_open(scene->records));
        assert_int_equal(scene_entries(scene->project), 0);
        assert_int_equal(scene_runs(scene->records), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(test_strange_records),
        SCENE(test_announced_only),
        SCENE(test_torn),
        SCENE(test_after_a_crash),
        SCENE(test_after_a_crash_without_the_directory),
        SCENE(test_after_a_crash_in_a_closed_directory),
        SCENE(test_after_two_crashes),
        SCENE(test_killed_at_every_step),
        SCENE(test_without_sockets),
        SCENE(test_many_at_once),
        SCENE(test_many_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
