#include "proxy/http/target_path.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The escape sets of the URL standard for http, less what cannot be in a target that parsed. */
static const char path_escapes[] = "\"<>`{}";
static const char query_escapes[] = "\"<>'";

static bool must_escape(uint8_t c, const char *chosen)
{
    return c <= 0x20 || c >= 0x7F || strchr(chosen, c) != NULL;
}

/* Writes s[0..n) to `to` with escapes, at most 3 * n bytes; returns where it ended. */
static uint8_t *write_escaped(uint8_t *to, const char *s, size_t n, const char *chosen)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if (must_escape(c, chosen)) {
            *to++ = '%';
            *to++ = (uint8_t)hex[c >> 4];
            *to++ = (uint8_t)hex[c & 15];
        } else {
            *to++ = c;
        }
    }
    return to;
}

/* Number of dots when the whole segment is one or two of them, each as '.' or %2e; else 0. */
static unsigned dots(const char *s, size_t n)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; count++) {
        if (s[i] == '.')
            i++;
        else if (n - i >= 3 && s[i] == '%' && s[i + 1] == '2' && (s[i + 2] | 0x20) == 'e')
            i += 3;
        else
            return 0;
    }
    return count <= 2 ? count : 0;
}

/* Writes the normal form of the path s[0..n) to `to`; returns where it ended. */
static uint8_t *write_path(uint8_t *to, const char *s, size_t n)
{
    uint8_t *const root = to;
    for (size_t i = 0; i < n;) {
        size_t segment = ++i;
        while (i < n && s[i] != '/' && s[i] != '\\')
            i++;
        unsigned dot_count = dots(s + segment, i - segment);
        if (dot_count == 2 && to > root)
            while (*--to != '/')
                ;
        if (dot_count == 0) {
            *to++ = '/';
            to = write_escaped(to, s + segment, i - segment, path_escapes);
        } else if (i == n) {
            *to++ = '/';
        }
    }
    return to;
}

bool target_path_normalise(struct buf *out, const char *s, size_t n, bool one_slash)
{
    const char *question = memchr(s, '?', n);
    size_t path_len = question != NULL ? (size_t)(question - s) : n;
    uint8_t *mem = mem_array(n, 3);
    uint8_t *end = write_path(mem, s, path_len);
    uint8_t *begin = mem;
    if (one_slash)
        while (end - begin > 1 && begin[0] == '/' && begin[1] == '/')
            begin++;
    if (path_len + 1 < n) {
        *end++ = '?';
        end = write_escaped(end, question + 1, n - path_len - 1, query_escapes);
    }
    bool ok = buf_append(out, begin, (size_t)(end - begin));
    MEM_FREE(mem);
    return ok;
}

bool target_escape(struct buf *out, const char *s, size_t n, const char *chosen)
{
    uint8_t *mem = mem_array(n, 3);
    uint8_t *end = write_escaped(mem, s, n, chosen);
    bool ok = buf_append(out, mem, (size_t)(end - mem));
    MEM_FREE(mem);
    return ok;
}
