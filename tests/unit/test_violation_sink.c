/* Where violations go: readers that are slow or gone, and a file's bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ev.h>

#include "launcher/violation_sink.h"

static char directory[] = "/tmp/test_violation_sink.XXXXXX";
static char target[64];

enum { LONG_LINE = 10001 };

/* Reads all once it may: whole lines, and not few. */
static pid_t start_reader(int reader, int writer, int may)
{
    static char all[8 << 20];
    size_t got = 0;
    ssize_t n;
    char go;
    pid_t child = fork();

    if (child != 0)
        return child;
    close(writer);
    if (read(may, &go, 1) != 1)
        _exit(1);
    while ((n = read(reader, all + got, sizeof all - got)) > 0)
        got += (size_t)n;
    bool whole = got % LONG_LINE == 0 && got / LONG_LINE >= 100;
    for (size_t i = LONG_LINE - 1; whole && i < got; i += LONG_LINE)
        whole = all[i] == '\n';
    _exit(whole ? 0 : 1);
}

static void close_with_losses(struct violation_sink *s)
{
    char said[256] = "";
    int saved = dup(STDERR_FILENO);
    FILE *file = tmpfile();

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    violation_sink_close(s);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_true(pread(fileno(file), said, sizeof said - 1, 0) > 0);
    assert_non_null(strstr(said, " lines lost\n"));
    (void)fclose(file);
}

/* Far more than is held for a reader that does not read; none of it may wait. */
static void fill(int reader, int writer)
{
    static char line[LONG_LINE];
    char name[16];
    struct buf error;
    int may[2], status;

    buf_init(&error, 512);
    assert_int_equal(pipe(may), 0);
    pid_t child = start_reader(reader, writer, may[0]);
    close(reader);
    (void)snprintf(name, sizeof name, "fd:%d", writer);
    struct violation_sink *s = violation_sink_open(EV_DEFAULT, name, &error);
    assert_non_null(s);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    alarm(20);
    for (unsigned i = 0; i < 400; i++)
        violation_sink_write(s, line, sizeof line);
    assert_int_equal(write(may[1], "g", 1), 1);
    close_with_losses(s);
    close(writer);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    alarm(0);
    close(may[0]);
    close(may[1]);
}

static void a_slow_reader_does_not_hold_up(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    fill(ends[0], ends[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    fill(ends[0], ends[1]);
}

static void a_reader_that_goes_ends_it(void **state)
{
    int ends[2];
    char name[16];
    struct buf error;

    (void)state;
    buf_init(&error, 512);
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(name, sizeof name, "fd:%d", ends[1]);
    struct violation_sink *s = violation_sink_open(EV_DEFAULT, name, &error);
    assert_non_null(s);
    close(ends[0]);
    violation_sink_write(s, "line\n", 5);
    violation_sink_write(s, "line\n", 5);
    violation_sink_close(s);
    close(ends[1]);
}

static void a_file_has_a_bound(void **state)
{
    static char line[1 << 19];
    struct stat st;
    struct buf error;

    (void)state;
    buf_init(&error, 512);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    struct violation_sink *s = violation_sink_open(EV_DEFAULT, target, &error);
    assert_non_null(s);
    for (unsigned i = 0; i < SINK_FILE_MAX / sizeof line + 3; i++)
        violation_sink_write(s, line, sizeof line);
    violation_sink_close(s);
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_size, SINK_FILE_MAX);
    unlink(target);
}

static int make_directory(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(directory) == NULL)
        return 1;
    (void)snprintf(target, sizeof target, "%s/violations", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_reader_does_not_hold_up),
        cmocka_unit_test(a_reader_that_goes_ends_it),
        cmocka_unit_test(a_file_has_a_bound),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
