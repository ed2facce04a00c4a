#include "base/executable.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

bool executable_is(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

char *executable_next(const char **path, const char *name)
{
    while (*path != NULL) {
        const char *directory = *path;
        size_t n = strcspn(directory, ":");
        *path = directory[n] == 0 ? NULL : directory + n + 1;
        if (directory[0] != '/')
            continue;
        size_t size = n + strlen(name) + 2;
        char *candidate = mem_alloc(size);
        snprintf(candidate, size, "%.*s/%s", (int)n, directory, name);
        if (executable_is(candidate))
            return candidate;
        free(candidate);
    }
    return NULL;
}

char *executable_find(const char *name)
{
    const char *path = getenv("PATH");
    return name[0] == 0 || strchr(name, '/') != NULL ? NULL : executable_next(&path, name);
}
