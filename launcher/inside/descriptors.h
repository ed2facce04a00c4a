/* Which descriptors the helper and the command hold. */
#ifndef LAUNCHER_INSIDE_DESCRIPTORS_H
#define LAUNCHER_INSIDE_DESCRIPTORS_H

#include <stdbool.h>

#include "base/buf.h"

/* Closes everything but 0 to 2 and the two given. */
bool descriptors_close_others(int a, int b, struct buf *error);

/* Where 0, 1 or 2 is closed something close-on-exec takes its number, so that nothing of ours
 * lands there and the command finds it as closed as it was. */
bool descriptors_fill(struct buf *error);

/* `stderr_fd` becomes descriptor 2. */
bool descriptors_standard_error(int stderr_fd, struct buf *error);

/* Closes fd unless it is negative; errno stays as it was. */
void descriptors_close(int fd);

#endif
