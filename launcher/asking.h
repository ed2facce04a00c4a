/*
 * `srt --ask`: the person at the terminal, put together: the questions, the
 * terminal they are asked on, and the one that the box has instead.
 */
#ifndef LAUNCHER_ASKING_H
#define LAUNCHER_ASKING_H

#include <stdbool.h>

#include <ev.h>

#include "base/buf.h"
#include "decider/decider.h"

struct asking;

struct asking_options {
    struct ev_loop *loop;
    unsigned timeout_s;
    const char *command;     /* that is run; stays */
    void (*quit)(void *ctx); /* an answer was that the command is to end: asking_interrupt() */
    void *ctx;
};

/* NULL with a line in *error. Before the box is started. */
struct asking *asking_new(const struct asking_options *o, struct buf *error);
/* A log there ("-", "fd:N" or a path) would be written to the terminal, and over questions. */
bool asking_is_terminal(const struct asking *a, const char *log);
struct decider *asking_decider(struct asking *a);
/* What the box is to have in place of standard descriptor n; -1: srt's own. */
int asking_stdio(const struct asking *a, int n);
/* The box has a terminal, and that is its controlling one. */
bool asking_has_keys(const struct asking *a);

/* The command is about to run. */
void asking_started(struct asking *a);
/* A signal key was pressed at the terminal. A question that is shown is denied, as all that are
 * open are. True: the command has been given the key. */
bool asking_signal(struct asking *a, int number);
/* SIGINT to what is in the foreground of the command's terminal; false: it has none. */
bool asking_interrupt(struct asking *a);
/* The command is over: what it wrote last is shown, the terminal is as it was, and nothing is asked
 * any more. */
void asking_finish(struct asking *a);
/* NULL is fine. When nobody waits for an answer any more. */
void asking_free(struct asking *a);

#endif
