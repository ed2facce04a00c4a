/* What a question at the terminal looks like, and what an answer says. Pure. */
#ifndef LAUNCHER_ASK_TEXT_H
#define LAUNCHER_ASK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    ASK_COMMAND_SHOWN = 60,     /* bytes of the command that is run */
    ASK_REASON_BYTES_MAX = 1024 /* of a typed reason */
};

/* What is asked. Strings may hold anything. */
struct ask_text {
    const char *via, *host;
    uint16_t port;
    const char *command; /* that srt runs */
    const char *hint;    /* about the destination, or NULL */
    size_t waiting;      /* connections, for this answer and others */
    size_t waiting_here; /* for this one */
};

/* Appends the whole question, the destination last and without newline; what is to be answered
 * comes behind it. Only printable ASCII and newlines come out. */
void ask_text_question(struct buf *out, const struct ask_text *t);
/* Appends the destination alone, after an answer that was none. */
void ask_text_again(struct buf *out, const char *via, const char *host, uint16_t port);
/* Behind either, once an answer is listened to. */
extern const char ask_text_prompt[];

struct ask_answer {
    bool clear; /* it is one: else nothing below counts */
    bool allow;
    bool for_run; /* the same for the rest of the run */
    bool quit;    /* a no to everything, and the command is to end */
};
/* A line as typed, without its newline. The reason of a denial, cleaned, is appended to *reason;
 * nothing: none was given. */
struct ask_answer ask_text_parse(const char *line, size_t n, struct buf *reason);

#endif
