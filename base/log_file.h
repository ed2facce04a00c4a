/*
 * Opening a file that lines are appended to, where the program that the lines
 * are about may have been there before: what it left in the file's place must
 * not carry them, which it has a say in, to a file that it could not write.
 */
#ifndef BASE_LOG_FILE_H
#define BASE_LOG_FILE_H

#include <stdbool.h>

#include "base/buf.h"

/*
 * A descriptor for appending, non-blocking and close-on-exec; the file is made, for its owner
 * alone, where there is none. -1 with "WHAT PATH: why" in *error, also for what is no regular file,
 * FIFO or device. With may_be_planted no symbolic link is followed as the last component, and for a
 * relative path none at all; names of open descriptors (/dev/stderr, /dev/fd/3) are links by nature
 * and exempt.
 */
int log_file_open(const char *what, const char *path, bool may_be_planted, struct buf *error);

#endif
