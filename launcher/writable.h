/*
 * What a command could put something else in the place of: programs from there
 * are not for srt to run. Reads the disk, changes nothing.
 */
#ifndef LAUNCHER_WRITABLE_H
#define LAUNCHER_WRITABLE_H

#include <stdbool.h>

#include "launcher/sandbox_settings.h"

/*
 * True when the settings open the file at this absolute path for writing, by its name or by what
 * it leads to, and this user may write it or a directory on the way to it from the entry. Where
 * root opens "/" as a whole, nothing is any better than the rest: false.
 */
bool writable_by_command(const struct sandbox_settings *s, const char *path);

#endif
