/* The command line of `srt`, chapter 50 section 1.1. Pure. */
#ifndef LAUNCHER_COMMAND_LINE_H
#define LAUNCHER_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { ASK_TIMEOUT_S = 120, ASK_TIMEOUT_MAX_S = 86400 };

struct command_line {
    bool debug, version, help;
    bool print_plan, json;   /* --print-plan, --json */
    bool annotate;           /* --annotate */
    bool ask;                /* --ask */
    unsigned ask_timeout_s;  /* --ask-timeout, or its default */
    bool strict_exit_codes;  /* --exit-codes strict (or =compatible, the default) */
    bool option_after_words; /* an option of ours stood after the first command word: a warning */
    const char *settings;    /* NULL: the default file */
    const char *command;     /* -c; NULL: none. "" counts as none */
    const char *violations;  /* --violations FILE|fd:N */
    const char *log;         /* --log FILE */
    const char *subcommand;  /* first operand "proxy", "check", "connect"; its arguments follow */
    int subcommand_index;    /* in argv */
    int control_fd;          /* -1: none */
    const char **words;      /* command words, into argv; NULL-terminated; the caller frees */
    size_t word_count;
};

/* False with the whole error text in *error, newline included. */
bool command_line_parse(int argc, char **argv, struct command_line *out, struct buf *error);
void command_line_free(struct command_line *c);

extern const char command_line_usage[];

/* Words joined so that a POSIX shell gives them back, section 1.2. */
void command_line_quote(const char *const *words, size_t count, struct buf *out);

#endif
