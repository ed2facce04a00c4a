/*
 * probe NAME...   prints "NAME ok", "NAME ERRNO", "NAME killed:SIGNAL" or "NAME VALUE" for each
 * probe all       all of them
 * probe list      their names
 *
 * Also "shmget=KEY": whether a System V segment of that key is in reach, "open=PATH" and
 * "write=PATH": whether the file opens.
 */
#include "tests/integration/probe/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 20 /* that one attempt may take */ };

static void print_outcome(long result)
{
    const char *name = result == -1 ? strerrorname_np(errno) : "ok";

    printf("%s", name != NULL ? name : "unknown-errno");
}

/* False when there is no such name. */
static bool run(const char *name)
{
    for (size_t i = 0; i < call_count; i++) {
        const long *a = calls[i].arguments;
        if (strcmp(calls[i].name, name) == 0) {
            print_outcome(syscall(calls[i].number, a[0], a[1], a[2], a[3], a[4], a[5]));
            return true;
        }
    }
    for (size_t i = 0; i < attempt_count; i++) {
        if (strcmp(attempts[i].name, name) == 0) {
            print_outcome(attempts[i].run());
            return true;
        }
    }
    for (size_t i = 0; i < look_count; i++) {
        if (strcmp(looks[i].name, name) == 0) {
            looks[i].print();
            return true;
        }
    }
    if (strncmp(name, "shmget=", 7) == 0)
        print_outcome(shmget((key_t)strtol(name + 7, NULL, 0), 0, 0));
    else if (strncmp(name, "open=", 5) == 0)
        print_outcome(open(name + 5, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    else if (strncmp(name, "write=", 6) == 0)
        print_outcome(open(name + 6, O_WRONLY | O_NONBLOCK | O_NOCTTY));
    else
        return false;
    return true;
}

/* False when there is no such name. */
static bool run_apart(const char *name)
{
    int status = 0;

    printf("%s ", name);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        bool known = run(name);
        (void)fflush(stdout);
        _exit(known ? 0 : 2);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        printf("not-run\n");
        return true;
    }
    bool known = !WIFEXITED(status) || WEXITSTATUS(status) != 2;
    if (WIFSIGNALED(status))
        printf("killed:SIG%s", sigabbrev_np(WTERMSIG(status)));
    printf(known ? "\n" : "no-such-probe\n");
    return known;
}

static void for_all(bool (*each)(const char *))
{
    for (size_t i = 0; i < call_count; i++)
        (void)each(calls[i].name);
    for (size_t i = 0; i < attempt_count; i++)
        (void)each(attempts[i].name);
    for (size_t i = 0; i < look_count; i++)
        (void)each(looks[i].name);
}

static bool print_name(const char *name)
{
    return puts(name) >= 0;
}

int main(int argc, char **argv)
{
    bool known = true;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: probe NAME... | all | list\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "all") == 0)
            for_all(run_apart);
        else if (strcmp(argv[i], "list") == 0)
            for_all(print_name);
        else
            known = run_apart(argv[i]) && known;
    }
    return known ? 0 : 2;
}
