/*
 * A terminal of its own for the box, where questions are asked on the one that
 * srt was started on: a pseudo-terminal in between. So nothing in the box can
 * read an answer, change the modes in which it is typed, or write over a
 * question; what it writes meanwhile is kept, and it goes on. A program that had
 * the whole screen draws it again.
 */
#ifndef LAUNCHER_BOX_TERMINAL_H
#define LAUNCHER_BOX_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ev.h>

#include "base/buf.h"
#include "launcher/ask_terminal.h"

struct box_terminal;

/* For the standard descriptors that are the terminal. NULL with a line in *error; with none in it
 * when none of them is, and the box needs no other. */
struct box_terminal *box_terminal_new(struct ev_loop *loop, struct ask_terminal *outer,
                                      struct buf *error);
/* NULL is fine. */
void box_terminal_free(struct box_terminal *b);

/* What the box is to have in place of standard descriptor n; -1: srt's own. Until
 * box_terminal_started(). */
int box_terminal_stdio(const struct box_terminal *b, int n);
/* Keys typed at the terminal are for it, and it is the box's controlling one: also where standard
 * input is a pipe, as programs open it by name. */
bool box_terminal_has_keys(const struct box_terminal *b);

/* The box has it. */
void box_terminal_started(struct box_terminal *b);
/* For events of the outer terminal. */
void box_terminal_keys(struct box_terminal *b, const uint8_t *p, size_t n);
/* A signal key (SIGINT or SIGQUIT) was pressed. */
void box_terminal_signal(struct box_terminal *b, int number);
/* SIGINT to its foreground, whatever its keys mean. */
void box_terminal_interrupt(struct box_terminal *b);
void box_terminal_taken(struct box_terminal *b);
void box_terminal_resized(struct box_terminal *b);
/* Where keys are taken one by one, what is in the foreground draws its screen again. */
void box_terminal_redraw(struct box_terminal *b);
/* Shows what it has written so far. */
void box_terminal_show(struct box_terminal *b);
/* While held nothing of it is shown. */
void box_terminal_hold(struct box_terminal *b, bool hold);
/* The box has gone: what is left is shown. */
void box_terminal_drain(struct box_terminal *b);

#endif
