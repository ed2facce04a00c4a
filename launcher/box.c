#include "launcher/box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

/* Of what bubblewrap says while it fails, enough for every message it has. */
enum { SAID_MAX = 4096 };

/*
 * srt-inside ends when its socket closes, and with it every process of its name space; so does the
 * box that is still being made, once srt-inside has come up. Only what does not heed that is
 * killed: a bubblewrap that is killed early leaves a child behind that waits for it for ever.
 */
enum {
    HEED_MS = 2000,
    GONE_MS = 10000 /* that killed processes have, whatever keeps them from running */
};

struct box {
    struct ev_loop *loop;
    struct box_events events;
    pid_t pid; /* bubblewrap's; 0 once it is gone */
    int socket, said_fd;
    int init; /* pidfd of srt-inside; -1: not known */
    ev_io message, said_ready, init_gone;
    ev_child child;
    ev_timer heed; /* how long the box has to end by itself */
    bool killed;
    struct buf said;    /* by bubblewrap */
    struct buf failure; /* MESSAGE_FAILED */
    bool up;            /* srt-inside has made itself heard */
    bool over;          /* the command's end has been told */
    struct box_end end;
};

static int memory_file(const char *name, const struct buf *content)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (!fd_write_all(fd, buf_data(content), buf_len(content)) || lseek(fd, 0, SEEK_SET) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* --- what comes out of the box ------------------------------------------------------------- */

static void end_is(struct box *b, enum box_end_kind kind, int value)
{
    b->over = true;
    b->end = (struct box_end){.kind = kind, .value = value};
}

/* Descriptors that no message explains are closed. */
static void on_descriptors(struct box *b, const uint8_t *message, size_t n, const int *fds,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (message[0] == MESSAGE_LISTENERS && n == count + 1)
            b->events.listener(b->events.ctx, fds[i], (enum listener_port)message[1 + i]);
        else if (message[0] == MESSAGE_NOTIFY && count == 1)
            b->events.observer(b->events.ctx, fds[i]);
        else if (message[0] == MESSAGE_INIT && count == 1 && b->init < 0)
            b->init = fds[i];
        else
            close(fds[i]);
    }
}

/* False when nothing is waiting, or at the end. */
static bool read_message(struct box *b)
{
    uint8_t message[MESSAGE_MAX];
    int fds[LISTENERS_PASSED_MAX];
    size_t count = 0;
    ssize_t n = fd_receive(b->socket, message, sizeof message, fds, LISTENERS_PASSED_MAX, &count);

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            ev_io_stop(b->loop, &b->message);
        return n < 0 && errno == EINTR;
    }
    b->up = true;
    on_descriptors(b, message, (size_t)n, fds, count);
    switch ((enum message_kind)message[0]) {
    case MESSAGE_FAILED:
        end_is(b, BOX_FAILED, 0);
        buf_append(&b->failure, message + 1, (size_t)n - 1);
        break;
    case MESSAGE_EXITED:
    case MESSAGE_KILLED:
        if (n == 2)
            end_is(b, message[0] == MESSAGE_EXITED ? BOX_EXITED : BOX_KILLED, message[1]);
        break;
    case MESSAGE_NOTIFY:
        if (count == 0)
            log_warning("file-system violations cannot be observed here: %.*s", (int)n - 1,
                        (const char *)message + 1);
        break;
    case MESSAGE_STARTED:
        b->events.started(b->events.ctx);
        break;
    case MESSAGE_INIT:
    case MESSAGE_LISTENERS:
    case MESSAGE_ORDERS:
    case MESSAGE_SIGNAL:
        break;
    }
    return true;
}

static void on_message(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    (void)revents;
    read_message(io->data);
}

/* What bubblewrap says is kept for the case that it fails; past that, and once the box is up, it
 * goes where it would have gone. */
static bool read_said(struct box *b)
{
    uint8_t bytes[1024];
    ssize_t n = read(b->said_fd, bytes, sizeof bytes);

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            ev_io_stop(b->loop, &b->said_ready);
        return n < 0 && errno == EINTR;
    }
    if (b->up || !buf_append(&b->said, bytes, (size_t)n))
        fd_write_all(STDERR_FILENO, bytes, (size_t)n);
    return true;
}

static void on_said(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    (void)revents;
    read_said(io->data);
}

/* srt-inside, and with it the whole name space, is gone. */
static bool init_is_gone(const struct box *b, int wait_ms)
{
    struct pollfd init = {.fd = b->init, .events = POLLIN};
    return b->init < 0 || poll(&init, 1, wait_ms) == 1;
}

static void tell_end(struct box *b)
{
    ev_io_stop(b->loop, &b->init_gone);
    ev_timer_stop(b->loop, &b->heed);
    const struct buf *text = b->end.kind == BOX_FAILED ? &b->failure : &b->said;
    b->end.text = buf_chars(text);
    b->end.text_len = buf_len(text);
    b->events.ended(b->events.ctx, &b->end);
}

static void on_init_gone(struct ev_loop *loop, ev_io *io, int revents)
{
    (void)loop;
    (void)revents;
    tell_end(io->data);
}

static void kill_init(const struct box *b)
{
    if (b->init >= 0)
        (void)syscall(SYS_pidfd_send_signal, b->init, SIGKILL, NULL, 0);
}

static void on_child(struct ev_loop *loop, ev_child *child, int revents)
{
    struct box *b = child->data;
    int status = child->rstatus;
    (void)revents;

    ev_child_stop(loop, child);
    b->pid = 0;
    while (read_message(b) || read_said(b))
        ;
    if (!b->over && b->killed)
        end_is(b, BOX_LOST, SIGKILL);
    else if (!b->over && WIFSIGNALED(status))
        end_is(b, BOX_LOST, WTERMSIG(status));
    else if (!b->over)
        end_is(b, BOX_NOT_BUILT, WEXITSTATUS(status));
    if (init_is_gone(b, 0)) {
        tell_end(b);
        return;
    }
    /* bubblewrap was killed under it. */
    kill_init(b);
    ev_io_init(&b->init_gone, on_init_gone, b->init, EV_READ);
    b->init_gone.data = b;
    ev_io_start(loop, &b->init_gone);
    ev_timer_stop(loop, &b->heed);
    ev_timer_set(&b->heed, GONE_MS / 1e3, 0);
    ev_timer_start(loop, &b->heed);
}

/* --- starting ------------------------------------------------------------------------------ */

/* Descriptors that bubblewrap gets; those from `errors` on srt-inside too. */
struct start {
    int said, args, inside, errors, control;
};

static void child_signals(void)
{
    sigset_t none;
    /* What the terminal or somebody else sends to the group is the command's to answer: were
     * bubblewrap to die of it, so would everything. */
    static const int left_to_the_command[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                              SIGUSR1, SIGUSR2, SIGTSTP};

    for (size_t i = 0; i < sizeof left_to_the_command / sizeof left_to_the_command[0]; i++)
        signal(left_to_the_command[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. */
__attribute__((noreturn)) static void become_bubblewrap(const struct box_options *o,
                                                        const struct start *s)
{
    static char *const no_environment[] = {NULL};
    char args[16], program[32], control[16], errors[16];
    const char *argv[] = {
        o->dependencies->bwrap, "--args", args, "--", program, control, errors, NULL};

    child_signals();
    for (int n = STDIN_FILENO; o->stdio != NULL && n <= STDERR_FILENO; n++)
        if (o->stdio[n] >= 0 && dup2(o->stdio[n], n) < 0)
            _exit(1);
    setrlimit(RLIMIT_NOFILE, &o->files);
    setrlimit(RLIMIT_CORE, &o->cores);
    /* Older kernels lack the call; srt-inside closes what came along as well. */
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (!fd_cloexec(s->args, false) || !fd_cloexec(s->inside, false) ||
        !fd_cloexec(s->errors, false) || !fd_cloexec(s->control, false) ||
        dup2(s->said, STDERR_FILENO) < 0)
        _exit(1);
    snprintf(args, sizeof args, "%d", s->args);
    snprintf(program, sizeof program, "/proc/self/fd/%d", s->inside);
    snprintf(control, sizeof control, "%d", s->control);
    snprintf(errors, sizeof errors, "%d", s->errors);
    execve(o->dependencies->bwrap, (char *const *)argv, no_environment);
    dprintf(STDERR_FILENO, "%s: %s\n", o->dependencies->bwrap, strerror(errno));
    _exit(1);
}

static void on_not_heeded(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct box *b = timer->data;
    (void)loop;
    (void)revents;
    if (b->pid == 0) {
        tell_end(b);
        return;
    }
    kill_init(b);
    kill(b->pid, SIGKILL);
}

static void watch(struct box *b)
{
    ev_io_init(&b->message, on_message, b->socket, EV_READ);
    ev_io_init(&b->said_ready, on_said, b->said_fd, EV_READ);
    ev_child_init(&b->child, on_child, b->pid, 0);
    ev_timer_init(&b->heed, on_not_heeded, HEED_MS / 1e3, 0);
    b->message.data = b->said_ready.data = b->child.data = b->heed.data = b;
    ev_io_start(b->loop, &b->message);
    ev_io_start(b->loop, &b->said_ready);
    ev_child_start(b->loop, &b->child);
}

struct box *box_start(const struct box_options *o, struct buf *error)
{
    struct box *b = NULL;
    struct buf words;
    int pair[2] = {-1, -1}, said[2] = {-1, -1};
    struct start s = {.said = -1, .args = -1, .inside = o->inside, .errors = -1};
    pid_t pid = -1;

    buf_init(&words, SIZE_MAX / 2);
    if (!box_arguments(o, &words, error))
        goto out;
    s.args = memory_file("srt-args", &words);
    int errors =
        o->stdio != NULL && o->stdio[STDERR_FILENO] >= 0 ? o->stdio[STDERR_FILENO] : STDERR_FILENO;
    s.errors = fcntl(errors, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (s.args >= 0 && s.errors >= 0 && pipe2(said, O_CLOEXEC) == 0 && fd_nonblock(said[0], true) &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0 &&
        fd_nonblock(pair[0], true)) {
        s.said = said[1];
        s.control = pair[1];
        pid = fork();
    }
    if (pid < 0) {
        buf_printf(error, "the box cannot be started: %s", strerror(errno));
        goto out;
    }
    if (pid == 0)
        become_bubblewrap(o, &s);

    b = mem_alloc(sizeof *b);
    *b = (struct box){.loop = o->loop, .events = o->events, .pid = pid, .init = -1};
    b->socket = pair[0];
    b->said_fd = said[0];
    pair[0] = said[0] = -1;
    buf_init(&b->said, SAID_MAX);
    buf_init(&b->failure, MESSAGE_MAX);
    watch(b);
out:
    close_if_open(s.args);
    close_if_open(s.errors);
    close_if_open(said[0]);
    close_if_open(said[1]);
    close_if_open(pair[0]);
    close_if_open(pair[1]);
    buf_free(&words);
    return b;
}

bool box_order(struct box *b, const struct orders *orders, int lock, struct buf *error)
{
    static const uint8_t kind = MESSAGE_ORDERS;
    struct buf encoded;

    buf_init(&encoded, SIZE_MAX / 2);
    orders_encode(orders, &encoded);
    if (buf_len(&encoded) == 0) {
        buf_printf(error, "the command, its environment and the mounts take more than %d MiB",
                   ORDERS_MAX >> 20);
        return false;
    }
    int fd = memory_file("srt-orders", &encoded);
    buf_wipe(&encoded);
    const int fds[] = {fd, lock};
    bool sent = fd >= 0 && fd_send(b->socket, &kind, 1, fds, lock >= 0 ? 2 : 1);
    /* When the box could not be built nobody is there to read; how it ended says more. */
    if (!sent && errno != EPIPE && errno != ECONNRESET) {
        buf_printf(error, "the box cannot be told what to do: %s", strerror(errno));
    } else {
        sent = true;
    }
    close_if_open(fd);
    return sent;
}

void box_poll(struct box *b)
{
    while (read_message(b))
        ;
}

void box_signal(struct box *b, int number)
{
    const uint8_t message[] = {MESSAGE_SIGNAL, (uint8_t)number};
    (void)fd_send(b->socket, message, sizeof message, NULL, 0);
}

void box_kill(struct box *b)
{
    b->killed = true;
    shutdown(b->socket, SHUT_RDWR);
    if (b->pid > 0)
        ev_timer_start(b->loop, &b->heed);
}

/* Waits for bubblewrap, first for its own end. */
static void await_end(const struct box *b)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < HEED_MS; i++) {
        if (waitpid(b->pid, NULL, WNOHANG) != 0)
            return;
        nanosleep(&pause, NULL);
    }
    kill_init(b);
    kill(b->pid, SIGKILL);
    while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool box_free(struct box *b)
{
    if (b == NULL)
        return true;
    ev_child_stop(b->loop, &b->child);
    ev_timer_stop(b->loop, &b->heed);
    ev_io_stop(b->loop, &b->message);
    ev_io_stop(b->loop, &b->said_ready);
    ev_io_stop(b->loop, &b->init_gone);
    if (b->pid > 0) {
        shutdown(b->socket, SHUT_RDWR);
        await_end(b);
        while (read_message(b))
            ;
    }
    bool gone = init_is_gone(b, b->killed || b->pid > 0 ? GONE_MS : 0);
    close_if_open(b->init);
    close(b->socket);
    close(b->said_fd);
    buf_free(&b->said);
    buf_free(&b->failure);
    free(b);
    return gone;
}
