/* What srt itself is made of and reads: the command must not write it, or the next run is its. */
#ifndef LAUNCHER_OWN_FILES_H
#define LAUNCHER_OWN_FILES_H

#include "launcher/command_line.h"
#include "launcher/dependencies.h"
#include "launcher/path.h"
#include "proxy/settings/snapshot.h"

/* Appends the paths, those that are not there included: the settings, the default ones too, the
 * programs, the logs, the decider's socket (NULL: none). inside: srt-inside, open. Ends the list
 * with NULL, not counted. */
void own_files(const struct command_line *line, const struct dependencies *d, int inside,
               const char *log, const char *socket, struct paths *out);

#endif
