/* File descriptors: flags, whole writes, passing. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

static int count_open(void)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void test_flags(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, 0), 0);
    assert_true(fd_cloexec(ends[0], true));
    assert_int_equal(fcntl(ends[0], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_true(fd_cloexec(ends[0], false));
    assert_int_equal(fcntl(ends[0], F_GETFD) & FD_CLOEXEC, 0);
    assert_true(fd_nonblock(ends[0], true));
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_true(fd_nonblock(ends[0], false));
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    close_pair(ends);
    assert_false(fd_cloexec(ends[0], true));
    assert_int_equal(errno, EBADF);
    assert_false(fd_nonblock(ends[0], true));
}

static void test_is_socket(void **state)
{
    int pair[2];
    int ends[2];

    (void)state;
    make_pair(pair);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fd_is_socket(pair[0]));
    assert_false(fd_is_socket(ends[0]));
    close_pair(ends);
    close_pair(pair);
    assert_false(fd_is_socket(pair[0]));
    assert_false(fd_is_socket(-1));
}

/* More than a pipe holds, into a non-blocking end. */
static void test_write_all(void **state)
{
    enum { SIZE = 1 << 20 };
    int ends[2];
    int status = 0;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(fd_nonblock(ends[1], true));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char bytes[4096];
        size_t total = 0;
        ssize_t n;
        close(ends[1]);
        while ((n = read(ends[0], bytes, sizeof bytes)) > 0)
            total += (size_t)n;
        _exit(total == SIZE ? 0 : 1);
    }
    close(ends[0]);
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    assert_true(fd_write_all(ends[1], bytes, SIZE));
    close(ends[1]);
    free(bytes);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(fd_write_all(-1, "x", 1));
    assert_true(fd_write_all(-1, "x", 0));
}

static void test_pass_one(void **state)
{
    int pair[2];
    int ends[2];
    int got = -1;
    size_t count = 9;
    char bytes[8];

    (void)state;
    make_pair(pair);
    assert_int_equal(pipe2(ends, 0), 0);
    assert_true(fd_send(pair[0], "hello", 5, &ends[1], 1));
    assert_int_equal(fd_receive(pair[1], bytes, sizeof bytes, &got, 1, &count), 5);
    assert_memory_equal(bytes, "hello", 5);
    assert_int_equal(count, 1);
    assert_int_equal(fcntl(got, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(got, "x", 1), 1);
    assert_int_equal(read(ends[0], bytes, 1), 1);
    close(got);
    close_pair(ends);
    close_pair(pair);
}

static void test_pass_many_and_none(void **state)
{
    int pair[2];
    int sent[FD_PASS_MAX];
    int got[FD_PASS_MAX];
    size_t count = 0;
    char byte;

    (void)state;
    make_pair(pair);
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        sent[i] = STDIN_FILENO;
    assert_true(fd_send(pair[0], "a", 1, sent, FD_PASS_MAX));
    assert_true(fd_send(pair[0], "b", 1, NULL, 0));
    assert_int_equal(fd_receive(pair[1], &byte, 1, got, FD_PASS_MAX, &count), 1);
    assert_int_equal(count, FD_PASS_MAX);
    for (size_t i = 0; i < count; i++)
        close(got[i]);
    assert_int_equal(fd_receive(pair[1], &byte, 1, got, FD_PASS_MAX, &count), 1);
    assert_int_equal(count, 0);
    assert_int_equal(byte, 'b');
    close(pair[0]);
    assert_int_equal(fd_receive(pair[1], &byte, 1, got, FD_PASS_MAX, &count), 0);
    close(pair[1]);
}

static void test_unexpected_descriptors_are_closed(void **state)
{
    int pair[2];
    int sent[2] = {STDIN_FILENO, STDIN_FILENO};
    int got[1];
    size_t count = 9;
    char byte;

    (void)state;
    make_pair(pair);
    int before = count_open();
    assert_true(fd_send(pair[0], "a", 1, sent, 2));
    assert_int_equal(fd_receive(pair[1], &byte, 1, got, 1, &count), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(count, 0);
    assert_int_equal(count_open(), before);

    assert_true(fd_send(pair[0], "a", 1, sent, 1));
    assert_int_equal(fd_receive(pair[1], &byte, 1, NULL, 0, &count), -1);
    assert_int_equal(count_open(), before);
    close_pair(pair);
}

static void test_refused_calls(void **state)
{
    int pair[2];
    int sent[FD_PASS_MAX + 1] = {0};

    (void)state;
    make_pair(pair);
    assert_false(fd_send(pair[0], "a", 1, sent, FD_PASS_MAX + 1));
    assert_int_equal(errno, EINVAL);
    assert_false(fd_send(pair[0], "a", 0, sent, 1));
    close(pair[1]);
    assert_false(fd_send(pair[0], "a", 1, sent, 1));
    assert_int_equal(errno, EPIPE);
    close(pair[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_is_socket),
        cmocka_unit_test(test_write_all),
        cmocka_unit_test(test_pass_one),
        cmocka_unit_test(test_pass_many_and_none),
        cmocka_unit_test(test_unexpected_descriptors_are_closed),
        cmocka_unit_test(test_refused_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
