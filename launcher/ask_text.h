/* What a question at the terminal looks like, and what an answer says. Pure. */
#ifndef LAUNCHER_ASK_TEXT_H
#define LAUNCHER_ASK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    ASK_USER_SHOWN = 60,        /* bytes of whom a question is attributed to */
    ASK_REASON_BYTES_MAX = 1024 /* of a typed reason */
};

/* Appends the whole question, the line to be answered last and without newline. Only printable
 * ASCII and newlines come out, whatever the strings hold. user: proxy user name or NULL. */
void ask_text_question(struct buf *out, const char *via, const char *host, uint16_t port,
                       const char *user, size_t user_len);
/* Appends the last line of it again, after an answer that was none. */
void ask_text_again(struct buf *out, const char *via, const char *host, uint16_t port);

struct ask_answer {
    bool clear; /* it is one: else nothing below counts */
    bool allow;
    bool for_run; /* the same for the rest of the run */
};
/* A line as typed, without its newline. The reason of a denial, cleaned, is appended to *reason;
 * nothing: none was given. */
struct ask_answer ask_text_parse(const char *line, size_t n, struct buf *reason);

#endif
