/*
 * A decider that is another process, on the loop: over inherited descriptors,
 * started by us, or reached through a Unix socket. The latter two are started
 * or connected again, with a growing pause, whenever they are lost; while one is
 * away it answers nothing. The process has to ignore SIGPIPE. Chapter 35
 * sections 1 and 7.
 */
#ifndef DECIDER_REMOTE_H
#define DECIDER_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include <ev.h>

#include "base/buf.h"
#include "decider/decider.h"
#include "decider/message.h"

enum {
    REMOTE_HELLO_MS = 10000, /* that one we start or connect to has for its hello */
    REMOTE_PAUSE_MS = 100,   /* before the first new try; doubled after each failure */
    REMOTE_PAUSE_MAX_MS = 5000,
    REMOTE_STEADY_MS = 10000, /* up for this long, and the pause starts anew */
    REMOTE_STOP_MS = 1000     /* that one we started has to end once its stream has */
};

struct remote_options {
    struct ev_loop *loop;
    unsigned proto, level; /* as struct link_options */
    uint32_t timeout_ms;

    /* Exactly one kind. */
    int fd_in, fd_out; /* -1: not this kind. The same, or read end and write end; taken over */
    const char *exec;  /* command line: see remote_split_command() */
    /* Whoever may listen there decides: its directory has to be as trusted as the settings are. */
    const char *unix_path;

    uint32_t hello_ms; /* 0: REMOTE_HELLO_MS; inherited descriptors have any time */

    const struct rlimit *files; /* RLIMIT_NOFILE for what is started, or NULL: as ours */

    void (*ready)(void *ctx, const struct hello *hello); /* each time; borrowed */
    /* Each time it is lost, or a try fails (`why`, for people). `final`: inherited descriptors, no
     * new try comes. */
    void (*away)(void *ctx, const char *why, bool final);
    void *ctx;
};

/* Starts to connect; NULL with a line in *error for descriptors, a command line or a path that
 * cannot be used: descriptors stay the caller's then. Call backs, and answers, come from the loop
 * alone. */
struct decider *remote_new(const struct remote_options *o, struct buf *error);
/* Ends the stream; what was started is told to end by that, and later by SIGTERM and SIGKILL: its
 * end is waited for. Questions still open are dropped without an answer. Not from inside a call
 * back or an answer; NULL is fine. */
void remote_free(struct decider *d);

/* The words of a command line: blanks separate; '...' and "..." keep them; a backslash takes the
 * next character as it is (not inside '...'). No expansion of any kind. NULL with a message for an
 * open quote, nothing behind a backslash, no words at all or an empty first one; else an array,
 * NULL-terminated, the caller's to free with remote_free_words(). */
char **remote_split_command(const char *text, struct buf *error);
void remote_free_words(char **words);

#endif
