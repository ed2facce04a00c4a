/* What is said about settings that are valid: entries without effect. */
#ifndef SETTINGS_NOTES_H
#define SETTINGS_NOTES_H

#include <jansson.h>

#include "base/buf.h"

/*
 * Appends "srt: warning: ..." lines for entries that can match no host (chapter
 * 10 section 4.2), for deniedDomains that leave nothing of allowedDomains, and
 * for network.rules and a decider's level that tunnels pass by.
 */
void settings_notes(const json_t *document, struct buf *warnings);

/* Appends a line and its newline, with control, bidi and zero-width characters and bytes that are
 * not UTF-8 as \xNN: what a file holds must not steer a terminal, nor look like another line. */
void settings_line(struct buf *out, const char *text, size_t n);

#endif
