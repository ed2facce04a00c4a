#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(void)
{
    fputs("srt: out of memory\n", stderr);
    abort();
}

void *mem_alloc(size_t n)
{
    void *p = calloc(1, n != 0 ? n : 1);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *mem_array(size_t count, size_t size)
{
    void *p = calloc(count != 0 ? count : 1, size);
    if (p == NULL)
        out_of_memory();
    return p;
}

void *mem_resize(void *p, size_t count, size_t size)
{
    void *q = reallocarray(p, count != 0 ? count : 1, size);
    if (q == NULL)
        out_of_memory();
    return q;
}

char *mem_dup(const char *s)
{
    return mem_dup_n(s, strlen(s));
}

char *mem_dup_n(const char *s, size_t n)
{
    char *p = mem_alloc(n + 1);
    memcpy(p, s, n);
    return p;
}
