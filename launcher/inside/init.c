#include "launcher/inside/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/inside/command.h"
#include "launcher/inside/failure.h"

/* Exit status where the launcher hears, or has heard, more than a number can tell. */
enum { STATUS_FAILED = 1 };

static void tell(const struct init *init, const void *message, size_t n)
{
    /* Without a launcher there is nobody to go on for. */
    if (!fd_send(init->control, message, n, NULL, 0))
        _exit(STATUS_FAILED);
}

bool init_start(struct init *init, int control, const struct orders *orders, struct buf *error)
{
    static const uint8_t started = MESSAGE_STARTED;
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t all, child;
    int ends[2];

    /* Only the first process of a PID name space is given orphans without asking. */
    if (getpid() != 1)
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* If it were ignored, as it may have been inherited, there would be nothing to wait for. */
    sigaction(SIGCHLD, &standard, NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    init->control = control;
    init->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (init->signals < 0)
        return failure(error, "signalfd", NULL);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return failure(error, "pipe", NULL);
    /* First, so that nothing of the command's is ever seen before it. */
    tell(init, &started, 1);
    init->command = fork();
    if (init->command == 0)
        command_become(orders, control, ends[1]);
    close(ends[1]);
    init->report = ends[0];
    return init->command > 0 || failure(error, "fork", NULL);
}

/* The command has been executed, or has said why not. */
static void take_report(struct init *init)
{
    char message[MESSAGE_MAX];
    ssize_t n;

    do
        n = read(init->report, message + 1, sizeof message - 1);
    while (n < 0 && errno == EINTR);
    close(init->report);
    init->report = -1;
    if (n <= 0)
        return;
    message[0] = MESSAGE_FAILED;
    tell(init, message, 1 + (size_t)n);
    _exit(STATUS_FAILED);
}

static _Noreturn void command_ended(struct init *init, int status)
{
    bool killed = WIFSIGNALED(status);
    int number = killed ? WTERMSIG(status) : WEXITSTATUS(status);
    uint8_t message[2] = {killed ? MESSAGE_KILLED : MESSAGE_EXITED, (uint8_t)number};

    /* Its end of the pipe was closed before it could be waited for: this does not block. */
    if (init->report >= 0)
        take_report(init);
    tell(init, message, sizeof message);
    _exit(killed ? 128 + number : number);
}

static void reap(struct init *init)
{
    struct signalfd_siginfo info;
    pid_t pid;
    int status;

    while (read(init->signals, &info, sizeof info) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == init->command)
            command_ended(init, status);
}

static void take_message(struct init *init)
{
    uint8_t message[MESSAGE_MAX];
    size_t fds;
    ssize_t n = fd_receive(init->control, message, sizeof message, NULL, 0, &fds);

    if (n <= 0)
        _exit(STATUS_FAILED);
    if (n == 2 && message[0] == MESSAGE_SIGNAL)
        kill(init->command, message[1]);
}

_Noreturn void init_serve(struct init *init)
{
    enum { REPORT, CONTROL, SIGNALS, WATCHED };

    for (;;) {
        struct pollfd watched[WATCHED] = {
            [REPORT] = {.fd = init->report, .events = POLLIN},
            [CONTROL] = {.fd = init->control, .events = POLLIN},
            [SIGNALS] = {.fd = init->signals, .events = POLLIN},
        };
        if (poll(watched, WATCHED, -1) < 0)
            continue;
        if (watched[REPORT].revents != 0)
            take_report(init);
        if (watched[SIGNALS].revents != 0)
            reap(init);
        if (watched[CONTROL].revents != 0)
            take_message(init);
    }
}
