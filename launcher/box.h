/*
 * The box itself: bubblewrap started as the one child, srt-inside run in it from
 * a descriptor, and the conversation with it until both are gone. Chapter 50
 * sections 9, 10 and 18.
 */
#ifndef LAUNCHER_BOX_H
#define LAUNCHER_BOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include <ev.h>

#include "base/buf.h"
#include "launcher/dependencies.h"
#include "launcher/mounts.h"
#include "launcher/orders.h"

struct box;

enum box_end_kind {
    BOX_EXITED,    /* the command ended by itself; value: its status */
    BOX_KILLED,    /* the command died of a signal; value: which */
    BOX_FAILED,    /* srt-inside could not build the box or start the command; text: why */
    BOX_NOT_BUILT, /* bubblewrap could not; text: what it said */
    BOX_LOST       /* bubblewrap died of a signal, or box_kill() was called; value: which */
};

struct box_end {
    enum box_end_kind kind;
    int value;
    const char *text;
    size_t text_len;
};

struct box_events {
    /* A listener inside the box; the descriptor becomes the callee's. */
    void (*listener)(void *ctx, int fd, enum listener_port port);
    /* The seccomp listener of the observing filter; likewise. */
    void (*observer)(void *ctx, int fd);
    /* The box is built, the command about to run. */
    void (*started)(void *ctx);
    /* All processes of the box are gone, or had long enough to go. */
    void (*ended)(void *ctx, const struct box_end *end);
    void *ctx;
};

struct box_options {
    struct ev_loop *loop; /* the default one: a child is waited for */
    const struct dependencies *dependencies;
    int inside;             /* srt-inside, open for execution; stays the caller's */
    bool weaker_nested;     /* the host's /proc */
    bool nested_namespaces; /* nothing may cover /proc then, for an ordinary user */
    /* The plan, when bubblewrap is to apply the mounts; NULL: srt-inside does by its orders. */
    const struct mounts *mounts;
    struct rlimit files, cores; /* the command's limits */
    /* What the box has as its three standard descriptors, -1: srt's own; NULL: all are. They stay
     * the caller's. */
    const int *stdio;
    struct box_events events;
};

/* Starts bubblewrap. NULL with a line in *error. */
struct box *box_start(const struct box_options *o, struct buf *error);
/* Tells srt-inside what to do, once. lock: a descriptor that the box keeps open until all of it is
 * gone, or -1; stays the caller's. False with a line in *error. */
bool box_order(struct box *b, const struct orders *orders, int lock, struct buf *error);
/* Hears what is waiting to be heard. */
void box_poll(struct box *b);
/* Passes a signal on to the command. */
void box_signal(struct box *b, int number);
/* Ends every process in the box; `ended` is called when they are gone. */
void box_kill(struct box *b);
/* Kills what is left and waits for it. NULL is fine. False when processes of the box are still
 * there after all the time they had. */
bool box_free(struct box *b);

/* What bubblewrap is told, a word each, NUL-terminated; the words before "--". False with a line in
 * *error when the plan has more words than it takes. */
bool box_arguments(const struct box_options *o, struct buf *words, struct buf *error);

#endif
