/*
 * What the box's processes may do: keyring, capabilities, system calls. In the
 * order they are called in; none can be undone.
 */
#ifndef LAUNCHER_INSIDE_CONFINE_H
#define LAUNCHER_INSIDE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* A new anonymous session keyring, so that the caller's is out of reach. */
bool confine_keyring(struct buf *error);

/* No capability is left, nor any way to one, and no_new_privs is set. */
bool confine_capabilities(struct buf *error);

/* Loads a program (struct sock_filter[], n bytes; 0: none). */
bool confine_filter(const void *program, size_t n, struct buf *error);

/* Loads an observing program for this process; its listener, close-on-exec, or -1 with errno. */
int confine_observe(const void *program, size_t n);

#endif
