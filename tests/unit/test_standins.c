/* Stand-ins on the host: made, shared and removed by the last. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/standins.h"
#include "tests/unit/standins_fixture.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void test_made_and_removed(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"),
         *claude = scene_path(scene->project, ".claude");
    struct standins *s = standins_open(scene->records);

    assert_false(standins_known(s, "/"));
    assert_true(make_standin(s, rc, false, &scene->error));
    assert_true(make_standin(s, claude, true, &scene->error));
    assert_true(
        make_standin(s, claude, true, &scene->error)); /* planned again after new settings */
    assert_int_equal(type_of(rc), S_IFSOCK);
    assert_int_equal(type_of(claude), S_IFDIR);
    assert_true(standins_known(s, rc));
    assert_true(standins_known(s, claude));
    assert_int_equal(scene_runs(scene->records), 1);
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
    free(claude);
}

static void test_the_last_run_removes(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"), *name = scene_path(scene->project, "x");
    struct standins *first = standins_open(scene->records);
    assert_true(make_standin(first, rc, false, &scene->error));
    assert_true(make_standin(first, name, true, &scene->error));
    struct standins *second = standins_open(scene->records);
    assert_true(standins_known(second, rc));
    assert_true(make_standin(second, rc, false, &scene->error));

    /* The second asks for another kind: what is there does as well, and it is told. */
    struct small_plan plan;
    small_plan_make(&plan, name, false, false);
    assert_true(standins_make(second, &plan.mounts, &scene->error));
    assert_true(plan.standin.directory);
    small_plan_free(&plan);

    standins_close(first);
    assert_int_equal(type_of(rc), S_IFSOCK);
    assert_int_equal(type_of(name), S_IFDIR);
    assert_true(standins_known(second, rc));
    standins_close(second);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
    free(name);
}

/* What is a user's is never shared, taken over or removed. */
static void test_what_is_not_ours(void **state)
{
    struct scene *scene = *state;
    static const struct {
        const char *name;
        mode_t type;
    } nodes[] = {
        {"file", S_IFREG}, {"directory", S_IFDIR}, {"socket", S_IFSOCK}, {"link", S_IFLNK}};
    struct standins *s = standins_open(scene->records);

    for (size_t i = 0; i < COUNT(nodes); i++) {
        char *path = scene_path(scene->project, nodes[i].name);
        if (nodes[i].type == S_IFDIR)
            assert_int_equal(mkdir(path, 0700), 0);
        else if (nodes[i].type == S_IFLNK)
            assert_int_equal(symlink("/nowhere", path), 0);
        else
            assert_int_equal(mknod(path, nodes[i].type | 0444, 0), 0);
        assert_false(standins_known(s, path));
        buf_clear(&scene->error);
        assert_false(make_standin(s, path, nodes[i].type == S_IFDIR, &scene->error));
        assert_non_null(strstr(buf_cstr(&scene->error), path));
        assert_non_null(strstr(buf_cstr(&scene->error), "changed while starting"));
        free(path);
    }
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), COUNT(nodes));
    assert_int_equal(scene_runs(scene->records), 0);
}

/* Replaced or filled on the host while the box lives. */
static void test_replaced_meanwhile(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"),
         *claude = scene_path(scene->project, ".claude");
    char *inside = scene_path(claude, "commands"), *code = scene_path(scene->project, ".vscode");
    struct standins *s = standins_open(scene->records);

    assert_true(make_standin(s, rc, false, &scene->error));
    assert_true(make_standin(s, claude, true, &scene->error));
    assert_true(make_standin(s, code, true, &scene->error));
    assert_int_equal(unlink(rc), 0);
    assert_int_equal(mknod(rc, S_IFREG | 0600, 0), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(rmdir(code), 0);
    assert_false(standins_known(s, rc));
    assert_true(standins_known(s, code)); /* nothing is there */
    standins_close(s);
    assert_int_equal(type_of(rc), S_IFREG);
    assert_int_equal(type_of(inside), S_IFDIR);
    assert_int_equal(scene_entries(scene->project), 2);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
    free(claude);
    free(inside);
    free(code);
}

/* One that was removed on the host is made anew by the next run, whose end is then its end. */
static void test_made_anew_beside_a_run(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc");
    struct standins *first = standins_open(scene->records);
    assert_true(make_standin(first, rc, false, &scene->error));
    assert_int_equal(unlink(rc), 0);
    struct standins *second = standins_open(scene->records);
    assert_true(make_standin(second, rc, false, &scene->error));
    assert_int_equal(type_of(rc), S_IFSOCK);
    standins_close(first);
    assert_int_equal(type_of(rc), S_IFSOCK);
    standins_close(second);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
}

/* The directory is renamed while the box lives: the node goes with it, and is found. */
static void test_renamed_directory(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"), *moved = scene_path(scene->top, "moved");
    struct standins *s = standins_open(scene->records);
    assert_true(make_standin(s, rc, false, &scene->error));
    assert_int_equal(rename(scene->project, moved), 0);
    standins_close(s);
    assert_int_equal(scene_entries(moved), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
    free(moved);
}

static void test_links_on_the_way(void **state)
{
    struct scene *scene = *state;
    char *link = scene_path(scene->top, "link"), *rc = scene_path(link, ".bashrc");
    char *missing = scene_path(scene->project, "no/.bashrc");
    struct standins *s = standins_open(scene->records);
    assert_int_equal(symlink(scene->project, link), 0);
    assert_false(make_standin(s, rc, false, &scene->error));
    assert_false(make_standin(s, missing, false, &scene->error));
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    assert_int_equal(scene_runs(scene->records), 0);
    free(link);
    free(rc);
    free(missing);
}

/* /sys takes no nodes, whoever asks: the mount of an optional one goes, any other is an error. */
static void test_optional(void **state)
{
    struct scene *scene = *state;
    struct small_plan plan;
    struct standins *s = standins_open(scene->records);

    small_plan_make(&plan, "/sys/.bashrc", false, true);
    assert_true(standins_make(s, &plan.mounts, &scene->error));
    assert_int_equal(plan.mounts.count, 0);
    small_plan_free(&plan);
    assert_false(make_standin(s, "/sys/.bashrc", false, &scene->error));
    assert_non_null(strstr(buf_cstr(&scene->error), "/sys/.bashrc"));

    /* A user's file that came meanwhile is no refusal: without a mount it would be open. */
    char *rc = scene_path(scene->project, ".bashrc");
    assert_int_equal(mknod(rc, S_IFREG | 0600, 0), 0);
    small_plan_make(&plan, rc, false, true);
    assert_false(standins_make(s, &plan.mounts, &scene->error));
    assert_int_equal(plan.mounts.count, 1);
    small_plan_free(&plan);
    standins_close(s);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
}

static void test_unusable_records(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"), *nowhere = scene_path(scene->top, "nowhere");
    struct standins *s = standins_open(nowhere);
    assert_false(standins_known(s, rc));
    assert_false(make_standin(s, rc, false, &scene->error));
    standins_close(s);
    standins_close(NULL);
    free(rc);
    free(nowhere);
}

/* A run without stand-ins makes no file of its own. */
static void test_nothing_to_make(void **state)
{
    struct scene *scene = *state;
    struct mounts nothing = {0};
    struct standins *s = standins_open(scene->records);
    assert_true(standins_make(s, &nothing, &scene->error));
    assert_int_equal(scene_entries(scene->records), 1); /* the lock */
    standins_close(s);
    assert_int_equal(scene_entries(scene->records), 1);
}

/* A stand-in of a run that started after we looked. */
static void test_known_though_made_later(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"), *mine = scene_path(scene->project, "mine");
    struct standins *first = standins_open(scene->records);
    struct standins *second = standins_open(scene->records);
    assert_true(make_standin(second, rc, true, &scene->error));
    assert_int_equal(mkdir(mine, 0755), 0);
    assert_true(standins_known(first, rc));
    assert_false(standins_known(first, mine));
    assert_true(make_standin(first, rc, true, &scene->error));
    standins_close(second);
    assert_int_equal(type_of(rc), S_IFDIR);
    standins_close(first);
    assert_int_equal(scene_entries(scene->project), 1);
    free(rc);
    free(mine);
}

/* Both runs have made the same name, one after the other: each removes its own node only. */
static void test_made_anew_and_left_first(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc");
    struct standins *first = standins_open(scene->records);
    assert_true(make_standin(first, rc, false, &scene->error));
    assert_int_equal(unlink(rc), 0);
    struct standins *second = standins_open(scene->records);
    assert_true(make_standin(second, rc, false, &scene->error));
    standins_close(second);
    assert_int_equal(type_of(rc), 0);
    standins_close(first);
    assert_int_equal(scene_runs(scene->records), 0);
    free(rc);
}

/* One directory stands in, and so does a name in it: plans of two kinds of settings. */
static void test_deepest_first(void **state)
{
    struct scene *scene = *state;
    char *claude = scene_path(scene->project, ".claude"), *inner = scene_path(claude, "commands");
    struct standins *s = standins_open(scene->records);
    assert_true(make_standin(s, claude, true, &scene->error));
    assert_true(make_standin(s, inner, true, &scene->error));
    standins_close(s);
    assert_int_equal(scene_entries(scene->project), 0);
    free(claude);
    free(inner);
}

/* The lock is waited for, at every step. */
static void test_lock_is_taken(void **state)
{
    struct scene *scene = *state;
    char *rc = scene_path(scene->project, ".bashrc"), *lock = scene_path(scene->records, "lock");
    struct standins *s = standins_open(scene->records);

    for (int step = 0; step < 2; step++) {
        int ready[2];
        char byte;
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (fd < 0 || flock(fd, LOCK_EX) != 0 || write(ready[1], "x", 1) != 1)
                _exit(1);
            usleep(50000);
            _exit((step == 0) == (type_of(rc) == 0) ? 0 : 2);
        }
        int status;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        if (step == 0)
            assert_true(make_standin(s, rc, false, &scene->error));
        else
            standins_close(s);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close(ready[0]);
        close(ready[1]);
    }
    assert_int_equal(scene_entries(scene->project), 0);
    free(rc);
    free(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(test_made_and_removed),        SCENE(test_the_last_run_removes),
        SCENE(test_what_is_not_ours),        SCENE(test_replaced_meanwhile),
        SCENE(test_made_anew_beside_a_run),  SCENE(test_renamed_directory),
        SCENE(test_links_on_the_way),        SCENE(test_optional),
        SCENE(test_unusable_records),        SCENE(test_nothing_to_make),
        SCENE(test_known_though_made_later), SCENE(test_made_anew_and_left_first),
        SCENE(test_deepest_first),           SCENE(test_lock_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
