/* The command line of srt-decider. */
#ifndef DECIDER_REFERENCE_OPTIONS_H
#define DECIDER_REFERENCE_OPTIONS_H

#include <stdbool.h>

#include "base/buf.h"

extern const char decider_usage[];

/* Strings are borrowed from argv. */
struct decider_options {
    const char *rules;  /* path */
    const char *log;    /* path, "-" standard error, NULL: none */
    const char *listen; /* path of a Unix socket, NULL: standard input and output */
    bool check, version, help;
};

/* False with a message in *error. */
bool decider_options_parse(int argc, char **argv, struct decider_options *out, struct buf *error);

#endif
