/*
 * The box's seccomp filters, built with libseccomp and exported as BPF programs
 * for somebody else to load. Chapter 50 sections 12.1, 12.2, 13 and 18.
 */
#ifndef SECCOMP_FILTERS_H
#define SECCOMP_FILTERS_H

#include <stdbool.h>

#include "base/buf.h"

enum filter_part {
    /* What would reach past the command: ioctls that type into the terminal or leave it changed
     * for others, and calls that could starve PID 1 of the box. Part of every filter of a box. */
    FILTER_TERMINAL = 1u << 0,
    FILTER_SOCKETS = 1u << 1,    /* 12.1 */
    FILTER_NAMESPACES = 1u << 2, /* 12.2 */
    /* Signals to the sender's whole process group: for a command that shares it with processes
     * outside, as on a terminal. No name space keeps those from them. */
    FILTER_GROUP = 1u << 3
};

/* True on the architectures that have filters: x86-64 and arm64. */
bool filters_supported(void);

/* Appends one program (struct sock_filter[]) with all of `parts`. False with a line in *error. */
bool filters_build(unsigned parts, struct buf *program, struct buf *error);
/* The observing filter of section 13 (SECCOMP_RET_USER_NOTIF). */
bool filters_build_observer(struct buf *program, struct buf *error);

#endif
