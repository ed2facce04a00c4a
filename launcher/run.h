/* `srt [options] command`: one run, from settings to exit status. Chapter 50 sections 1.3 to 1.7.
 */
#ifndef LAUNCHER_RUN_H
#define LAUNCHER_RUN_H

#include "launcher/command_line.h"

enum {
    STATUS_FAILURE = 1,         /* ours, as the peer has it */
    STATUS_STRICT_FAILURE = 125 /* ours, with --exit-codes strict */
};

/* Returns the exit status. */
int run_main(const struct command_line *line, char *const *environment);

#endif
