/*
 * Starts a program with a stream on its standard input and output. It gets our
 * standard error, no other descriptor, a session of its own (what the terminal
 * sends to us does not reach it), signals as a fresh process has them, and a
 * SIGTERM when we die.
 */
#ifndef DECIDER_SPAWN_H
#define DECIDER_SPAWN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The descriptors are the caller's, non-blocking and close-on-exec. */
struct spawned {
    pid_t pid;
    int pidfd;   /* -1: the kernel has none to give */
    int stream;  /* the other end of its standard input and output */
    int started; /* ends once it runs; an int, the errno, comes when it could not be started */
};

/* words: the program, a path, and its arguments; files: its RLIMIT_NOFILE, NULL: as
 * ours. False with errno. */
bool spawn(char *const *words, const struct rlimit *files, struct spawned *out);

#endif
