/*
 * One link on the loop: reads what the proxy sends, writes the answers at once
 * for all that was read, and reads no more while the proxy takes none.
 */
#ifndef DECIDER_REFERENCE_STREAM_H
#define DECIDER_REFERENCE_STREAM_H

#include <stdbool.h>

#include <ev.h>

#include "decider/reference/session.h"

/* Why a link ended. */
enum stream_end {
    STREAM_DONE,      /* the proxy ended it, or takes no more */
    STREAM_VIOLATION, /* the proxy broke the protocol */
    STREAM_FAILED     /* reading or writing did not work */
};

struct stream;

struct stream_options {
    struct ev_loop *loop;
    int in, out; /* non-blocking; not closed by the stream; may be the same */
    struct decider_rules *const *rules;
    struct line_log *log;
    void (*answered)(void *ctx); /* after each batch: the log has new lines */
    /* Once, from the loop; the stream is to be freed, from inside it too. why: for people. */
    void (*ended)(void *ctx, enum stream_end end, const char *why);
    void *ctx;
};

struct stream *stream_new(const struct stream_options *o);
void stream_free(struct stream *s); /* NULL is fine */

#endif
