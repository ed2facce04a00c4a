/* The private directory of a user's records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/standins.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { ERROR_MAX = 16384 };

static void test_private(void **state)
{
    struct buf error;
    struct stat st;

    (void)state;
    buf_init(&error, ERROR_MAX);
    char *directory = standins_directory(&error);
    assert_non_null(directory);
    assert_int_equal(lstat(directory, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_mode & 0777, 0700);
    free(directory);
    buf_free(&error);
}

static void test_the_environment_does_not_matter(void **state)
{
    struct buf error;

    (void)state;
    buf_init(&error, ERROR_MAX);
    char *before = standins_directory(&error);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/tmp/no", 1), 0);
    assert_int_equal(setenv("HOME", "/tmp/no", 1), 0);
    assert_int_equal(setenv("TMPDIR", "/tmp/no", 1), 0);
    mode_t mask = umask(0777);
    char *after = standins_directory(&error);
    assert_int_equal(umask(mask), 0777);
    assert_non_null(before);
    assert_non_null(after);
    assert_string_equal(before, after);
    free(before);
    free(after);
    buf_free(&error);
}

static bool is_refused(const char *path)
{
    struct buf error;

    buf_init(&error, ERROR_MAX);
    char *directory = standins_directory(&error);
    bool refused = directory == NULL && strstr(buf_cstr(&error), path) != NULL;
    free(directory);
    buf_free(&error);
    return refused;
}

/* A user of no name has no home, so only /tmp is left. */
static int as_user(uid_t uid)
{
    static const mode_t modes[] = {0750, 0701, 0702, 0500, 0};
    char path[64];
    struct buf error;
    struct stat st;

    buf_init(&error, ERROR_MAX);
    snprintf(path, sizeof path, "/tmp/.srt-%u", (unsigned)uid);
    if (setresuid(uid, uid, uid) != 0)
        return 1;
    (void)umask(0777);
    char *directory = standins_directory(&error);
    bool right = directory != NULL && strcmp(directory, path) == 0;
    free(directory);
    for (size_t i = 0; i < COUNT(modes); i++) {
        right = right && chmod(path, modes[i]) == 0;
        directory = standins_directory(&error);
        right = right && directory != NULL && lstat(path, &st) == 0 && (st.st_mode & 0777) == 0700;
        free(directory);
    }
    buf_free(&error);
    right = right && rmdir(path) == 0 && symlink("/tmp", path) == 0 && is_refused(path);
    return unlink(path) == 0 && right ? 0 : 2;
}

/* Our own directory is closed to others again; what is none is not used. */
static void test_mended_or_refused(void **state)
{
    enum { OF_NO_NAME = 1234567 };
    int status;

    (void)state;
    if (geteuid() != 0)
        skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_user(OF_NO_NAME));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Somebody else was first in /tmp. */
static void test_taken_by_another(void **state)
{
    enum { OF_NO_NAME = 1234568 };
    char path[64];
    int status;

    (void)state;
    if (geteuid() != 0)
        skip();
    snprintf(path, sizeof path, "/tmp/.srt-%d", OF_NO_NAME);
    assert_int_equal(mkdir(path, 0700), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(setresuid(OF_NO_NAME, OF_NO_NAME, OF_NO_NAME) == 0 && is_refused(path) ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_the_environment_does_not_matter),
        cmocka_unit_test(test_mended_or_refused),
        cmocka_unit_test(test_taken_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
