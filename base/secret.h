/*
 * Secrets in memory: locked where the system lets us, left out of core dumps,
 * wiped when freed; compared in constant time; read from files that nobody else
 * can read.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct secret {
    uint8_t *bytes; /* len of them, and a NUL that is not counted */
    size_t len;
    size_t mapped; /* private: size of the pages that hold them */
};

enum { SECRET_TOKEN_MAX = 1024 };

/* Copies n bytes; the caller wipes its own copy. */
struct secret *secret_new(const void *p, size_t n);
/* Wipes and frees; NULL is fine. */
void secret_free(struct secret *s);

/* The time taken depends on the lengths alone, and different lengths are never equal. */
bool secret_equal(const void *a, size_t na, const void *b, size_t nb);

/*
 * The token in a file: printable ASCII without spaces, 1 to max bytes (never more than
 * SECRET_TOKEN_MAX), trailing line ends dropped. The file must be a regular one, owned by the
 * effective user or root, without any permission for group and others. NULL otherwise, with a
 * message that names the path, never what is in it, appended to *error.
 */
struct secret *secret_read_file(const char *path, size_t max, struct buf *error);

/*
 * No core dumps of this process, and no other process of the same user may attach to it. From
 * then on /proc/self belongs to root. False when the system refuses either.
 */
bool process_no_core_dumps(void);

#endif
