/*
 * Signals for srt itself, taken by a descriptor so that they can be asked for
 * before the loop runs. Chapter 50 sections 1.4 and 1.6.
 */
#ifndef LAUNCHER_SIGNALS_H
#define LAUNCHER_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

struct signals;

/* A signal came. from_terminal: its kernel sent it to the whole foreground group, the command
 * included. */
typedef void signal_fn(void *ctx, int number, bool from_terminal);

/* Blocks TERM, INT, HUP, QUIT, USR1 and USR2 for the process, those that are ignored excepted.
 * NULL when there is no descriptor to be had. */
struct signals *signals_new(void);
/* Signals that were ignored when srt was started (bit n-1: signal n). */
uint64_t signals_ignored(const struct signals *s);

/* The first ending signal (TERM, INT, HUP, QUIT) that has come so far, 0 for none. Does not wait.
 */
int signals_pending(struct signals *s);
/* From now on each is told on the loop. */
void signals_watch(struct signals *s, struct ev_loop *loop, signal_fn *fn, void *ctx);
void signals_free(struct signals *s);

/* "SIGTERM"; "SIG%d" style for those without a name. Valid until the next call. */
const char *signals_name(int number);

#endif
