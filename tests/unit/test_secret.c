/* Secrets: memory, comparison, token files, core dumps. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/secret.h"

static char directory[] = "/tmp/test_secret.XXXXXX";
static char path[64];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/token", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void write_file(const void *p, size_t n, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_true(fd_write_all(fd, p, n));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void assert_token(const char *content, const char *token)
{
    struct buf error;

    buf_init(&error, 1024);
    write_file(content, strlen(content), 0600);
    struct secret *s = secret_read_file(path, SECRET_TOKEN_MAX, &error);
    if (s == NULL) {
        fail_msg("%s", buf_cstr(&error));
        return;
    }
    assert_int_equal(s->len, strlen(token));
    assert_string_equal(s->bytes, token);
    secret_free(s);
    buf_free(&error);
}

/* The message names the path and holds `expected`, and nothing of the content. */
static void assert_refused(const char *expected, size_t max)
{
    struct buf error;

    buf_init(&error, 1024);
    assert_null(secret_read_file(path, max, &error));
    const char *text = buf_cstr(&error);
    assert_non_null(strstr(text, path));
    if (strstr(text, expected) == NULL)
        fail_msg("'%s' does not hold '%s'", text, expected);
    assert_null(strstr(text, "hunter2"));
    buf_free(&error);
}

static void test_copy(void **state)
{
    (void)state;
    struct secret *s = secret_new("abc", 3);
    assert_int_equal(s->len, 3);
    assert_string_equal(s->bytes, "abc");
    secret_free(s);
    s = secret_new(NULL, 0);
    assert_int_equal(s->len, 0);
    assert_int_equal(s->bytes[0], 0);
    secret_free(s);
    secret_free(NULL);
}

static void test_whole_pages(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *bytes = malloc(2 * page);

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', 2 * page);
    struct secret *s = secret_new(bytes, 2 * page);
    assert_memory_equal(s->bytes, bytes, 2 * page);
    assert_int_equal(s->bytes[2 * page], 0);
    secret_free(s);
    free(bytes);
}

/* /proc/self/smaps says "dd" (do not dump) for its pages. */
static void test_not_dumped(void **state)
{
    char line[512];
    char start[32];
    bool inside = false;
    bool found = false;

    (void)state;
    struct secret *s = secret_new("abc", 3);
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)s->bytes);
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strncmp(line, start, strlen(start)) == 0)
            inside = true;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            found = strstr(line, " dd") != NULL;
            break;
        }
    }
    fclose(maps);
    secret_free(s);
    assert_true(found);
}

static void test_equal(void **state)
{
    (void)state;
    assert_true(secret_equal("abc", 3, "abc", 3));
    assert_true(secret_equal("a\0c", 3, "a\0c", 3));
    assert_true(secret_equal(NULL, 0, NULL, 0));
    assert_false(secret_equal("a\0c", 3, "a\0d", 3));
    assert_false(secret_equal("abc", 3, "abd", 3));
    assert_false(secret_equal("xbc", 3, "abc", 3));
    assert_false(secret_equal("ab", 2, "abc", 3));
    assert_false(secret_equal("abc", 3, "ab", 2));
    assert_false(secret_equal("abc", 3, "", 0));
}

static void test_file(void **state)
{
    (void)state;
    assert_token("0123456789abcdef", "0123456789abcdef");
    assert_token("token\n", "token");
    assert_token("token\r\n\n", "token");
    assert_token("~!\"#$%&'()*+", "~!\"#$%&'()*+");
}

static void test_file_content(void **state)
{
    static const char *const bad[] = {"hunter2 x",   "hunter2\nhunter2", "hunter2\t",
                                      "hunter2\x7f", "hunter2\xc3\xbc",  " hunter2"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file(bad[i], strlen(bad[i]), 0600);
        assert_refused("printable ASCII", SECRET_TOKEN_MAX);
    }
    write_file("hunter2\0", 8, 0600);
    assert_refused("printable ASCII", SECRET_TOKEN_MAX);
    write_file("", 0, 0600);
    assert_refused("empty", SECRET_TOKEN_MAX);
    write_file("\n\n", 2, 0600);
    assert_refused("empty", SECRET_TOKEN_MAX);
}

static void test_file_length(void **state)
{
    char content[4096];
    struct buf error;

    (void)state;
    memset(content, 'x', sizeof content);
    write_file(content, SECRET_TOKEN_MAX, 0600);
    buf_init(&error, 1024);
    struct secret *s = secret_read_file(path, SIZE_MAX, &error);
    assert_non_null(s);
    assert_int_equal(s->len, SECRET_TOKEN_MAX);
    secret_free(s);
    buf_free(&error);
    write_file(content, SECRET_TOKEN_MAX + 1, 0600);
    assert_refused("too long", SIZE_MAX);
    write_file(content, sizeof content, 0600);
    assert_refused("too long", SIZE_MAX);
    write_file(content, 33, 0600);
    assert_refused("too long", 32);
}

static void test_file_permissions(void **state)
{
    static const mode_t bad[] = {0640, 0604, 0620, 0610, 0601, 0644, 0666};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_file("hunter2", 7, bad[i]);
        assert_refused("accessible to group or others", SECRET_TOKEN_MAX);
    }
}

static void test_file_kind(void **state)
{
    (void)state;
    unlink(path);
    assert_refused("No such file", SECRET_TOKEN_MAX);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused("not a regular file", SECRET_TOKEN_MAX);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused("not a regular file", SECRET_TOKEN_MAX);
    rmdir(path);
}

static void test_file_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("hunter2", 7, 0600);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_refused("belongs to another user", SECRET_TOKEN_MAX);
}

static void test_no_core_dumps(void **state)
{
    int status = 0;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 1};
        bool done = process_no_core_dumps();
        getrlimit(RLIMIT_CORE, &limit);
        _exit(done && limit.rlim_cur == 0 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),          cmocka_unit_test(test_whole_pages),
        cmocka_unit_test(test_not_dumped),    cmocka_unit_test(test_equal),
        cmocka_unit_test(test_file),          cmocka_unit_test(test_file_content),
        cmocka_unit_test(test_file_length),   cmocka_unit_test(test_file_permissions),
        cmocka_unit_test(test_file_kind),     cmocka_unit_test(test_file_owner),
        cmocka_unit_test(test_no_core_dumps),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
