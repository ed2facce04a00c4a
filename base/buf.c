#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_CAPACITY = 512 };

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_free(struct buf *b)
{
    free(b->mem);
    b->mem = NULL;
    b->start = b->end = b->cap = 0;
}

void buf_wipe(struct buf *b)
{
    if (b->mem != NULL)
        explicit_bzero(b->mem, b->cap);
    buf_free(b);
}

/* Makes room for n more bytes behind end, moving or growing; max is not enforced here. */
static void make_room(struct buf *b, size_t n)
{
    size_t len = buf_len(b);
    if (b->mem != NULL && b->cap - b->end >= n)
        return;
    /* Moving is worth it only when it frees at least half: keeps consume+append linear. */
    if (b->mem != NULL && b->cap - len >= n && b->start >= len) {
        memmove(b->mem, b->mem + b->start, len);
    } else {
        size_t cap = b->cap > FIRST_CAPACITY ? b->cap : FIRST_CAPACITY;
        while (cap < len + n)
            cap += cap / 2;
        /* Small bounds are often exact, and what waits keeps many such. */
        if (cap > b->max && b->max >= len + n)
            cap = b->max;
        uint8_t *mem = mem_resize(NULL, cap, 1);
        if (b->mem != NULL) {
            memcpy(mem, b->mem + b->start, len);
            /* What is wiped in the end must not have left a copy on the way. */
            explicit_bzero(b->mem + b->start, len);
        }
        free(b->mem);
        b->mem = mem;
        b->cap = cap;
    }
    b->start = 0;
    b->end = len;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    if (n > buf_room(b))
        return NULL;
    make_room(b, n);
    return b->mem + b->end;
}

void buf_commit(struct buf *b, size_t n)
{
    assert(n <= b->cap - b->end);
    b->end += n;
}

void buf_consume(struct buf *b, size_t n)
{
    assert(n <= buf_len(b));
    b->start += n;
    if (b->start == b->end)
        b->start = b->end = 0;
}

bool buf_append(struct buf *b, const void *p, size_t n)
{
    uint8_t *to = buf_reserve(b, n);
    if (to == NULL)
        return false;
    if (n != 0)
        memcpy(to, p, n);
    b->end += n;
    return true;
}

bool buf_puts(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

bool buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0 || (size_t)n > buf_room(b))
        return false;
    make_room(b, (size_t)n + 1);
    vsnprintf((char *)b->mem + b->end, (size_t)n + 1, fmt, ap);
    b->end += (size_t)n;
    return true;
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool ok = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return ok;
}

const char *buf_cstr(struct buf *b)
{
    make_room(b, 1);
    b->mem[b->end] = 0;
    return (const char *)b->mem + b->start;
}
