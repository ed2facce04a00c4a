/*
 * A small system file that is read again when it changed. The question costs
 * one stat(2). Used for the hosts file and resolv.conf.
 */
#ifndef NET_SYSTEM_FILE_H
#define NET_SYSTEM_FILE_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

struct system_file {
    char *path;
    bool known;   /* looked at once at least */
    bool present; /* was there, when last read */
    bool settled; /* its times are old enough to tell the next change by */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    struct timespec changed;
};

void system_file_init(struct system_file *f, const char *path); /* the path is copied */
void system_file_free(struct system_file *f);

/* Whether it may differ from what was read last: true before the first read, and for a moment
 * after a change, when its times cannot tell yet. */
bool system_file_changed(const struct system_file *f);

/* Its content into *out, up to out->max bytes. Empty when it is missing, unreadable or not a
 * regular file. */
void system_file_read(struct system_file *f, struct buf *out);

#endif
