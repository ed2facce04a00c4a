/*
 * The decider's side of one link, without I/O: bytes of the proxy go in, frames
 * with answers come out. Speaks the protocol that the proxy's hello speaks.
 * Strict: after a violation nothing more is answered. Chapter 35.
 */
#ifndef DECIDER_REFERENCE_SESSION_H
#define DECIDER_REFERENCE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "decider/reference/decision_log.h"
#include "decider/reference/rules.h"

enum {
    SESSION_OUTPUT_ENOUGH = 262144, /* past this, answers wait until some are taken */
    SESSION_OUTPUT_MAX = SESSION_OUTPUT_ENOUGH + 1048576 + 4,
    SESSION_INPUT_MAX = 44739302 + 4, /* the largest frame that a proxy sends */
    SESSION_WAITING_MAX = 4096 /* requests whose bodies are awaited; the oldest are dropped */
};

struct session;

/* *rules: the present ones, looked at for each question; log: NULL for none. Both outlive it. */
struct session *session_new(struct decider_rules *const *rules, struct line_log *log);
void session_free(struct session *s); /* NULL is fine */

/*
 * Answers the frames that p[0..n) begins with, into `out`, whose maximum is SESSION_OUTPUT_MAX;
 * *used is how many bytes that took. Stops before a frame that is not complete, or once there is
 * output enough. False, with the reason (static text) in *why, for a violation. now: Unix seconds.
 */
bool session_answer(struct session *s, const uint8_t *p, size_t n, double now, size_t *used,
                    struct buf *out, const char **why);

#endif
