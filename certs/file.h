/* Whole files that may hold keys, read without leaving copies behind. */
#ifndef CERTS_FILE_H
#define CERTS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Reads at most max bytes into *content, which this makes and the caller wipes whatever the result.
 * regular: nothing but a regular file will do, and nothing is waited for. Returns an errno, 0 when
 * all was read, EFBIG for a longer file or one that grows meanwhile.
 */
int file_read(const char *path, size_t max, bool regular, struct buf *content);

#endif
