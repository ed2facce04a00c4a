/*
 * Deciders that are started: this program itself plays them. What depends
 * on newer calls of the kernel is tested a second time without them.
 */
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
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/unit/remote_fixture.h"
#include "tests/unit/scripted_decider.h"

static void begin_program(const char *command)
{
    t.o.exec = command;
    begin();
}

#define PLAY(what) begin_program("/proc/self/exe decider " what)

static void test_answers(void **state)
{
    (void)state;
    PLAY("allow");
    assert_null(ask_request(0)); /* not there yet */
    run_until(&t.ready, 1);
    assert_int_equal(t.d->asks, DECIDER_REQUESTS);
    for (unsigned i = 0; i < 1000; i++)
        assert_non_null(ask_request(i));
    run_until(&t.told[999].answers, 1);
    for (unsigned i = 0; i < 1000; i++)
        assert_told(i, DECIDER_ALLOW);
    assert_int_equal(t.away, 0);
}

static void test_protocol_2(void **state)
{
    (void)state;
    t.o.proto = 2;
    t.o.level = DECIDER_CONNECTIONS;
    PLAY("own 'a word'");
    run_until(&t.ready, 1);
    assert_null(ask_request(0));
    assert_non_null(ask_connection(1));
    run_until(&t.told[1].answers, 1);
    assert_told(1, DECIDER_ALLOW);
}

/* Its own session, standard descriptors and nothing else, fresh signals, the limit it was given. */
static void test_process(void **state)
{
    const struct rlimit files = {.rlim_cur = 77, .rlim_max = 200};
    int pid, parent, own_session, own_group, fds[3], more, signals, limit, death, blocking;
    int open_across = open("/dev/null", O_RDONLY), far = dup2(open_across, 900);
    sigset_t blocked, before;

    (void)state;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGUSR2, SIG_IGN);
    t.o.files = &files;
    PLAY("tell");
    run_until(&t.ready, 1);
    assert_non_null(ask_request(0));
    run_until(&t.told[0].answers, 1);
    assert_told(0, DECIDER_DENY);
    assert_int_equal(t.told[0].status, 418);
    assert_int_equal(sscanf(t.told[0].text,
                            "pid %d parent %d session %d group %d descriptors %d %d %d more %d "
                            "signals %d files %d death %d blocking %d",
                            &pid, &parent, &own_session, &own_group, &fds[0], &fds[1], &fds[2],
                            &more, &signals, &limit, &death, &blocking),
                     12);
    assert_int_equal(parent, getpid());
    assert_int_equal(own_session & own_group & fds[0] & fds[1] & fds[2], 1);
    assert_int_equal(more, 0);
    assert_int_equal(signals, 0);
    assert_int_equal(limit, 77);
    assert_int_equal(death, 1);
    assert_int_equal(blocking, 1);
    /* Ours are as they were. */
    sigset_t now;
    sigprocmask(SIG_SETMASK, &before, &now);
    assert_int_equal(sigismember(&now, SIGUSR1), 1);
    assert_int_equal(sigismember(&now, SIGTERM), 0);
    signal(SIGUSR2, SIG_DFL);
    close(open_across);
    close(far);
}

/* Without descriptors of its own at their numbers, the streams still come to their place. */
static void test_closed_standard_descriptors(void **state)
{
    int saved[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        assert_true(saved[i] >= 0);
        close(i);
    }
    PLAY("tell");
    run_until(&t.ready, 1);
    assert_non_null(ask_request(0));
    run_until(&t.told[0].answers, 1);
    remote_free(t.d);
    t.d = NULL;
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_told(0, DECIDER_DENY);
    assert_non_null(strstr(t.told[0].text, "descriptors 1 1 1 more 0 "));
}

/* Killed, it is answered for, missed, and started anew. */
static void test_restart(void **state)
{
    int pid = 0;

    (void)state;
    PLAY("tell");
    for (unsigned round = 0; round < 3; round++) {
        run_until(&t.ready, round + 1);
        assert_non_null(ask_request(round));
        run_until(&t.told[round].answers, 1);
        int before = pid;
        assert_int_equal(sscanf(t.told[round].text, "pid %d", &pid), 1);
        assert_int_not_equal(pid, before);
        assert_int_equal(kill(pid, SIGSTOP), 0);
        assert_non_null(ask_request(10 + round));
        turn();
        assert_int_equal(kill(pid, SIGKILL), 0);
        run_until(&t.away, round + 1);
        assert_told(10 + round, DECIDER_UNAVAILABLE);
        assert_false(t.final);
        assert_null(ask_request(20));
        assert_int_equal(t.d->asks, DECIDER_REQUESTS);
    }
    run_until(&t.ready, 4);
}

static void test_ends_inside_frame(void **state)
{
    (void)state;
    PLAY("half");
    for (unsigned round = 0; round < 2; round++) {
        run_until(&t.ready, round + 1);
        assert_non_null(ask_request(round));
        run_until(&t.away, round + 1);
        assert_told(round, DECIDER_UNAVAILABLE);
    }
}

static void test_ends_before_hello(void **state)
{
    (void)state;
    PLAY("early");
    run_until(&t.away, 3);
    assert_int_equal(t.ready, 0);
    assert_false(t.final);
}

/* A hello alone is no success: the pauses grow, 100 ms, 200, 400. */
static void test_pauses_grow(void **state)
{
    double start = seconds_now();

    (void)state;
    PLAY("late");
    run_until(&t.away, 4);
    double took = seconds_now() - start;
    assert_int_equal(t.ready, 4);
    assert_true(took >= 0.69);
}

static void test_no_hello(void **state)
{
    (void)state;
    t.o.hello_ms = 80;
    PLAY("mute");
    run_until(&t.away, 2);
    assert_string_equal(t.why, "no hello within 80 ms");
    assert_int_equal(t.ready, 0);
}

static void test_cannot_start(void **state)
{
    static const struct {
        const char *command, *why;
    } cases[] = {
        {"/nowhere/decider x", "cannot start /nowhere/decider: No such file or directory"},
        {"/etc/passwd", "cannot start /etc/passwd: Permission denied"},
        {"/tmp x", "cannot start /tmp: Permission denied"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t.away = 0;
        begin_program(cases[i].command);
        assert_int_equal(t.away, 0); /* not from inside */
        run_until(&t.away, 2);
        assert_string_equal(t.why, cases[i].why);
        assert_false(t.final);
        remote_free(t.d);
        t.d = NULL;
    }
    assert_int_equal(t.ready, 0);
}

/* PATH is looked through once, without the directories that anybody may have filled. */
static void test_not_on_path(void **state)
{
    static const char program[] = "#!/bin/sh\nexit 1\n";
    char directory[] = "/tmp/srt-test-XXXXXX", *before = mem_dup(getenv("PATH"));
    char *here = getcwd(NULL, 0);
    struct buf error;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(chdir(directory), 0);
    int fd = open("decider-of-here", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(write(fd, program, sizeof program - 1), sizeof program - 1);
    close(fd);
    setenv("PATH", ".::/usr/bin", 1);
    buf_init(&error, 1024);
    t.o.exec = "decider-of-here x";
    assert_null(remote_new(&t.o, &error));
    assert_string_equal(buf_cstr(&error), "cannot start decider-of-here: it is not on PATH");
    buf_free(&error);
    setenv("PATH", before, 1);
    assert_int_equal(unlink("decider-of-here"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(directory), 0);
    free(before);
    free(here);
}

/* Before its hello: how it ended, where it did so by itself. */
static void test_ends_at_once(void **state)
{
    static const struct {
        const char *command, *why;
    } cases[] = {
        {"sh -c 'exit 3'", "; it ended with status 3"},
        {"sh -c 'kill -9 $$'", "; it was ended by SIGKILL"},
        {"sh -c 'exec >&- <&-; sleep 9'", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        t.away = 0;
        begin_program(cases[i].command);
        run_until(&t.away, 1);
        if (cases[i].why != NULL)
            assert_non_null(strstr(t.why, cases[i].why));
        else
            assert_null(strstr(t.why, "; it"));
        assert_true(strlen(t.why) > strlen("; it ended with status 3"));
        remote_free(t.d);
        t.d = NULL;
    }
}

static void test_bad_command_line(void **state)
{
    (void)state;
    t.o.exec = "decider 'open";
    assert_null(remote_new(&t.o, &t.error));
    assert_string_equal(buf_cstr(&t.error), "the decider's command has an open '");
}

static void test_found_in_path(void **state)
{
    (void)state;
    begin_program("sh -c 'exec /proc/$PPID/exe decider allow'");
    run_until(&t.ready, 1);
}

/* One that ends when its stream does costs nothing to end. */
static void test_free_is_quick(void **state)
{
    (void)state;
    PLAY("hold");
    run_until(&t.ready, 1);
    for (unsigned i = 0; i < 1000; i++)
        assert_non_null(ask_request(i));
    turn();
    double start = seconds_now();
    remote_free(t.d);
    t.d = NULL;
    assert_true(seconds_now() - start < REMOTE_STOP_MS / 1e3);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(t.told[i].answers, 0);
}

/* At any time: before it runs, while it is waited for, during a pause. */
static void test_free_at_once(void **state)
{
    (void)state;
    PLAY("allow");
    remote_free(t.d);
    PLAY("allow");
    turn();
    remote_free(t.d);
    PLAY("early");
    run_until(&t.away, 1);
    /* The teardown has the last one. */
}

/* The next one waits for the end of the last, which takes both signals. */
static void test_stubborn(void **state)
{
    (void)state;
    PLAY("stubborn");
    run_until(&t.away, 1);
    double start = seconds_now();
    run_until(&t.ready, 2);
    double took = seconds_now() - start;
    assert_true(took >= 2 * REMOTE_STOP_MS / 1e3 - 0.01);
    run_until(&t.away, 2);
    start = seconds_now();
    remote_free(t.d);
    t.d = NULL;
    took = seconds_now() - start;
    assert_true(took < 2 * REMOTE_STOP_MS / 1e3 + 5);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Neither gone nor waiting to be reaped by its new parent. */
static bool is_running(int pid)
{
    char path[40], line[256] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 && strstr(line, ") Z ") == NULL && strstr(line, ") X ") == NULL;
}

/* The signals reach what a shell has started. */
static void test_group_is_signalled(void **state)
{
    char path[] = "/tmp/test-remote-XXXXXX", command[160];
    int fd = mkostemp(path, O_CLOEXEC), pid = 0;

    (void)state;
    assert_true(fd >= 0);
    snprintf(command, sizeof command, "sh -c 'sleep 60 & echo $! > %s; wait; wait'", path);
    begin_program(command);
    struct stat st = {0};
    for (double start = seconds_now(); st.st_size == 0 && seconds_now() - start < 10; run_for(0.01))
        assert_int_equal(fstat(fd, &st), 0);
    char text[16] = "";
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    assert_int_equal(sscanf(text, "%d", &pid), 1);
    /* The echo went to the file and sleep holds the stream: nothing ends by itself. */
    remote_free(t.d);
    t.d = NULL;
    for (double start = seconds_now(); is_running(pid); run_for(0.01))
        assert_true(seconds_now() - start < 10);
    close(fd);
    unlink(path);
}

/* Somebody else's waitpid(-1) is no trouble. */
static void test_reaped_by_others(void **state)
{
    (void)state;
    PLAY("late");
    for (unsigned round = 1; round <= 2; round++) {
        run_until(&t.ready, round);
        run_until(&t.away, round);
        while (waitpid(-1, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    run_until(&t.ready, 3);
}

/* ENOSYS for what came with Linux 5.3 and 5.9. */
static bool forget_new_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define REMOTE_TEST(f) cmocka_unit_test_setup_teardown(f, remote_setup, remote_teardown)

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        REMOTE_TEST(test_answers),           REMOTE_TEST(test_protocol_2),
        REMOTE_TEST(test_process),           REMOTE_TEST(test_closed_standard_descriptors),
        REMOTE_TEST(test_restart),           REMOTE_TEST(test_ends_inside_frame),
        REMOTE_TEST(test_ends_before_hello), REMOTE_TEST(test_pauses_grow),
        REMOTE_TEST(test_no_hello),          REMOTE_TEST(test_cannot_start),
        REMOTE_TEST(test_not_on_path),       REMOTE_TEST(test_ends_at_once),
        REMOTE_TEST(test_bad_command_line),  REMOTE_TEST(test_found_in_path),
        REMOTE_TEST(test_free_is_quick),     REMOTE_TEST(test_free_at_once),
        REMOTE_TEST(test_stubborn),          REMOTE_TEST(test_group_is_signalled),
        REMOTE_TEST(test_reaped_by_others),
    };
    static const struct CMUnitTest old_kernel_tests[] = {
        REMOTE_TEST(test_process),      REMOTE_TEST(test_restart),
        REMOTE_TEST(test_cannot_start), REMOTE_TEST(test_free_is_quick),
        REMOTE_TEST(test_stubborn),     REMOTE_TEST(test_reaped_by_others),
    };

    if (argc > 1 && strcmp(argv[1], "decider") == 0)
        return scripted_decider(argc - 2, argv + 2);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (!forget_new_calls()) {
        perror("seccomp");
        return 1;
    }
    return failed + cmocka_run_group_tests(old_kernel_tests, NULL, NULL);
}
