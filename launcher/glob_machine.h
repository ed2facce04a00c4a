/*
 * A pattern as a nondeterministic automaton over the characters of a path. A
 * set of states is a row of bits: what the pattern can still become after the
 * path so far. The walk of glob_expand.c carries one from a directory to its
 * entries, whatever names led there. Shared by glob.c and glob_expand.c alone.
 */
#ifndef LAUNCHER_GLOB_MACHINE_H
#define LAUNCHER_GLOB_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/glob.h"

enum glob_kind {
    GLOB_CHARACTER,   /* one character, itself */
    GLOB_ANY,         /* one character but a slash */
    GLOB_SET,         /* one character of a set */
    GLOB_STAR,        /* any run without a slash, then the next state */
    GLOB_GLOBSTAR,    /* any run, then the next state */
    GLOB_SKIP,        /* no directory: the state after the next; or some: the next */
    GLOB_DIRECTORIES, /* any run that ends in a slash, then the next state */
    GLOB_END          /* the pattern matched */
};

struct glob_range {
    uint32_t from, to;
};

struct glob_state {
    enum glob_kind kind;
    uint32_t character;         /* GLOB_CHARACTER */
    size_t first_range, ranges; /* GLOB_SET */
};

struct glob {
    struct glob_state *states;
    size_t count, room; /* the last state is GLOB_END */
    struct glob_range *ranges;
    size_t range_count, range_room;
    size_t words;     /* of a set of states */
    size_t base;      /* bytes of the literal directory a walk starts from; 0: the root or none */
    size_t directory; /* the state before a trailing slash-star-star; SIZE_MAX: there is none */
    uint64_t *spare;  /* 2 * words, for matching */
};

/* The set before any character. */
void glob_start(const struct glob *g, uint64_t *set);
/* The set after n more bytes; `next` is scratch of the same size. False when nothing is left. */
bool glob_step(const struct glob *g, uint64_t *set, uint64_t *next, const char *s, size_t n);
/* True when the path so far matches. */
bool glob_ends(const struct glob *g, const uint64_t *set);
/* True when the path so far matches what stands before a trailing slash-star-star. */
bool glob_ends_directory(const struct glob *g, const uint64_t *set);
/* True when a longer path can match. */
bool glob_goes_on(const struct glob *g, const uint64_t *set);

#endif
