/* One program at a time asks on a terminal. */
#ifndef LAUNCHER_TERMINAL_LOCK_H
#define LAUNCHER_TERMINAL_LOCK_H

#include <stdbool.h>

/* Takes the lock of the terminal that fd is of. False: somebody else has it. *lock: to be held
 * open as long as it is wanted; -1 where the terminal's device cannot be opened by its name, as
 * after su(1): the lock is on a standard descriptor then, if one of them is the terminal. */
bool terminal_lock(int fd, int *lock);

#endif
