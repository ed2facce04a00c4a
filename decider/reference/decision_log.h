/*
 * The reference decider's log: one JSON line for each decision. Never in it:
 * header fields, queries, bodies. Lines wait in a bounded buffer for a file
 * that takes them, and are dropped, counted, when it does not: answers never
 * wait for the log. Fields: srt-decider(8).
 */
#ifndef DECIDER_REFERENCE_DECISION_LOG_H
#define DECIDER_REFERENCE_DECISION_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "decider/reference/rules.h"

enum { LOGGED_PATH_MAX = 1024, LOGGED_METHOD_MAX = 64 };

/* What was asked. */
struct logged_question {
    int64_t id;
    bool connection;
    const char *how; /* the method of a request, the way that a connection came */
    const char *host;
    uint16_t port;
    const char *path; /* of a request, without its query */
};

struct decision_log;

/* path "-": standard error. NULL with a message in *error. */
struct decision_log *decision_log_open(const char *path, struct buf *error);
/* Opens the file afresh, after it was moved away. False with a message: the old one stays. */
bool decision_log_reopen(struct decision_log *log, struct buf *error);
/* Writes what can be written, then frees. NULL is fine here and below. */
void decision_log_close(struct decision_log *log);

/* now: Unix seconds. */
void decision_log_write(struct decision_log *log, double now, const struct logged_question *q,
                        const struct rule_decision *decision);
/* True when lines are left that could not be written: to be tried again later. */
bool decision_log_flush(struct decision_log *log);

#endif
