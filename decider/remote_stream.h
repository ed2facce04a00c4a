/*
 * A link on the loop: its bytes through one or two descriptors, and its ticks.
 * What the questions of one turn put out leaves together at the end of the turn.
 * Neither a talkative decider nor a long output holds the loop.
 */
#ifndef DECIDER_REMOTE_STREAM_H
#define DECIDER_REMOTE_STREAM_H

#include <ev.h>

#include "decider/link.h"

struct remote_stream;

/* in and out: non-blocking, the same or two; taken over. dead: the link died of what the stream
 * brought, or of a tick; called last, so that both may be freed in it. */
struct remote_stream *remote_stream_new(struct ev_loop *loop, struct link *link, int in, int out,
                                        void (*dead)(void *ctx), void *ctx);
/* Closes the descriptors; the link stays. NULL is fine. */
void remote_stream_free(struct remote_stream *s);

#endif
