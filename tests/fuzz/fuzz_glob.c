/*
 * The length of the anchor, a pattern, NUL, a path: the automaton answers as a
 * matcher that tries every way, and never denies that a match may lie beneath a
 * directory where one does.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "launcher/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LENGTH_MAX = 200 };

enum kind { TEXT, ANY, SET, STAR, GLOBSTAR, DIRECTORIES };

struct token {
    enum kind kind;
    uint32_t text;
    size_t from, to; /* SET: its members in the pattern */
};

struct reference {
    uint32_t pattern[LENGTH_MAX], path[LENGTH_MAX];
    size_t pattern_length, path_length;
    struct token tokens[2 * LENGTH_MAX];
    size_t count;
    uint8_t failed[2 * LENGTH_MAX + 1][LENGTH_MAX + 1];
};

static size_t decode(const char *s, size_t n, uint32_t *out)
{
    size_t count = 0;

    while (n != 0) {
        uint32_t code;
        size_t k = text_utf8_decode((const uint8_t *)s, n, &code);
        if (k == 0) {
            code = 0x80000000U + (unsigned char)s[0];
            k = 1;
        }
        out[count++] = code;
        s += k;
        n -= k;
    }
    return count;
}

/* Members from..to of a set: is c one? -1 when they spell no set. */
static int member(const uint32_t *p, size_t from, size_t to, uint32_t c)
{
    int found = 0;

    if (from == to)
        return -1;
    for (size_t i = from; i < to;) {
        uint32_t low = p[i], high = low;
        i++;
        if (i + 1 < to && p[i] == '-') {
            high = p[i + 1];
            i += 2;
        }
        if (high < low)
            return -1;
        found |= low <= c && c <= high;
    }
    return found;
}

static void put(struct reference *r, enum kind kind, uint32_t text, size_t from, size_t to)
{
    r->tokens[r->count++] = (struct token){.kind = kind, .text = text, .from = from, .to = to};
}

static void parse(struct reference *r, size_t anchor)
{
    const uint32_t *p = r->pattern;
    size_t n = r->pattern_length, i, brackets = 0;

    for (i = 0; i < anchor; i++)
        put(r, TEXT, p[i], 0, 0);
    while (i < n) {
        size_t run = 0, close = i;
        while (i + run < n && p[i + run] == '*')
            run++;
        if (run != 0) {
            i += run;
            bool slash = run >= 2 && i < n && p[i] == '/';
            run -= slash ? 2 : 0;
            if (run != 0)
                put(r, run == 1 ? STAR : GLOBSTAR, 0, 0, 0);
            if (slash)
                put(r, DIRECTORIES, 0, 0, 0);
            i += slash;
            continue;
        }
        while (close < n && p[close] != ']')
            close++;
        if (p[i] == '[' && i >= brackets) {
            if (close < n && member(p, i + 1, close, 0) >= 0) {
                put(r, SET, 0, i + 1, close);
                i = close + 1;
                continue;
            }
            brackets = close + 1;
        }
        put(r, p[i] == '?' ? ANY : TEXT, p[i], 0, 0);
        i++;
    }
}

static bool matches(struct reference *r, size_t t, size_t at)
{
    const struct token *k = &r->tokens[t];
    bool match = false, more = at < r->path_length;
    uint32_t c = more ? r->path[at] : 0;

    if (t == r->count)
        return !more;
    if (r->failed[t][at])
        return false;
    switch (k->kind) {
    case TEXT:
        match = more && c == k->text && matches(r, t + 1, at + 1);
        break;
    case ANY:
        match = more && c != '/' && matches(r, t + 1, at + 1);
        break;
    case SET:
        match = more && member(r->pattern, k->from, k->to, c) == 1 && matches(r, t + 1, at + 1);
        break;
    case STAR:
        match = matches(r, t + 1, at) || (more && c != '/' && matches(r, t, at + 1));
        break;
    case GLOBSTAR:
        match = matches(r, t + 1, at) || (more && matches(r, t, at + 1));
        break;
    case DIRECTORIES:
        match = matches(r, t + 1, at);
        for (size_t i = at; !match && i < r->path_length; i++)
            match = r->path[i] == '/' && matches(r, t + 1, i + 1);
        break;
    }
    r->failed[t][at] = !match;
    return match;
}

static void check_ancestors(const struct glob *g, const char *path, size_t n)
{
    if (n < 2 || path[0] != '/')
        return;
    assert(glob_may_match_beneath(g, "/", 1));
    for (size_t i = 1; i + 1 < n; i++) {
        if (path[i] == '/' && path[i - 1] != '/')
            assert(glob_may_match_beneath(g, path, i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const char *text = (const char *)data + 1;
    const char *end = memchr(text, 0, size - 1);
    size_t n = end != NULL ? (size_t)(end - text) : size - 1;
    const char *path = end != NULL ? end + 1 : "";
    size_t m = end != NULL ? size - 2 - n : 0;
    if (n > LENGTH_MAX || m > LENGTH_MAX)
        return 0;
    size_t anchor = data[0] % (n + 1);

    char *pattern = mem_dup_n(text, n);
    struct reference *r = mem_alloc(sizeof *r);
    size_t literal = decode(pattern, anchor, r->pattern);
    r->pattern_length = literal + decode(pattern + anchor, n - anchor, r->pattern + literal);
    r->path_length = decode(path, m, r->path);
    parse(r, literal);

    struct glob *g = glob_new(pattern, anchor);
    bool match = glob_match(g, path, m);
    assert(match == matches(r, 0, 0));
    assert(glob_match(g, path, m) == match);
    if (match)
        check_ancestors(g, path, m);
    if (!glob_has_wildcard(pattern + anchor, n - anchor))
        assert(match == (n == m && memcmp(pattern, path, n) == 0));
    glob_free(g);
    free(r);
    free(pattern);
    return 0;
}
