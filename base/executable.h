/* Programs on PATH. */
#ifndef BASE_EXECUTABLE_H
#define BASE_EXECUTABLE_H

#include <stdbool.h>

/* A regular file that we may execute. */
bool executable_is(const char *path);

/*
 * The next executable of that name from *path on, which is moved behind it; NULL at the end. *path
 * is as PATH is, NULL: there is none. Only absolute directories count: a relative one, or an empty
 * one, is the working directory, whose files may be anybody's. The caller frees it.
 */
char *executable_next(const char **path, const char *name);

/* The first on PATH of our environment, for a name without slashes; NULL: none. The caller frees
 * it. */
char *executable_find(const char *name);

#endif
