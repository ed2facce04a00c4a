/*
 * The terminal that srt was started on, as the one at which questions are
 * answered: its modes, what is typed and what is written, on the loop. Nothing
 * here waits, but for the end, and there for a bounded time.
 *
 * It may be shared: a pager behind a pipe reads keys from it too. So modes are
 * set from its foreground alone, and put back only where nobody else has set
 * others meanwhile.
 */
#ifndef LAUNCHER_ASK_TERMINAL_H
#define LAUNCHER_ASK_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <ev.h>

#include "base/buf.h"

enum {
    ASK_SETTLE_MS = 1000 /* without a key, from a question to its prompt */
};

struct ask_terminal;

struct ask_terminal_events {
    /* Typed while nothing is asked, once ask_terminal_keys() is on. */
    void (*keys)(void *ctx, const uint8_t *p, size_t n);
    /* Typed as the answer to a question: a line without its newline. */
    void (*line)(void *ctx, const char *line, size_t n);
    /* Nobody can type an answer any more: srt went to the background, or the terminal away. */
    void (*lost)(void *ctx);
    /* Everything written so far was taken. */
    void (*taken)(void *ctx);
    /* It has, or may have, another size. */
    void (*resized)(void *ctx);
    void *ctx;
};

/* Opens the controlling terminal. NULL with a line in *error: there is none, or another run asks on
 * it. */
struct ask_terminal *ask_terminal_open(struct ev_loop *loop, const struct ask_terminal_events *e,
                                       struct buf *error);
/* Puts its modes back. NULL is fine. */
void ask_terminal_free(struct ask_terminal *t);

/* True for a descriptor of this terminal. */
bool ask_terminal_is(const struct ask_terminal *t, int fd);
void ask_terminal_size(const struct ask_terminal *t, struct winsize *size);
/* Its modes as they were found. */
const struct termios *ask_terminal_found(const struct ask_terminal *t);

/* From now on every key is passed on as it is. whole: all that is written to the terminal comes
 * through here, and goes out as it is; else others may write to it and read from it, and keys are
 * passed on only while nobody else has set modes of his own. */
void ask_terminal_keys(struct ask_terminal *t, bool whole);
/* No keys for a while. */
void ask_terminal_pause(struct ask_terminal *t, bool pause);

/* Queues what the terminal does not take at once. False, with nothing queued, past a bound. */
bool ask_terminal_write(struct ask_terminal *t, const void *p, size_t n);
/* Bytes that it has not taken yet. */
size_t ask_terminal_queued(const struct ask_terminal *t);

/*
 * A question begins, on an empty screen where the terminal obeys. Signal keys are signals; other
 * keys are thrown away until the prompt is there. False: srt is in the background.
 */
bool ask_terminal_begin(struct ask_terminal *t);
/* Text of a question, with newlines; not empty. A prompt that was there counts no longer. */
void ask_terminal_show(struct ask_terminal *t, const char *text, size_t n);
/* Written once the terminal has taken all of the text and then no key was pressed for
 * ASK_SETTLE_MS: keys that were meant for something else are on their way until somebody has seen
 * the question. From then on lines are edited, echoed, and told. */
void ask_terminal_prompt(struct ask_terminal *t, const char *text, size_t n);
void ask_terminal_end(struct ask_terminal *t);

/* Waits until everything written was taken, as long as there is progress within a second. False:
 * there was none. */
bool ask_terminal_drain(struct ask_terminal *t);

#endif
