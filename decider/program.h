/*
 * A program that was started, on the loop: whether it could be, the news of its
 * end, and how it is brought to it. It is reaped here and by nobody's SIGCHLD
 * handler; should another part of the process reap it, that is noticed.
 */
#ifndef DECIDER_PROGRAM_H
#define DECIDER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <ev.h>

struct program;

struct program_options {
    struct ev_loop *loop;
    char *const *words;         /* as spawn() */
    const struct rlimit *files; /* as spawn() */
    uint32_t stop_ms;           /* from program_stop() to SIGTERM, and from there to SIGKILL */
    /* It runs (0), or why it could not be started (errno). Once, unless it is freed before. */
    void (*started)(void *ctx, int why);
    void (*gone)(void *ctx); /* it ended and was reaped; last of all */
    void *ctx;
};

/* *stream: the other end of its standard input and output, the caller's. NULL with errno. Call
 * backs come from the loop; from `gone` the program may be freed, from `started` not. */
struct program *program_start(const struct program_options *o, int *stream);
/* In `gone`: how it ended, in words; "" where signals of ours did it, or it is not known. */
void program_end(const struct program *p, char *out, size_t size);
/* To be called when its stream was closed, which should end it: signals follow in time. */
void program_stop(struct program *p);
/* Not before its stream was closed: waits for its end, up to twice stop_ms. NULL is fine. */
void program_free(struct program *p);

#endif
