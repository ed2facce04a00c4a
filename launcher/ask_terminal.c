#include "launcher/ask_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/ask_screen.h"
#include "launcher/terminal_lock.h"

enum {
    QUEUE_MAX = 4 << 20,
    PROMPT_MAX = 128,
    READ_BYTES = 4096, /* no line that the kernel edits is longer */
    DRAIN_MS = 1000
};

/* How often a terminal is looked at while it is somebody else's. */
static const double LOOK_S = 0.5;
/* Who is started together with srt has this long to take the terminal. */
static const double YIELD_S = 0.3;

enum phase {
    QUIET,     /* nothing is asked */
    TELLING,   /* a question is there; not all of its text was taken, or it has no prompt */
    SETTLING,  /* it was taken; a while without a key is awaited */
    PROMPTING, /* the prompt is being written */
    HEARING    /* lines are answers */
};

struct ask_terminal {
    struct ev_loop *loop;
    struct ask_terminal_events events;
    int fd;
    int lock;
    enum phase phase;
    struct termios found;
    struct termios before;   /* a question */
    struct termios question; /* as they were set last for one */
    struct termios keys;     /* while keys are passed on */
    bool passing;            /* keys are to be passed on when nothing is asked */
    bool whole;              /* nobody else writes to it */
    bool taken;              /* `keys` are set */
    bool paused;
    bool gone;  /* hung up */
    bool obeys; /* it is known to obey escape sequences */
    struct buf queue, prompt;
    ev_io readable, writable;
    ev_timer settle, look;
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

/* Somebody else has it: to be looked at from time to time. Nobody tells of the return to the
 * foreground of what ran in the background. */
static void look_later(struct ask_terminal *t, double after)
{
    if (ev_is_active(&t->look))
        return;
    ev_timer_set(&t->look, after, LOOK_S);
    ev_timer_start(t->loop, &t->look);
}

/* --- reading ------------------------------------------------------------------------------- */

static bool is_asked(const struct ask_terminal *t)
{
    return t->phase != QUIET;
}

static void watch_input(struct ask_terminal *t)
{
    bool wanted = is_asked(t) ? t->phase == SETTLING || t->phase == HEARING
                              : t->passing && t->taken && !t->paused;
    if (wanted && !t->gone && !ev_is_active(&t->readable))
        ev_io_start(t->loop, &t->readable);
    else if (!wanted || t->gone)
        ev_io_stop(t->loop, &t->readable);
}

/* What the end-of-file key ends is no line, and nothing of it counts. */
static void take_answer(struct ask_terminal *t, const uint8_t *p, size_t n)
{
    const uint8_t *end = n != 0 ? memchr(p, '\n', n) : NULL;

    if (end == NULL)
        (void)ask_terminal_write(t, "\n", 1);
    /* What an event does may begin another question, and read another line. */
    size_t len = end != NULL ? (size_t)(end - p) : 0;
    char *line = mem_dup_n(len != 0 ? (const char *)p : "", len);
    t->events.line(t->events.ctx, line, len);
    free(line);
}

static void settle(struct ask_terminal *t)
{
    ev_timer_stop(t->loop, &t->settle);
    ev_now_update(t->loop);
    ev_timer_set(&t->settle, ASK_SETTLE_MS / 1e3, 0);
    ev_timer_start(t->loop, &t->settle);
}

static void on_lost(struct ask_terminal *t)
{
    ev_io_stop(t->loop, &t->readable);
    t->gone = in_foreground(t);
    if (!t->gone)
        look_later(t, LOOK_S);
    if (is_asked(t))
        t->events.lost(t->events.ctx);
}

/* Somebody else has set modes of his own, and gets the keys. */
static bool is_taken_over(struct ask_terminal *t)
{
    struct termios now;

    if (t->whole || tcgetattr(t->fd, &now) != 0 || same_modes(&now, &t->keys))
        return false;
    t->taken = false;
    watch_input(t);
    look_later(t, LOOK_S);
    return true;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct ask_terminal *t = io->data;
    uint8_t bytes[READ_BYTES];
    (void)loop;
    (void)revents;

    if (!is_asked(t) && is_taken_over(t))
        return;
    ssize_t n = read(t->fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* In the background reading is an error, as SIGTTIN is blocked. Only where lines are edited can
     * there be an end without one. */
    if (n < 0 || (n == 0 && t->phase != HEARING)) {
        on_lost(t);
        return;
    }
    if (t->phase == HEARING)
        take_answer(t, bytes, (size_t)n);
    else if (t->phase == SETTLING)
        settle(t);
    else
        t->events.keys(t->events.ctx, bytes, (size_t)n);
}

/* --- writing ------------------------------------------------------------------------------- */

/* False when the terminal takes no more just now. */
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

/* Whoever sees the last character may type at once: what comes before it is thrown away. False as
 * above. */
static bool write_prompt(struct ask_terminal *t)
{
    while (t->phase == PROMPTING) {
        tcflush(t->fd, TCIFLUSH);
        ssize_t n = write(t->fd, buf_data(&t->prompt), buf_len(&t->prompt));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        buf_consume(&t->prompt, n < 0 ? buf_len(&t->prompt) : (size_t)n);
        if (buf_len(&t->prompt) == 0)
            t->phase = HEARING;
    }
    watch_input(t);
    return true;
}

/* False as above. */
static bool write_all(struct ask_terminal *t)
{
    if (!write_queue(t))
        return false;
    if (t->phase == TELLING && buf_len(&t->prompt) != 0) {
        t->phase = SETTLING;
        tcflush(t->fd, TCIFLUSH);
        settle(t);
        watch_input(t);
    }
    return write_prompt(t);
}

static void on_writable(struct ev_loop *loop, ev_io *io, int revents)
{
    struct ask_terminal *t = io->data;
    (void)revents;

    if (!write_all(t))
        return;
    ev_io_stop(loop, &t->writable);
    t->events.taken(t->events.ctx);
}

static void write_on(struct ask_terminal *t)
{
    if (!ev_is_active(&t->writable) && !write_all(t))
        ev_io_start(t->loop, &t->writable);
}

bool ask_terminal_write(struct ask_terminal *t, const void *p, size_t n)
{
    if (!buf_append(&t->queue, p, n))
        return false;
    write_on(t);
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

/* --- keys ---------------------------------------------------------------------------------- */

static void take_keys(struct ask_terminal *t)
{
    struct termios now;

    if (!t->passing || is_asked(t))
        return;
    if (!in_foreground(t) || tcgetattr(t->fd, &now) != 0) {
        look_later(t, LOOK_S);
        return;
    }
    if ((now.c_lflag & ICANON) != 0) {
        t->found = now;
    } else if (!t->whole && !(t->taken && same_modes(&now, &t->keys))) {
        t->taken = false;
        look_later(t, LOOK_S);
        return;
    }
    t->keys = t->found;
    cfmakeraw(&t->keys);
    if (!t->whole)
        t->keys.c_oflag = t->found.c_oflag;
    set_modes(t, &t->keys);
    t->taken = true;
    watch_input(t);
}

void ask_terminal_keys(struct ask_terminal *t, bool whole)
{
    t->passing = true;
    t->whole = whole;
    if (whole)
        take_keys(t);
    else
        look_later(t, YIELD_S);
}

void ask_terminal_pause(struct ask_terminal *t, bool pause)
{
    t->paused = pause;
    watch_input(t);
}

/* What a shell has for its own line while a job of it is in the background is not for the job. */
static void make_lines(struct termios *m)
{
    m->c_iflag |= BRKINT | ICRNL;
    m->c_oflag |= OPOST | ONLCR;
    m->c_lflag |= ICANON | ECHO | ECHOE | ECHOK | ISIG | IEXTEN;
}

/* --- questions ----------------------------------------------------------------------------- */

/* The user's own modes, made fit for lines; or, before the prompt, for keys that nobody reads. */
static void set_question_modes(struct ask_terminal *t, bool lines)
{
    struct termios *m = &t->question;

    *m = t->found;
    m->c_iflag &= ~(tcflag_t)(IGNBRK | PARMRK | INPCK | ISTRIP | INLCR | IGNCR | IUCLC | IXON);
    m->c_oflag &= ~(tcflag_t)(OLCUC | OCRNL | ONOCR | ONLRET);
    m->c_lflag &= ~(tcflag_t)(NOFLSH | TOSTOP | EXTPROC);
    make_lines(m);
    /* srt cannot be stopped with a question open, and a line ends with Enter alone. */
    m->c_cc[VSUSP] = m->c_cc[VEOL] = m->c_cc[VEOL2] = _POSIX_VDISABLE;
    if (!lines) {
        m->c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        m->c_cc[VMIN] = 1;
        m->c_cc[VTIME] = 0;
    }
    set_modes(t, m);
}

bool ask_terminal_begin(struct ask_terminal *t)
{
    struct winsize size;
    struct buf clear;

    if (t->gone || !in_foreground(t) || tcgetattr(t->fd, &t->before) != 0) {
        if (!t->gone && t->passing)
            look_later(t, LOOK_S);
        return false;
    }
    t->phase = TELLING;
    set_question_modes(t, false);
    watch_input(t);
    buf_clear(&t->prompt);
    buf_init(&clear, 4096);
    ask_terminal_size(t, &size);
    if (t->obeys)
        ask_screen_clear(&clear, size.ws_row);
    else
        buf_puts(&clear, "\n");
    (void)ask_terminal_write(t, buf_data(&clear), buf_len(&clear));
    buf_free(&clear);
    return true;
}

void ask_terminal_show(struct ask_terminal *t, const char *text, size_t n)
{
    if (t->phase == HEARING || t->phase == PROMPTING)
        set_question_modes(t, false);
    ev_timer_stop(t->loop, &t->settle);
    t->phase = TELLING;
    buf_clear(&t->prompt);
    watch_input(t);
    /* A terminal that takes nothing shows nothing: the question ends by its time. */
    (void)ask_terminal_write(t, text, n);
}

void ask_terminal_prompt(struct ask_terminal *t, const char *text, size_t n)
{
    (void)buf_append(&t->prompt, text, n);
    write_on(t);
}

static void on_settled(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct ask_terminal *t = timer->data;
    int waiting = 0;
    (void)loop;
    (void)revents;

    if (t->phase != SETTLING)
        return;
    /* One has come just now. */
    if (ioctl(t->fd, FIONREAD, &waiting) == 0 && waiting > 0) {
        settle(t);
        return;
    }
    if (!in_foreground(t)) {
        on_lost(t);
        return;
    }
    set_question_modes(t, true);
    t->phase = PROMPTING;
    watch_input(t);
    write_on(t);
}

void ask_terminal_end(struct ask_terminal *t)
{
    if (!is_asked(t))
        return;
    ev_timer_stop(t->loop, &t->settle);
    buf_clear(&t->prompt);
    t->phase = QUIET;
    restore_modes(t, &t->question, &t->before);
    if (t->passing && !t->taken && !t->gone)
        look_later(t, LOOK_S);
    watch_input(t);
}

/* --- the whole ----------------------------------------------------------------------------- */

/* Maybe back in the foreground; a shell may have set modes of its own meanwhile. */
static void look(struct ask_terminal *t)
{
    if (!in_foreground(t)) {
        look_later(t, LOOK_S);
        return;
    }
    if (is_asked(t))
        set_question_modes(t, t->phase == PROMPTING || t->phase == HEARING);
    else
        take_keys(t);
    if (is_asked(t) || !t->passing || t->taken)
        ev_timer_stop(t->loop, &t->look);
    watch_input(t);
}

static void on_look(struct ev_loop *loop, ev_timer *timer, int revents)
{
    struct ask_terminal *t = timer->data;
    (void)loop;
    (void)revents;

    look(t);
    if (!ev_is_active(timer))
        t->events.resized(t->events.ctx);
}

static void on_continued(struct ev_loop *loop, ev_signal *signal, int revents)
{
    struct ask_terminal *t = signal->data;
    (void)loop;
    (void)revents;

    look(t);
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

    int lock = -1;
    bool present = fd >= 0 && tcgetattr(fd, &found) == 0;
    if (!present || !terminal_lock(fd, &lock)) {
        if (fd >= 0)
            close(fd);
        buf_puts(error, present ? "another srt --ask has this terminal" : "--ask needs a terminal");
        return NULL;
    }
    never_stop();
    struct ask_terminal *t = mem_alloc(sizeof *t);
    *t = (struct ask_terminal){.loop = loop, .events = *e, .fd = fd, .lock = lock, .found = found};
    if (!in_foreground(t))
        make_lines(&t->found);
    t->obeys = term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
    buf_init(&t->queue, QUEUE_MAX);
    buf_init(&t->prompt, PROMPT_MAX);
    ev_io_init(&t->readable, on_readable, fd, EV_READ);
    ev_io_init(&t->writable, on_writable, fd, EV_WRITE);
    ev_signal_init(&t->continued, on_continued, SIGCONT);
    ev_signal_init(&t->resized, on_resized, SIGWINCH);
    ev_timer_init(&t->settle, on_settled, 0, 0);
    ev_timer_init(&t->look, on_look, 0, 0);
    t->readable.data = t->writable.data = t->continued.data = t->resized.data = t;
    t->settle.data = t->look.data = t;
    ev_signal_start(loop, &t->continued);
    ev_signal_start(loop, &t->resized);
    return t;
}

void ask_terminal_free(struct ask_terminal *t)
{
    if (t == NULL)
        return;
    ask_terminal_end(t);
    if (t->taken)
        restore_modes(t, &t->keys, &t->found);
    ev_io_stop(t->loop, &t->readable);
    ev_io_stop(t->loop, &t->writable);
    ev_timer_stop(t->loop, &t->look);
    ev_signal_stop(t->loop, &t->continued);
    ev_signal_stop(t->loop, &t->resized);
    buf_free(&t->queue);
    buf_free(&t->prompt);
    close(t->fd);
    if (t->lock >= 0)
        close(t->lock);
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
