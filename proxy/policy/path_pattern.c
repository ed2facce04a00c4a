#include "proxy/policy/path_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape at s[0..n) stands for, or -1. */
static int escaped_byte(const char *s, size_t n)
{
    if (n < 3 || hex_value(s[1]) < 0 || hex_value(s[2]) < 0)
        return -1;
    return hex_value(s[1]) << 4 | hex_value(s[2]);
}

static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool is_path_byte(int c)
{
    return c > 0 && c != '/' && c != '\\';
}

struct segment {
    size_t len; /* decoded */
    bool escapes;
    bool ok; /* every server reads it as the same one name */
};

/* Decodes one segment to `to`, at most n bytes. */
static struct segment decode_segment(char *to, const char *s, size_t n)
{
    struct segment segment = {.ok = true};
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)s[i];
        if (c == '%') {
            c = escaped_byte(s + i, n - i);
            segment.escapes = true;
            i += c >= 0 ? 2 : 0;
        }
        segment.ok &= is_path_byte(c);
        to[segment.len++] = (char)c;
    }
    return segment;
}

/* Number of dots when a decoded segment is "." or "..", alone or with parameters that some servers
 * cut off; else 0. */
static size_t dots(const char *s, size_t n)
{
    size_t count = 0;
    while (count < n && count < 3 && s[count] == '.')
        count++;
    if (count > 2)
        return 0;
    return count == n || s[count] == ';' ? count : 0;
}

/* Takes the last segment back. False: it is empty, and whether it counts is not agreed. */
static bool take_back(const char *start, char **to)
{
    if (*to == start)
        return true;
    if ((*to)[-1] == '/')
        return false;
    while (*--*to != '/')
        ;
    return true;
}

/* Writes the path s[0..n), which starts with '/', to `to`, at most n bytes, and moves it on; runs
 * of slashes are still there. False: ambiguous. */
static bool write_path(char **to, const char *s, size_t n)
{
    char *const start = *to;
    for (size_t i = 0; i < n;) {
        size_t at = ++i;
        while (i < n && s[i] != '/')
            i++;
        char *const slash = *to;
        struct segment segment = decode_segment(slash + 1, s + at, i - at);
        size_t dot_count = dots(slash + 1, segment.len);
        if (!segment.ok || (dot_count != 0 && (segment.escapes || segment.len != dot_count)))
            return false;
        if (dot_count == 2 && !take_back(start, to))
            return false;
        if (dot_count == 0) {
            *slash = '/';
            *to = slash + 1 + segment.len;
        } else if (i == n) {
            *(*to)++ = '/';
        }
    }
    return true;
}

static size_t merge_slashes(char *s, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        if (s[i] != '/' || len == 0 || s[len - 1] != '/')
            s[len++] = s[i];
    return len;
}

/* Writes the query to `to`, at most n bytes; *len is how many. False: ambiguous. */
static bool write_query(char *to, const char *s, size_t n, size_t *len)
{
    static const char hex[] = "0123456789ABCDEF";
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] != '%') {
            to[(*len)++] = s[i];
            continue;
        }
        int c = escaped_byte(s + i, n - i);
        if (c <= 0)
            return false;
        i += 2;
        if (is_unreserved(c)) {
            to[(*len)++] = (char)c;
        } else {
            to[(*len)++] = '%';
            to[(*len)++] = hex[c >> 4];
            to[(*len)++] = hex[c & 15];
        }
    }
    return true;
}

/* Length of s up to the first `end`. */
static size_t length_before(const char *s, size_t n, char end)
{
    const char *found = n != 0 ? memchr(s, end, n) : NULL;
    return found != NULL ? (size_t)(found - s) : n;
}

void request_path_init(struct request_path *p, const char *target, size_t n)
{
    *p = (struct request_path){0};
    n = length_before(target, n, '#');
    size_t path_len = length_before(target, n, '?');
    bool rooted = path_len != 0 && target[0] == '/';
    char *copy = mem_alloc(n + 2), *from = copy, *to;
    p->path = mem_alloc(n + 3);
    if (n == 1 && target[0] == '*') {
        p->path[0] = '*';
        p->path_len = 1;
    } else {
        if (!rooted)
            *copy = '/';
        if (path_len != 0)
            memcpy(copy + !rooted, target, path_len);
        to = p->path;
        p->ambiguous = !write_path(&to, from, path_len + !rooted);
        p->path_len = p->ambiguous ? 0 : merge_slashes(p->path, (size_t)(to - p->path));
    }
    char *query = p->path + path_len + 2;
    if (path_len < n)
        p->query_ambiguous =
            !write_query(query, target + path_len + 1, n - path_len - 1, &p->query_len);
    p->query = query;
    free(copy);
}

void request_path_free(struct request_path *p)
{
    MEM_FREE(p->path);
}

/* What a whole segment of a pattern is. */
enum wildcard { WILDCARD_NONE, WILDCARD_SEGMENT, WILDCARD_REST, WILDCARD_BAD };

static enum wildcard wildcard(const char *s, size_t n)
{
    if (n == 0 || memchr(s, '*', n) == NULL)
        return WILDCARD_NONE;
    if (n == 1)
        return WILDCARD_SEGMENT;
    return n == 2 && s[0] == '*' && s[1] == '*' ? WILDCARD_REST : WILDCARD_BAD;
}

/*
 * The path of a pattern in two parts, before and behind `**`, each a run of
 * "/segment". A NUL, which no path holds, stands for one segment of any name.
 */
struct path_pattern {
    char *head, *tail;
    size_t head_len, tail_len;
    bool rest;   /* there is a `**` */
    char *query; /* NULL: none asked for */
    size_t query_len;
};

/* Takes one segment of a pattern in. False: not valid. */
static bool add_segment(struct path_pattern *pattern, const char *s, size_t n, bool last)
{
    char *part = pattern->rest ? pattern->tail : pattern->head;
    size_t *len = pattern->rest ? &pattern->tail_len : &pattern->head_len;
    enum wildcard kind = wildcard(s, n);
    if (kind == WILDCARD_BAD || (kind == WILDCARD_REST && pattern->rest) || (n == 0 && !last))
        return false;
    if (kind == WILDCARD_REST) {
        pattern->rest = true;
        return true;
    }
    part[(*len)++] = '/';
    if (kind == WILDCARD_SEGMENT) {
        part[(*len)++] = '\0';
        return true;
    }
    struct segment segment = decode_segment(part + *len, s, n);
    bool ok = segment.ok && dots(part + *len, segment.len) == 0;
    *len += segment.len;
    return ok;
}

static bool compile(struct path_pattern *pattern, const char *s, size_t n)
{
    if (n == 0 || n > PATH_PATTERN_MAX || s[0] != '/' || length_before(s, n, '#') != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < ' ' || s[i] == 0x7F)
            return false;
    size_t path_len = length_before(s, n, '?');
    pattern->head = mem_alloc(path_len + 1);
    pattern->tail = mem_alloc(path_len + 1);
    for (size_t i = 0; i < path_len;) {
        size_t at = ++i;
        while (i < path_len && s[i] != '/')
            i++;
        if (!add_segment(pattern, s + at, i - at, i == path_len))
            return false;
    }
    if (path_len == n)
        return true;
    pattern->query = mem_alloc(n - path_len);
    return write_query(pattern->query, s + path_len + 1, n - path_len - 1, &pattern->query_len);
}

void path_pattern_free(struct path_pattern *pattern)
{
    if (pattern == NULL)
        return;
    free(pattern->head);
    free(pattern->tail);
    free(pattern->query);
    free(pattern);
}

struct path_pattern *path_pattern_new(const char *s, size_t n)
{
    struct path_pattern *pattern = mem_alloc(sizeof *pattern);
    if (compile(pattern, s, n))
        return pattern;
    path_pattern_free(pattern);
    return NULL;
}

bool path_pattern_valid(const char *s, size_t n)
{
    struct path_pattern *pattern = path_pattern_new(s, n);
    bool valid = pattern != NULL;
    path_pattern_free(pattern);
    return valid;
}

bool path_pattern_has_query(const struct path_pattern *pattern)
{
    return pattern->query != NULL;
}

bool path_pattern_is_any(const struct path_pattern *pattern)
{
    return pattern->rest && pattern->head_len == 0 && pattern->tail_len == 0 &&
           pattern->query == NULL;
}

/* Matches a part of a pattern against the start of a path; *used is how much of it. */
static bool match_start(const char *part, size_t part_len, const char *path, size_t n, size_t *used)
{
    size_t at = 0;
    for (size_t i = 0; i < part_len; i++) {
        if (part[i] != '\0') {
            if (at == n || path[at++] != part[i])
                return false;
            continue;
        }
        size_t begin = at;
        while (at < n && path[at] != '/')
            at++;
        if (at == begin)
            return false;
    }
    *used = at;
    return at == n || path[at] == '/';
}

/* Matches a part of a pattern against the end of a path. */
static bool match_end(const char *part, size_t part_len, const char *path, size_t n)
{
    while (part_len-- != 0) {
        if (part[part_len] != '\0') {
            if (n == 0 || path[--n] != part[part_len])
                return false;
            continue;
        }
        size_t end = n;
        while (n != 0 && path[n - 1] != '/')
            n--;
        if (n == end)
            return false;
    }
    return true;
}

static bool match_path(const struct path_pattern *pattern, const char *path, size_t n)
{
    size_t used;
    if (!match_start(pattern->head, pattern->head_len, path, n, &used))
        return false;
    if (!pattern->rest)
        return used == n;
    return match_end(pattern->tail, pattern->tail_len, path + used, n - used);
}

bool path_pattern_match(const struct path_pattern *pattern, const struct request_path *path)
{
    if (pattern->query != NULL && (pattern->query_len != path->query_len ||
                                   memcmp(pattern->query, path->query, path->query_len) != 0))
        return false;
    return match_path(pattern, path->path, path->path_len);
}
