/*
 * The calls the observing filter reports, and where each keeps its paths.
 * Chapter 50 section 13.
 */
#ifndef SECCOMP_OBSERVED_H
#define SECCOMP_OBSERVED_H

#include <fcntl.h>
#include <stddef.h>

/* Open flags that a write needs. */
enum { OBSERVED_FLAGS = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND };

enum observed_opening {
    OPENING_NONE,  /* not an open: always reported */
    OPENING_FLAGS, /* reported when argument `flags` has one of OBSERVED_FLAGS */
    OPENING_STRUCT /* argument `flags` points to a struct open_how; the filter cannot look there */
};

enum { OBSERVED_NO_ARGUMENT = -1, OBSERVED_PATHS = 2 };

struct observed_call {
    int nr;
    const char *name;
    /* Numbers of arguments; no directory: relative to the working directory. */
    struct {
        signed char directory, path;
    } at[OBSERVED_PATHS];
    enum observed_opening opening;
    unsigned char flags;
};

/* Those that this architecture has. */
const struct observed_call *observed_calls(size_t *count);
/* NULL: none of them. */
const struct observed_call *observed_call(int nr);

#endif
