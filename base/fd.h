/* File descriptors: flags, whole writes, and passing them over a Unix socket. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sets or clears FD_CLOEXEC, O_NONBLOCK; false with errno. */
bool fd_cloexec(int fd, bool on);
bool fd_nonblock(int fd, bool on);

/* Writes all of p[0..n), waiting where the descriptor is not ready: for start-up and one-shot
 * code, never for the loop. False with errno; SIGPIPE is the caller's matter. */
bool fd_write_all(int fd, const void *p, size_t n);

/* A socket of any kind; false for everything else, closed descriptors included. */
bool fd_is_socket(int fd);

enum { FD_PASS_MAX = 16 };

/* Sends p[0..n), n > 0, as one message with `count` descriptors (at most FD_PASS_MAX) over a Unix
 * socket. False with errno; the descriptors stay the caller's. */
bool fd_send(int sock, const void *p, size_t n, const int *fds, size_t count);

/*
 * Receives at most n bytes and at most max descriptors, close-on-exec, the caller's to close;
 * *count is how many. Returns the bytes, 0 at the end, -1 with errno. More descriptors than asked
 * for are an error (EMSGSIZE): all are closed, since one that is not expected may be anything.
 */
ssize_t fd_receive(int sock, void *p, size_t n, int *fds, size_t max, size_t *count);

#endif
