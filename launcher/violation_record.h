/*
 * One violation as it is reported: its JSON line, and what a network line of
 * chapter 10 section 8.1 says, read back. Pure.
 */
#ifndef LAUNCHER_VIOLATION_RECORD_H
#define LAUNCHER_VIOLATION_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* A part of somebody else's string. */
struct span {
    const char *at; /* NULL: not there */
    size_t len;
};

struct violation_record {
    double time;         /* Unix seconds */
    const char *line;    /* cleaned */
    const char *command; /* NULL: not known */
    /* file system; NULL for network */
    const char *syscall, *path;
    pid_t pid;
    /* network */
    struct span host, method, url, reason;
    uint16_t port; /* 0: not known */
    bool outbound; /* a destination was denied, not a request or a kind of tunnel */
};

/* Fills the network fields with parts of `line`; what cannot be told is left out. The host is the
 * client's spelling and may be anything. */
void violation_record_read(struct violation_record *r, const char *line);

enum { VIOLATION_JSON_MAX = 1 << 20 };

/* Appends one line with its newline; `out` has room for VIOLATION_JSON_MAX. */
void violation_record_json(const struct violation_record *r, struct buf *out);

#endif
