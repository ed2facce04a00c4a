/* Signals for srt, before and on the loop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launcher/signals.h"

/* Each in a process of its own: masks and dispositions belong to all of it. */
static void in_child(int (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int pending(void)
{
    struct signals *s = signals_new();
    if (s == NULL || signals_pending(s) != 0)
        return 1;
    raise(SIGUSR1);
    if (signals_pending(s) != 0)
        return 2;
    raise(SIGTERM);
    if (signals_pending(s) != SIGTERM)
        return 3;
    raise(SIGINT);
    if (signals_pending(s) != SIGTERM)
        return 4; /* the first one counts */
    signals_free(s);
    return 0;
}

static void test_pending(void **state)
{
    (void)state;
    in_child(pending);
}

static int ignored(void)
{
    signal(SIGHUP, SIG_IGN);
    struct signals *s = signals_new();
    if (s == NULL || (signals_ignored(s) & (UINT64_C(1) << (SIGHUP - 1))) == 0 ||
        (signals_ignored(s) & (UINT64_C(1) << (SIGTERM - 1))) != 0)
        return 1;
    raise(SIGHUP);
    int result = signals_pending(s) != 0;
    signals_free(s);
    return result;
}

static void test_ignored_stays_ignored(void **state)
{
    (void)state;
    in_child(ignored);
}

struct heard {
    struct ev_loop *loop;
    int number;
    bool from_terminal;
};

static void hear(void *ctx, int number, bool from_terminal)
{
    struct heard *heard = ctx;
    heard->number = number;
    heard->from_terminal = from_terminal;
    ev_break(heard->loop, EVBREAK_ALL);
}

static int watched(void)
{
    struct heard heard = {.loop = ev_default_loop(0)};
    struct signals *s = signals_new();
    if (s == NULL)
        return 1;
    signals_watch(s, heard.loop, hear, &heard);
    kill(getpid(), SIGUSR2);
    ev_run(heard.loop, 0);
    signals_free(s);
    return heard.number == SIGUSR2 && !heard.from_terminal ? 0 : 2;
}

static void test_on_the_loop(void **state)
{
    (void)state;
    in_child(watched);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(signals_name(SIGTERM), "SIGTERM");
    assert_string_equal(signals_name(SIGKILL), "SIGKILL");
    assert_string_equal(signals_name(200), "SIG200");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_ignored_stays_ignored),
        cmocka_unit_test(test_on_the_loop),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
