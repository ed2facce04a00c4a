/*
 * Memory that cannot fail: every size asked for here is bounded by a limit in
 * base/limits.h or by a settings file already read, so running out means the
 * machine is out, and the process ends with one line rather than going on half.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* All return zeroed or copied memory the caller frees with free(); they abort on failure. */
void *mem_alloc(size_t n);
void *mem_array(size_t count, size_t size);
void *mem_resize(void *p, size_t count, size_t size); /* new part not zeroed */
char *mem_dup(const char *s);
char *mem_dup_n(const char *s, size_t n); /* copies n bytes and appends a NUL */

/* Frees *p and clears it, so that no pointer to freed memory is left behind. */
#define MEM_FREE(p) \
    do {            \
        free(p);    \
        (p) = NULL; \
    } while (0)

#endif
