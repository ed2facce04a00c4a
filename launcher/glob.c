#include "launcher/glob.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "launcher/glob_machine.h"

enum {
    BITS = 64,
    NOT_TEXT = 0x110000 /* plus the byte: a byte that is no UTF-8 is a character of its own */
};

bool glob_has_wildcard(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '*' || s[i] == '?' || s[i] == '[' || s[i] == ']')
            return true;
    }
    return false;
}

static size_t next_character(const char *s, size_t n, uint32_t *code)
{
    size_t k = (unsigned char)s[0] < 0x80 ? 0 : text_utf8_decode((const uint8_t *)s, n, code);

    if (k != 0)
        return k;
    *code = (unsigned char)s[0];
    if (*code >= 0x80)
        *code += NOT_TEXT;
    return 1;
}

static void add_state(struct glob *g, enum glob_kind kind, uint32_t character)
{
    if (g->count == g->room) {
        g->room = g->room != 0 ? g->room * 2 : 64;
        g->states = mem_resize(g->states, g->room, sizeof *g->states);
    }
    g->states[g->count++] = (struct glob_state){.kind = kind, .character = character};
}

static void add_range(struct glob *g, uint32_t from, uint32_t to)
{
    if (g->range_count == g->range_room) {
        g->range_room = g->range_room != 0 ? g->range_room * 2 : 16;
        g->ranges = mem_resize(g->ranges, g->range_room, sizeof *g->ranges);
    }
    g->ranges[g->range_count++] = (struct glob_range){.from = from, .to = to};
}

/* The members of a set. False, with nothing added, when they spell none. */
static bool add_set(struct glob *g, const char *s, size_t n)
{
    size_t first = g->range_count, i = 0;

    while (i < n) {
        uint32_t from, to;
        i += next_character(s + i, n - i, &from);
        to = from;
        if (i + 1 < n && s[i] == '-')
            i += 1 + next_character(s + i + 1, n - i - 1, &to);
        if (to < from) {
            g->range_count = first;
            return false;
        }
        add_range(g, from, to);
    }
    if (n == 0)
        return false;
    add_state(g, GLOB_SET, 0);
    g->states[g->count - 1].first_range = first;
    g->states[g->count - 1].ranges = g->range_count - first;
    return true;
}

static void add_wildcard(struct glob *g, enum glob_kind kind)
{
    /* Twice the same is once, and twice is only more work for every character. */
    if (g->count != 0 && g->states[g->count - 1].kind == kind)
        return;
    if (kind != GLOB_DIRECTORIES) {
        add_state(g, kind, 0);
        return;
    }
    add_state(g, GLOB_SKIP, 0);
    add_state(g, GLOB_DIRECTORIES, 0);
}

/* A run of stars, with the slash the last two may take; returns the bytes used. */
static size_t add_stars(struct glob *g, const char *s)
{
    size_t stars = strspn(s, "*");
    bool directories = stars >= 2 && s[stars] == '/';
    size_t rest = stars - (directories ? 2 : 0);

    if (rest >= 2)
        add_wildcard(g, GLOB_GLOBSTAR);
    else if (rest == 1)
        add_wildcard(g, GLOB_STAR);
    if (directories)
        add_wildcard(g, GLOB_DIRECTORIES);
    return stars + directories;
}

static void add_text(struct glob *g, const char *s, size_t n)
{
    while (n != 0) {
        uint32_t code;
        size_t k = next_character(s, n, &code);
        add_state(g, GLOB_CHARACTER, code);
        s += k;
        n -= k;
    }
}

static void compile(struct glob *g, const char *s)
{
    const char *text_until = s; /* brackets before here are known to open no set */

    while (*s != '\0') {
        if (*s == '*') {
            s += add_stars(g, s);
            continue;
        }
        if (*s == '?') {
            add_state(g, GLOB_ANY, 0);
            s++;
            continue;
        }
        if (*s == '[' && s >= text_until) {
            const char *close = strchr(s + 1, ']');
            if (close != NULL && add_set(g, s + 1, (size_t)(close - s - 1))) {
                s = close + 1;
                continue;
            }
            text_until = close != NULL ? close + 1 : s + strlen(s);
        }
        size_t n = strcspn(s + 1, "*?[") + 1;
        add_text(g, s, n);
        s += n;
    }
    add_state(g, GLOB_END, 0);
}

/* The bytes before the last slash that is before the first wildcard. */
static size_t base_length(const char *text, size_t anchor)
{
    size_t end = anchor + strcspn(text + anchor, "*?[]");

    while (end > 0 && text[end] != '/')
        end--;
    return end;
}

struct glob *glob_new(const char *text, size_t anchor)
{
    struct glob *g = mem_alloc(sizeof *g);

    add_text(g, text, anchor);
    compile(g, text + anchor);
    g->words = (g->count + BITS - 1) / BITS;
    g->base = base_length(text, anchor);
    g->spare = mem_array(2 * g->words, sizeof *g->spare);
    g->directory = SIZE_MAX;
    /* Where the slash is part of a star-star before it, all that matches without the last
     * star-star matches with it too. */
    if (g->count >= 3 && g->states[g->count - 2].kind == GLOB_GLOBSTAR &&
        g->states[g->count - 3].kind == GLOB_CHARACTER && g->states[g->count - 3].character == '/')
        g->directory = g->count - 3;
    return g;
}

void glob_free(struct glob *g)
{
    if (g == NULL)
        return;
    free(g->states);
    free(g->ranges);
    free(g->spare);
    free(g);
}

static bool has_state(const uint64_t *set, size_t i)
{
    return (set[i / BITS] >> (i % BITS) & 1) != 0;
}

/* Adds a state and all that is reached from it by no character. */
static void enter(const struct glob *g, uint64_t *set, size_t i)
{
    while (!has_state(set, i)) {
        set[i / BITS] |= UINT64_C(1) << (i % BITS);
        enum glob_kind kind = g->states[i].kind;
        if (kind == GLOB_SKIP) {
            set[(i + 1) / BITS] |= UINT64_C(1) << ((i + 1) % BITS);
            i += 2;
        } else if (kind == GLOB_STAR || kind == GLOB_GLOBSTAR) {
            i++;
        }
    }
}

static bool in_set(const struct glob *g, const struct glob_state *state, uint32_t code)
{
    const struct glob_range *r = g->ranges + state->first_range;

    for (size_t i = 0; i < state->ranges; i++) {
        if (r[i].from <= code && code <= r[i].to)
            return true;
    }
    return false;
}

static void step_state(const struct glob *g, uint64_t *next, size_t i, uint32_t code)
{
    const struct glob_state *state = &g->states[i];

    switch (state->kind) {
    case GLOB_CHARACTER:
        if (code == state->character)
            enter(g, next, i + 1);
        break;
    case GLOB_ANY:
        if (code != '/')
            enter(g, next, i + 1);
        break;
    case GLOB_SET:
        if (in_set(g, state, code))
            enter(g, next, i + 1);
        break;
    case GLOB_STAR:
        if (code != '/')
            enter(g, next, i);
        break;
    case GLOB_GLOBSTAR:
        enter(g, next, i);
        break;
    case GLOB_DIRECTORIES:
        enter(g, next, i);
        if (code == '/')
            enter(g, next, i + 1);
        break;
    case GLOB_SKIP:
    case GLOB_END:
        break;
    }
}

void glob_start(const struct glob *g, uint64_t *set)
{
    memset(set, 0, g->words * sizeof *set);
    enter(g, set, 0);
}

bool glob_step(const struct glob *g, uint64_t *set, uint64_t *next, const char *s, size_t n)
{
    uint64_t any = 1;

    while (n != 0 && any != 0) {
        uint32_t code;
        size_t k = next_character(s, n, &code);
        s += k;
        n -= k;
        memset(next, 0, g->words * sizeof *next);
        any = 0;
        for (size_t w = 0; w < g->words; w++) {
            for (uint64_t left = set[w]; left != 0; left &= left - 1)
                step_state(g, next, w * BITS + (size_t)__builtin_ctzll(left), code);
        }
        for (size_t w = 0; w < g->words; w++)
            any |= set[w] = next[w];
    }
    return any != 0;
}

bool glob_ends(const struct glob *g, const uint64_t *set)
{
    return has_state(set, g->count - 1);
}

bool glob_ends_directory(const struct glob *g, const uint64_t *set)
{
    return g->directory != SIZE_MAX && has_state(set, g->directory);
}

bool glob_goes_on(const struct glob *g, const uint64_t *set)
{
    uint64_t any = 0;

    for (size_t w = 0; w < g->words; w++)
        any |= w + 1 == g->words ? set[w] & ~(UINT64_C(1) << ((g->count - 1) % BITS)) : set[w];
    return any != 0;
}

bool glob_match(const struct glob *g, const char *path, size_t n)
{
    uint64_t *set = g->spare, *next = g->spare + g->words;

    glob_start(g, set);
    return glob_step(g, set, next, path, n) && glob_ends(g, set);
}

bool glob_may_match_beneath(const struct glob *g, const char *path, size_t n)
{
    uint64_t *set = g->spare, *next = g->spare + g->words;

    glob_start(g, set);
    if (!glob_step(g, set, next, path, n))
        return false;
    if (n == 0 || path[n - 1] != '/')
        glob_step(g, set, next, "/", 1);
    return glob_goes_on(g, set);
}
