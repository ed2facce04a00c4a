/* The box's own /dev. */
#ifndef LAUNCHER_INSIDE_DEVICES_H
#define LAUNCHER_INSIDE_DEVICES_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/inside/box.h"

/* Mounts a minimal /dev. `console`: with standard output's terminal as its console. */
bool devices_make(struct box *b, bool console, struct buf *error);

#endif
