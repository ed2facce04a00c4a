#include "launcher/ask_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum {
    QUEUE_MAX = 4 << 20,
    LINE_BYTES_MAX = 4096, /* the kernel's own for an edited line */
    READ_BYTES = 4096,
    DRAIN_MS = 1000
};

/* Whatever was written before leaves no trace in a question: the scrolling region is the whole
 * screen, with the cursor where it is, what is typed overwrites, and characters are plain ones. */
static const char plain[] = "\0337\033[r\0338\033[4l\017\033(B\033[0m";

struct ask_terminal {
    struct ev_loop *loop;
    struct ask_terminal_events events;
    int fd;
    struct termios found;
    struct termios before, asking; /* around a question */
    struct termios keys;           /* while keys are passed on */
    bool passing;                  /* keys are passed on when nothing is asked */
    bool paused;
    bool asked; /* a question is there */
    char last;  /* of it, kept back until the rest was taken; 0: none */
    bool heard; /* ... and all of it was taken: what is typed now answers it */
    bool gone;  /* hung up */
    bool obeys; /* it is known to obey escape sequences */
    struct buf queue, line;
    ev_io readable, writable;
    ev_signal continued, resized;
};

static bool in_foreground(const struct ask_terminal *t)
{
    return tcgetpgrp(t->fd) == getpgrp();
}

static bool same_modes(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

/* Sets modes, and fills *modes with what became of them. */
static void set_modes(const struct ask_terminal *t, struct termios *modes)
{
    tcsetattr(t->fd, TCSANOW, modes);
    tcgetattr(t->fd, modes);
}

/* Back from `ours` to `previous`, unless somebody else has set them since. */
static void restore_modes(const struct ask_terminal *t, const struct termios *ours,
                          const struct termios *previous)
{
    struct termios now;
    if (in_foreground(t) && tcgetattr(t->fd, &now) == 0 && same_modes(&now, ours))
        tcsetattr(t->fd, TCSANOW, previous);
}

/* --- reading ------------------------------------------------------------------------------- */

static void watch_input(struct ask_terminal *t)
{
    bool wanted = !t->gone && (t->asked ? t->heard : t->passing && !t->paused);
    if (wanted && !ev_is_active(&t->readable))
        ev_io_start(t->loop, &t->readable);
    else if (!wanted)
        ev_io_stop(t->loop, &t->readable);
}

/* A line ends with a newline alone: what the end-of-file key ends is none, and nothing of it
 * counts. */
static void take_answer(struct ask_terminal *t, const uint8_t *p, size_t n)
{
    const uint8_t *end = memchr(p, '\n', n);

    if (n == 0 || !buf_append(&t->line, p, end != NULL ? (size_t)(end - p) : n))
        buf_clear(&t->line);
    if (end == NULL && n != 0)
        return;
    if (n == 0)
        (void)ask_terminal_write(t, "\n", 1);
    /* What an event does may begin another question, and read another line. */
    char *line = mem_dup_n(buf_cstr(&t->line), buf_len(&t->line));
    size_t len = buf_len(&t->line);
    buf_clear(&t->line);
    t->events.line(t->events.ctx, line, len);
    free(line);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct ask_terminal *t = io->data;
    uint8_t bytes[READ_BYTES];
    ssize_t n = read(t->fd, bytes, sizeof bytes);
    (void)loop;
    (void)revents;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* In the background reading is an error, as SIGTTIN is blocked; SIGCONT tells of the return. */
    if (n < 0 || (n == 0 && !t->asked)) {
        t->gone = n == 0 || in_foreground(t);
        ev_io_stop(t->loop, &t->readable);
        if (t->asked)
            t->events.lost(t->events.ctx);
        return;
    }
    if (t->asked)
        take_answer(t, bytes, (size_t)n);
    else
        t->events.keys(t->events.ctx, bytes, (size_t)n);
}

/* --- writing ------------------------------------------------------------------------------- */

/* False when the terminal takes no more for now. */
static bool write_queue(struct ask_terminal *t)
{
    while (buf_len(&t->queue) != 0) {
        ssize_t n = write(t->fd, buf_data(&t->queue), buf_len(&t->queue));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0) /* hung up: nobody will see it */
            buf_clear(&t->queue);
        else
            buf_consume(&t->queue, (size_t)n);
    }
    return true;
}

/* Ends the question: what is typed from here on was typed after it. Whoever sees its last character
 * may type at once, so the rest is thrown away before that. False as above. */
static bool write_last(struct ask_terminal *t)
{
    ssize_t n;

    if (!t->asked || t->last == 0)
        return true;
    do {
        tcflush(t->fd, TCIFLUSH);
        n = write(t->fd, &t->last, 1);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    t->last = 0;
    t->heard = true;
    watch_input(t);
    return true;
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct ask_terminal *t = io->data;
    (void)revents;

    if (!write_queue(t) || !write_last(t))
        return;
    ev_io_stop(loop, &t->writable);
    t->events.taken(t->events.ctx);
}

bool ask_terminal_write(struct ask_terminal *t, const void *p, size_t n)
{
    if (!buf_append(&t->queue, p, n))
        return false;
    if (!ev_is_active(&t->writable) && (!write_queue(t) || !write_last(t)))
        ev_io_start(t->loop, &t->writable);
    return true;
}

size_t ask_terminal_queued(const struct ask_terminal *t)
{
    return buf_len(&t->queue);
}

bool ask_terminal_drain(struct ask_terminal *t)
{
    struct pollfd out = {.fd = t->fd, .events = POLLOUT};
    while (!write_queue(t))
        if (poll(&out, 1, DRAIN_MS) != 1)
            return false;
    return true;
}

/* --- keys and questions -------------------------------------------------------------------- */

void ask_terminal_keys(struct ask_terminal *t)
{
    t->passing = true;
    if (!in_foreground(t))
        return;
    t->keys = t->found;
    cfmakeraw(&t->keys);
    set_modes(t, &t->keys);
    watch_input(t);
}

void ask_terminal_pause(struct ask_terminal *t, bool pause)
{
    t->paused = pause;
    watch_input(t);
}

/* The modes of a question: the user's own, made fit for lines. */
static void make_modes(struct ask_terminal *t)
{
    struct termios *m = &t->asking;

    *m = t->found;
    m->c_iflag &= ~(tcflag_t)(IGNBRK | PARMRK | INPCK | ISTRIP | INLCR | IGNCR | IUCLC | IXON);
    m->c_iflag |= BRKINT | ICRNL;
    m->c_oflag &= ~(tcflag_t)(OLCUC | OCRNL | ONOCR | ONLRET);
    m->c_oflag |= OPOST | ONLCR;
    m->c_lflag &= ~(tcflag_t)(NOFLSH | TOSTOP | EXTPROC);
    m->c_lflag |= ICANON | ECHO | ECHOE | ECHOK | ISIG | IEXTEN;
    /* srt cannot be stopped with a question open, and a line ends with Enter alone. */
    m->c_cc[VSUSP] = m->c_cc[VEOL] = m->c_cc[VEOL2] = _POSIX_VDISABLE;
}

bool ask_terminal_begin(struct ask_terminal *t)
{
    if (t->gone || !in_foreground(t) || tcgetattr(t->fd, &t->before) != 0)
        return false;
    make_modes(t);
    set_modes(t, &t->asking);
    t->asked = true;
    t->heard = false;
    watch_input(t);
    buf_clear(&t->line);
    if (t->obeys)
        (void)ask_terminal_write(t, plain, sizeof plain - 1);
    (void)ask_terminal_write(t, "\n", 1);
    return true;
}

/* More comes behind it. */
static void flush_last(struct ask_terminal *t)
{
    char last = t->last;
    t->last = 0;
    if (last != 0)
        (void)ask_terminal_write(t, &last, 1);
}

void ask_terminal_show(struct ask_terminal *t, const char *text, size_t n)
{
    /* A terminal that takes nothing shows nothing: the question ends by its time. */
    flush_last(t);
    t->heard = false;
    watch_input(t);
    t->last = text[n - 1];
    (void)ask_terminal_write(t, text, n - 1);
}

void ask_terminal_end(struct ask_terminal *t)
{
    if (!t->asked)
        return;
    flush_last(t);
    t->asked = false;
    t->heard = false;
    restore_modes(t, &t->asking, &t->before);
    watch_input(t);
}

/* --- the whole ----------------------------------------------------------------------------- */

static void on_continued(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct ask_terminal *t = signal->data;
    (void)loop;
    (void)revents;

    /* Back in the foreground; a shell may have set modes of its own meanwhile. */
    if (!in_foreground(t))
        return;
    if (t->asked)
        set_modes(t, &t->asking);
    else if (t->passing)
        ask_terminal_keys(t);
    t->events.resized(t->events.ctx);
}

static void on_resized(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct ask_terminal *t = signal->data;
    (void)loop;
    (void)revents;
    t->events.resized(t->events.ctx);
}

/* Whoever is not in the foreground is stopped for reading a terminal or setting its modes, unless
 * it blocks that: the proxy must go on. */
static void never_stop(void)
{
    sigset_t stopping;
    sigemptyset(&stopping);
    sigaddset(&stopping, SIGTTIN);
    sigaddset(&stopping, SIGTTOU);
    sigprocmask(SIG_BLOCK, &stopping, NULL);
}

struct ask_terminal *ask_terminal_open(struct ev_loop *loop, const struct ask_terminal_events *e,
                                       struct buf *error)
{
    struct termios found;
    const char *term = getenv("TERM");
    /* An open of its own: that it does not block is nobody else's matter. */
    int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || tcgetattr(fd, &found) != 0) {
        if (fd >= 0)
            close(fd);
        buf_puts(error, "--ask needs a terminal");
        return NULL;
    }
    never_stop();
    struct ask_terminal *t = mem_alloc(sizeof *t);
    *t = (struct ask_terminal){.loop = loop, .events = *e, .fd = fd, .found = found};
    t->obeys = term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
    buf_init(&t->queue, QUEUE_MAX);
    buf_init(&t->line, LINE_BYTES_MAX);
    ev_io_init(&t->readable, on_readable, fd, EV_READ);
    ev_io_init(&t->writable, on_writable, fd, EV_WRITE);
    ev_signal_init(&t->continued, on_continued, SIGCONT);
    ev_signal_init(&t->resized, on_resized, SIGWINCH);
    t->readable.data = t->writable.data = t->continued.data = t->resized.data = t;
    ev_signal_start(loop, &t->continued);
    ev_signal_start(loop, &t->resized);
    return t;
}

void ask_terminal_free(struct ask_terminal *t)
{
    if (t == NULL)
        return;
    ask_terminal_end(t);
    if (t->passing)
        restore_modes(t, &t->keys, &t->found);
    ev_io_stop(t->loop, &t->readable);
    ev_io_stop(t->loop, &t->writable);
    ev_signal_stop(t->loop, &t->continued);
    ev_signal_stop(t->loop, &t->resized);
    buf_free(&t->queue);
    buf_free(&t->line);
    close(t->fd);
    free(t);
}

bool ask_terminal_is(const struct ask_terminal *t, int fd)
{
    (void)t;
    /* Only of the controlling terminal does a process learn the session. */
    return tcgetsid(fd) == getsid(0);
}

void ask_terminal_size(const struct ask_terminal *t, struct winsize *size)
{
    if (ioctl(t->fd, TIOCGWINSZ, size) != 0)
        *size = (struct winsize){0};
}

const struct termios *ask_terminal_found(const struct ask_terminal *t)
{
    return &t->found;
}
