/*
 * The first process of the box: starts the command, reaps what it leaves
 * behind, passes signals on, and tells the launcher how it went.
 */
#ifndef LAUNCHER_INSIDE_INIT_H
#define LAUNCHER_INSIDE_INIT_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/orders.h"

struct init {
    int control; /* to the launcher */
    int report;  /* from the command, until it is executed; then -1 */
    int signals; /* SIGCHLD */
    int command; /* its process */
};

/* Forks the command. The orders are not needed here any more afterwards. */
bool init_start(struct init *init, int control, const struct orders *orders, struct buf *error);

/* Returns never: ends with the command, or at once when the launcher has gone. */
_Noreturn void init_serve(struct init *init);

#endif
