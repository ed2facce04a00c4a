/* The command's own process, from the fork to its program. */
#ifndef LAUNCHER_INSIDE_COMMAND_H
#define LAUNCHER_INSIDE_COMMAND_H

#include "launcher/orders.h"

/*
 * Becomes the command. The seccomp listener goes out over `control`. What fails
 * is written to `report` as one line of text, without newline; `report` is
 * close-on-exec, so that an end without text says that the program runs.
 */
_Noreturn void command_become(const struct orders *orders, int control, int report);

#endif
