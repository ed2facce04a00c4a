#include "seccomp/observed.h"

#include <sys/syscall.h>

/* Younger than the headers of some systems; one number on every architecture. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

#define NO OBSERVED_NO_ARGUMENT
#define CALL(name, ...) SYS_##name, #name, __VA_ARGS__
#define ONE(directory, path) \
    {                        \
        {directory, path},   \
        {                    \
            NO, NO           \
        }                    \
    }
#define TWO(d1, p1, d2, p2) \
    {                       \
        {d1, p1},           \
        {                   \
            d2, p2          \
        }                   \
    }

/* Of a symbolic link only its own place: the target is text. */
static const struct observed_call calls[] = {
    {CALL(openat, ONE(0, 1), OPENING_FLAGS, 2)},
    {CALL(openat2, ONE(0, 1), OPENING_STRUCT, 2)},
    {CALL(unlinkat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(mkdirat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(mknodat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(symlinkat, ONE(1, 2), OPENING_NONE, 0)},
    {CALL(linkat, TWO(0, 1, 2, 3), OPENING_NONE, 0)},
#ifdef SYS_renameat
    {CALL(renameat, TWO(0, 1, 2, 3), OPENING_NONE, 0)},
#endif
    {CALL(renameat2, TWO(0, 1, 2, 3), OPENING_NONE, 0)},
    {CALL(fchmodat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(fchmodat2, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(fchownat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(utimensat, ONE(0, 1), OPENING_NONE, 0)},
    {CALL(truncate, ONE(NO, 0), OPENING_NONE, 0)},
#ifdef SYS_open
    {CALL(open, ONE(NO, 0), OPENING_FLAGS, 1)},
    {CALL(creat, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(unlink, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(rmdir, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(rename, TWO(NO, 0, NO, 1), OPENING_NONE, 0)},
    {CALL(link, TWO(NO, 0, NO, 1), OPENING_NONE, 0)},
    {CALL(symlink, ONE(NO, 1), OPENING_NONE, 0)},
    {CALL(mkdir, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(mknod, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(chmod, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(chown, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(lchown, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(utime, ONE(NO, 0), OPENING_NONE, 0)},
    {CALL(utimes, ONE(NO, 0), OPENING_NONE, 0)},
#endif
};

const struct observed_call *observed_calls(size_t *count)
{
    *count = sizeof calls / sizeof calls[0];
    return calls;
}

const struct observed_call *observed_call(int nr)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i].nr == nr)
            return &calls[i];
    return NULL;
}
