/*
 * The lines of the reference decider's log: JSON, one for each decision. Never
 * in them: header fields, queries, bodies. Fields: srt-decider(8).
 */
#ifndef DECIDER_REFERENCE_DECISION_LOG_H
#define DECIDER_REFERENCE_DECISION_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/line_log.h"
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

/* log NULL: none. now: Unix seconds. Every text is cut, so that a line always fits. */
void decision_log(struct line_log *log, double now, const struct logged_question *q,
                  const struct rule_decision *decision);

#endif
