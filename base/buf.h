/*
 * The one buffer: a run of bytes with a hard maximum named when it is made.
 * Bytes go in at the end and are consumed from the front. Nothing is allocated
 * until the first byte; a drained buffer can give its memory back.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *mem; /* allocation, NULL when none */
    size_t start; /* first unread byte */
    size_t end;   /* one past the last */
    size_t cap;   /* size of mem */
    size_t max;   /* buf_len() never exceeds this */
};

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b); /* releases the memory; the buffer stays usable and empty */
void buf_wipe(struct buf *b); /* the same, and overwrites what it held first */

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}
static inline size_t buf_room(const struct buf *b)
{
    return b->max - buf_len(b);
}
/* The unread bytes; valid until the next call that may grow or move the buffer. */
static inline uint8_t *buf_data(const struct buf *b)
{
    return b->mem != NULL ? b->mem + b->start : NULL;
}
static inline char *buf_chars(const struct buf *b)
{
    return (char *)buf_data(b);
}

/* Space for n more bytes at the end, or NULL when that would pass max. Then buf_commit(). */
uint8_t *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
void buf_consume(struct buf *b, size_t n);
static inline void buf_clear(struct buf *b)
{
    b->start = b->end = 0;
}

/* False, with nothing appended, when it would pass max. */
bool buf_append(struct buf *b, const void *p, size_t n);
bool buf_puts(struct buf *b, const char *s);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* The content as a NUL-terminated string (the NUL is not counted); "" when empty. */
const char *buf_cstr(struct buf *b);

#endif
