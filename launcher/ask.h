/*
 * A person as decider: connections that no rule decides are asked about one at
 * a time, on a screen that somebody else provides, and an answer holds for all
 * open questions about the same host and port. On the loop; only a clear yes,
 * typed while its question is on the screen, allows.
 */
#ifndef LAUNCHER_ASK_H
#define LAUNCHER_ASK_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>

#include "decider/decider.h"

enum {
    ASK_OPEN_MAX = 1000, /* questions; past them connections are denied unasked */
    ASK_TRIES = 3        /* lines that are no answer, before it counts as a no */
};

/* Where questions are shown. None of these may call back. */
struct ask_screen {
    /* A question is about to be shown; false: nobody can be asked now. */
    bool (*begin)(void *ctx);
    /* Printable ASCII and newlines. Whatever is typed is no answer. */
    void (*show)(void *ctx, const char *text, size_t n);
    /* Behind what was shown, once nobody types any more: what is typed from then on is one. */
    void (*prompt)(void *ctx, const char *text, size_t n);
    /* It is over. */
    void (*end)(void *ctx);
    void *ctx; /* of quit() too */
};

struct ask_options {
    struct ev_loop *loop;
    unsigned timeout_s;  /* from when something is asked until it counts as denied */
    const char *command; /* that is run: whom a question is attributed to. Stays. */
    struct ask_screen screen;
    /* The command is to end: first of all, so that it does not go on by a refusal before. */
    void (*quit)(void *ctx);
};

struct decider *ask_new(const struct ask_options *o);
/* Nothing is shown any more, and no question taken; those that are open stay without an answer. */
void ask_stop(struct decider *d);
/* Questions still open are dropped without an answer. NULL is fine. */
void ask_free(struct decider *d);

/* A line that was typed while a question was on the screen, without its newline. */
void ask_line(struct decider *d, const char *line, size_t n);
/* A question is on the screen. */
bool ask_is_shown(const struct decider *d);
/* Whoever is asked wants none of it, or has gone (why: for the client; NULL: no reason): everything
 * that is open is denied, if a question is on the screen. */
void ask_refuse_all(struct decider *d, const char *why);

#endif
