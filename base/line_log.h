/*
 * A log of whole lines that never makes its writer wait: a bounded buffer in
 * front of a file that may fail, be full, or have a reader that is slow. Lines
 * that find no room are dropped, counted, and told of.
 */
#ifndef BASE_LINE_LOG_H
#define BASE_LINE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { LINE_LOG_LINE_MAX = 16384 };

struct line_log;

/* what: how messages call it. path "-": the descriptor `standard`, which stays open; may_be_planted
 * as for log_file_open(). NULL with a message in *error. */
struct line_log *line_log_open(const char *what, const char *path, int standard,
                               bool may_be_planted, struct buf *error);
/* Flushes what can be flushed. NULL is fine, here and below: nothing is logged. */
void line_log_close(struct line_log *log);

/* Opens the path afresh (after a rotation). On failure, with a message, the old file stays in use.
 */
bool line_log_reopen(struct line_log *log, struct buf *error);

/* The buffer for the next line, empty; NULL for no log. line_log_put() takes what is in it, which
 * ends with a line end. */
struct buf *line_log_line(struct line_log *log);
void line_log_put(struct line_log *log);
/* Writes out as far as that does not block: once a turn of the loop. True while lines are left. */
bool line_log_flush(struct line_log *log);
/* Lines dropped so far. */
uint64_t line_log_dropped(const struct line_log *log);

#endif
