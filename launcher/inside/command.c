#include "launcher/inside/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "launcher/inside/confine.h"
#include "launcher/inside/failure.h"

/* Every signal as a fresh login has it, but for those the caller ignored. */
static void set_signals(uint64_t ignored)
{
    sigset_t none;

    for (int n = 1; n <= 64; n++) {
        struct sigaction action = {.sa_handler = (ignored >> (n - 1) & 1) != 0 ? SIG_IGN : SIG_DFL};
        sigaction(n, &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Out of the way of a number that is given to something else. */
static bool move_from(int *fd, int number)
{
    if (*fd == number)
        *fd = fcntl(*fd, F_DUPFD_CLOEXEC, number + 1);
    return *fd >= 0;
}

static bool open_null(int number)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    return fd >= 0 && (fd == number ? fd_cloexec(fd, false) : dup2(fd, number) >= 0);
}

static bool enter_directory(const struct orders *o)
{
    return chdir(o->directory) == 0 || chdir(o->fallback) == 0 || chdir("/") == 0;
}

/* Observing is reporting only: the command runs without it. */
static bool observe(const struct orders *o, int control)
{
    char message[MESSAGE_MAX] = {MESSAGE_NOTIFY};
    int listener = confine_observe(o->observe, o->observe_len);

    if (listener >= 0)
        return fd_send(control, message, 1, &listener, 1);
    const char *why = strerror(errno);
    size_t n = strnlen(why, sizeof message - 1);
    memcpy(message + 1, why, n);
    return fd_send(control, message, 1 + n, NULL, 0);
}

static bool prepare(const struct orders *o, int *control, int *report, struct buf *error)
{
    if ((o->flags & ORDER_NEW_SESSION) != 0 && setsid() < 0)
        return failure(error, "setsid", NULL);
    if ((o->flags & ORDER_TERMINAL) != 0 && ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0 &&
        ioctl(STDOUT_FILENO, TIOCSCTTY, 0) != 0)
        return failure(error, "terminal", NULL);
    if ((o->flags & ORDER_NULL_FD) != 0 &&
        (!move_from(control, o->null_fd) || !move_from(report, o->null_fd) ||
         !open_null(o->null_fd)))
        return failure(error, "open", "/dev/null");
    if (!enter_directory(o))
        return failure(error, "chdir", "/");
    set_signals(o->ignored_signals);
    /* All of ours are close-on-exec already, each by itself; this holds for what is not ours. */
    close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if ((o->flags & ORDER_NULL_FD) != 0 && !fd_cloexec(o->null_fd, false))
        return failure(error, "open", "/dev/null");
    if ((o->flags & ORDER_OBSERVE) != 0 && !observe(o, *control))
        return failure(error, "observe", NULL);
    return true;
}

_Noreturn void command_become(const struct orders *o, int control, int report)
{
    struct buf error;

    buf_init(&error, MESSAGE_MAX - 1);
    if (prepare(o, &control, &report, &error)) {
        execve(o->program, (char *const *)(uintptr_t)o->argv, (char *const *)(uintptr_t)o->envp);
        failure(&error, "exec", NULL);
    }
    fd_write_all(report, buf_data(&error), buf_len(&error));
    _exit(1);
}
