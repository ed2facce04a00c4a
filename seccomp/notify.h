/*
 * The supervisor of the observing filter: reads each notification, says what
 * path the call names, and lets the call go on. It decides nothing; paths are
 * the caller's and racy. Chapter 50 section 13.
 */
#ifndef SECCOMP_NOTIFY_H
#define SECCOMP_NOTIFY_H

#include <sys/types.h>

#include <ev.h>

struct notify;

/* path: absolute, as the caller spelled it joined to its directory, not yet folded. */
typedef void notify_fn(void *ctx, int nr, const char *syscall, pid_t pid, const char *path);

/* Takes over the listener descriptor. */
struct notify *notify_new(struct ev_loop *loop, int listener, notify_fn *fn, void *ctx);
/* Answers what is waiting now, without waiting for more. */
void notify_poll(struct notify *n);
/* To be called when the box is gone: a call that is reported to nobody fails with ENOSYS. */
void notify_free(struct notify *n);

#endif
