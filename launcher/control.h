/* Settings updates from an inherited descriptor, chapter 50 section 1.5. */
#ifndef LAUNCHER_CONTROL_H
#define LAUNCHER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

#include <ev.h>
#include <jansson.h>

#include "base/buf.h"

struct control;

struct control_events {
    /* A line that is valid. The document is borrowed. */
    void (*document)(void *ctx, const json_t *document);
    /* Reading failed. `before_any`: no line came before; the text is the whole message. */
    void (*failed)(void *ctx, bool before_any, const char *message);
    void *ctx;
};

/* Section 1.5: open and readable. False with the message (no newline, "Error: " included) in
 * *error. */
bool control_usable(int fd, struct buf *error);

/* Reads on the loop from now on; an invalid line is reported on stderr. `fd` is taken over. A
 * regular file, which no loop can watch, is read in pieces at once. */
struct control *control_new(struct ev_loop *loop, int fd, int shown_number,
                            const struct control_events *events);
/* Reads what is there already, without waiting. */
void control_poll(struct control *c);
void control_free(struct control *c);

#endif
