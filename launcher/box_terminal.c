#include "launcher/box_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum {
    HELD_MAX = 1 << 20, /* of what the box writes during a question */
    KEYS_MAX = 1 << 16, /* that the box has not read */
    READ_BYTES = 16384,
    SHOWN_READS = 16, /* more than a terminal keeps */
    DRAIN_MS = 100
};

/* That a screen has one row less, for programs that draw it again only where its size has changed
 * once they look. */
static const double SMALLER_S = 0.15;

struct box_terminal {
    struct ev_loop *loop;
    struct ask_terminal *outer;
    int master, slave; /* slave: -1 once the box has it */
    bool replaces[3];
    bool held;
    struct buf output, keys;
    ev_io readable, writable;
    ev_timer smaller;
};

static void watch_output(struct box_terminal *b)
{
    bool wanted = b->held ? buf_room(&b->output) >= READ_BYTES : ask_terminal_queued(b->outer) == 0;
    if (wanted && b->slave < 0)
        ev_io_start(b->loop, &b->readable);
    else
        ev_io_stop(b->loop, &b->readable);
}

/* False when nothing is there, or nobody has the other end any more. */
static bool read_output(struct box_terminal *b)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n = read(b->master, bytes, sizeof bytes);

    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            ev_io_stop(b->loop, &b->readable);
        return n < 0 && errno == EINTR;
    }
    if (b->held)
        (void)buf_append(&b->output, bytes, (size_t)n);
    else
        (void)ask_terminal_write(b->outer, bytes, (size_t)n);
    return true;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct box_terminal *b = io->data;
    (void)loop;
    (void)revents;
    if (read_output(b))
        watch_output(b);
}

static void write_keys(struct box_terminal *b)
{
    while (buf_len(&b->keys) != 0) {
        ssize_t n = write(b->master, buf_data(&b->keys), buf_len(&b->keys));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            ev_io_start(b->loop, &b->writable);
            return;
        }
        if (n < 0)
            buf_clear(&b->keys);
        else
            buf_consume(&b->keys, (size_t)n);
    }
    ev_io_stop(b->loop, &b->writable);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct box_terminal *b = io->data;
    (void)loop;
    (void)revents;
    write_keys(b);
    if (buf_len(&b->keys) < KEYS_MAX / 2)
        ask_terminal_pause(b->outer, false);
}

void box_terminal_keys(struct box_terminal *b, const uint8_t *p, size_t n)
{
    (void)buf_append(&b->keys, p, n);
    write_keys(b);
    if (buf_len(&b->keys) >= KEYS_MAX / 2)
        ask_terminal_pause(b->outer, true);
}

void box_terminal_signal(struct box_terminal *b, int number)
{
    struct termios modes;

    /* Where it is a signal it is one at once; else it is the key that it was. */
    if (tcgetattr(b->master, &modes) == 0 && (modes.c_lflag & ISIG) != 0 &&
        ioctl(b->master, TIOCSIG, number) == 0)
        return;
    uint8_t key = ask_terminal_found(b->outer)->c_cc[number == SIGQUIT ? VQUIT : VINTR];
    box_terminal_keys(b, &key, 1);
}

void box_terminal_interrupt(struct box_terminal *b)
{
    (void)ioctl(b->master, TIOCSIG, SIGINT);
}

void box_terminal_taken(struct box_terminal *b)
{
    watch_output(b);
}

void box_terminal_resized(struct box_terminal *b)
{
    struct winsize size;
    ev_timer_stop(b->loop, &b->smaller);
    ask_terminal_size(b->outer, &size);
    ioctl(b->master, TIOCSWINSZ, &size);
}

static void on_smaller_over(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    box_terminal_resized(timer->data);
}

void box_terminal_redraw(struct box_terminal *b)
{
    struct termios modes;
    struct winsize size;

    if (b->slave >= 0 || tcgetattr(b->master, &modes) != 0 || (modes.c_lflag & ICANON) != 0)
        return;
    ask_terminal_size(b->outer, &size);
    size.ws_row = (unsigned short)(size.ws_row > 1 ? size.ws_row - 1 : size.ws_row + 1);
    ioctl(b->master, TIOCSWINSZ, &size);
    ev_timer_stop(b->loop, &b->smaller);
    ev_timer_set(&b->smaller, SMALLER_S, 0);
    ev_timer_start(b->loop, &b->smaller);
}

void box_terminal_show(struct box_terminal *b)
{
    /* It may be writing all the time. */
    for (int i = 0; i < SHOWN_READS && b->slave < 0; i++)
        if (ask_terminal_queued(b->outer) >= HELD_MAX || !read_output(b))
            break;
}

void box_terminal_hold(struct box_terminal *b, bool hold)
{
    b->held = hold;
    if (!hold && buf_len(&b->output) != 0) {
        (void)ask_terminal_write(b->outer, buf_data(&b->output), buf_len(&b->output));
        buf_free(&b->output);
    }
    watch_output(b);
}

static bool open_pair(struct box_terminal *b)
{
    b->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (b->master < 0 || grantpt(b->master) != 0 || unlockpt(b->master) != 0 ||
        !fd_nonblock(b->master, true))
        return false;
#ifdef TIOCGPTPEER
    /* Whatever is mounted at /dev/pts. */
    b->slave = ioctl(b->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
#endif
    if (b->slave < 0) {
        char name[64];
        if (ptsname_r(b->master, name, sizeof name) == 0)
            b->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    }
    return b->slave >= 0 && tcsetattr(b->slave, TCSANOW, ask_terminal_found(b->outer)) == 0;
}

struct box_terminal *box_terminal_new(struct ev_loop *loop, struct ask_terminal *outer,
                                      struct buf *error)
{
    struct box_terminal *b = mem_alloc(sizeof *b);
    bool any = false;

    *b = (struct box_terminal){.loop = loop, .outer = outer, .master = -1, .slave = -1};
    buf_init(&b->output, HELD_MAX);
    buf_init(&b->keys, KEYS_MAX);
    ev_io_init(&b->readable, on_readable, -1, EV_READ);
    ev_io_init(&b->writable, on_writable, -1, EV_WRITE);
    ev_timer_init(&b->smaller, on_smaller_over, 0, 0);
    b->smaller.data = b;
    for (int n = STDIN_FILENO; n <= STDERR_FILENO; n++) {
        b->replaces[n] = ask_terminal_is(outer, n);
        any = any || b->replaces[n];
    }
    if (any && open_pair(b)) {
        ev_io_set(&b->readable, b->master, EV_READ);
        ev_io_set(&b->writable, b->master, EV_WRITE);
        b->readable.data = b->writable.data = b;
        box_terminal_resized(b);
        return b;
    }
    if (any)
        buf_printf(error, "--ask: no terminal for the command: %s", strerror(errno));
    box_terminal_free(b);
    return NULL;
}

void box_terminal_free(struct box_terminal *b)
{
    if (b == NULL)
        return;
    ev_io_stop(b->loop, &b->readable);
    ev_io_stop(b->loop, &b->writable);
    ev_timer_stop(b->loop, &b->smaller);
    if (b->slave >= 0)
        close(b->slave);
    if (b->master >= 0)
        close(b->master);
    buf_free(&b->output);
    buf_free(&b->keys);
    free(b);
}

int box_terminal_stdio(const struct box_terminal *b, int n)
{
    return b->replaces[n] ? b->slave : -1;
}

bool box_terminal_has_keys(const struct box_terminal *b)
{
    return b->replaces[STDIN_FILENO] || b->replaces[STDOUT_FILENO];
}

void box_terminal_started(struct box_terminal *b)
{
    close(b->slave);
    b->slave = -1;
    if (box_terminal_has_keys(b))
        ask_terminal_keys(b->outer, b->replaces[STDOUT_FILENO] && b->replaces[STDERR_FILENO]);
    watch_output(b);
}

void box_terminal_drain(struct box_terminal *b)
{
    struct pollfd in = {.fd = b->master, .events = POLLIN};

    if (b->slave >= 0)
        return;
    box_terminal_hold(b, false);
    while (ask_terminal_drain(b->outer) &&
           (read_output(b) || (poll(&in, 1, DRAIN_MS) == 1 && (in.revents & POLLIN) != 0)))
        ;
    ev_io_stop(b->loop, &b->readable);
}
