/*
 * A directory of one run under the temp directory, srt-ca-XXXXXX, for files that
 * the command is to read. It is locked for as long as the run lives, so that a
 * later one can tell what was left behind by one that was killed.
 */
#ifndef CERTS_RUN_DIRECTORY_H
#define CERTS_RUN_DIRECTORY_H

#include <stdbool.h>

#include "base/buf.h"

enum { RUN_FILES_MAX = 2 };

struct run_directory {
    char *path; /* absolute; NULL: there is none */
    int fd;
    const char *files[RUN_FILES_MAX]; /* names of what is in it */
};

/* 0700. False with a line in *error. */
bool run_directory_make(struct run_directory *d, struct buf *error);
/* Writes a file (0644) whose name, one of run_directory_names, outlives the directory. Returns its
 * path, the caller's to free; NULL with a line in *error. */
char *run_directory_write(struct run_directory *d, const char *name, const struct buf *content,
                          struct buf *error);
/* With the files. Nothing when there is none. */
void run_directory_remove(struct run_directory *d);

/* Every file that is ever put there; NULL-terminated. */
extern const char *const run_directory_names[];
/* Removes those that runs of this user left behind when they were killed. */
void run_directory_clear_stale(void);

#endif
