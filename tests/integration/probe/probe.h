/*
 * Forbidden attempts, one by one, each in a process of its own: what a box must
 * refuse, and what it must leave. Made to run inside of a box.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stddef.h>

/* A system call with constant arguments. */
struct call {
    const char *name;
    long number;
    long arguments[6];
};

/* An attempt of several steps: -1 with errno, or success. */
struct attempt {
    const char *name;
    long (*run)(void);
};

/* Something to be looked at: prints its value, without a newline. */
struct look {
    const char *name;
    void (*print)(void);
};

extern const struct call calls[];
extern const size_t call_count;
extern const struct attempt attempts[];
extern const size_t attempt_count;
extern const struct look looks[];
extern const size_t look_count;

#endif
