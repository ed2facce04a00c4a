/*
 * Writing the PCRE2 pattern of a program, for regex_translate.c: the pieces
 * that are the same whatever the tree looks like.
 */
#ifndef CREDENTIALS_REGEX_EMIT_H
#define CREDENTIALS_REGEX_EMIT_H

#include "proxy/credentials/regex_program.h"

enum {
    REGEX_COUNT_MAX = 65535, /* of a PCRE2 quantifier */
    REGEX_TICK = 0           /* index of the tick in every program */
};

/* The copies of groups made by a loop, the second time its body is written from `middle` on. */
struct regex_loop_copies {
    uint32_t first, middle, end;
};
struct regex_draft {
    struct regex_loop_copies *ranges; /* by loop, in the order of the text */
    uint32_t count, capacity;
    unsigned pass; /* the last one it was written in */
};
struct regex_far_reference {
    uint32_t program, group; /* from a program to a group in another */
};

struct regex_translator {
    const struct regex_tree *tree;
    const struct regex_shape *shapes;
    struct regex_programs *out;
    struct regex_draft *drafts;
    uint32_t *program_of; /* by node, 0: none yet */
    bool *closed;         /* by group: written in this pass */
    struct regex_far_reference *references;
    uint32_t reference_count, reference_capacity;
    unsigned pass; /* from 1 */
    const char *error;
};

struct regex_emitter {
    struct regex_translator *t;
    uint32_t program;
    bool backward;
    struct buf text;
    uint32_t numbers; /* PCRE2 groups so far */
    uint32_t depth;   /* loops with groups to reset around */
    uint32_t skips;   /* the outermost so many have turns that do not come here */
    uint32_t copies, ranges;
    bool looks; /* there is a lookahead or lookbehind of PCRE2's own */
};

extern const char regex_too_large[];
/* Keeps the first reason. */
void regex_put_failed(struct regex_translator *t, const char *why);

/* All fail with regex_too_large when the text has no more room. */
void regex_put(struct regex_emitter *e, const char *s);
void regex_put_unit(struct regex_emitter *e, uint32_t unit);
/* The shorter of the class and its complement. A full class is a dot (PCRE2_DOTALL). */
void regex_put_class(struct regex_emitter *e, const struct regex_class *set);
void regex_put_callout(struct regex_emitter *e, uint32_t action);
/* A new action of the program and its callout. */
void regex_put_action(struct regex_emitter *e, enum regex_action_type type, uint32_t a, uint32_t b,
                      uint32_t c);
/* A maximum over REGEX_COUNT_MAX is none; a minimum over it fails. */
void regex_put_quantifier(struct regex_emitter *e, uint32_t min, uint32_t max, bool lazy);

/* Valid until a program is added. */
struct regex_program *regex_emitter_program(const struct regex_emitter *e);
/* The next copy, with the PCRE2 group that must be opened next. */
uint32_t regex_new_copy(struct regex_emitter *e, uint32_t item);
/* Its mark, to stand behind the group; only if some turn passes it by. */
void regex_put_mark(struct regex_emitter *e, uint32_t copy);
/* At the start of a turn: resets of those of the copies [first, end) that it may pass by. */
void regex_put_resets(struct regex_emitter *e, uint32_t first, uint32_t end);

#define REGEX_GROW(list, count, capacity, least)                     \
    do {                                                             \
        if ((count) == (capacity)) {                                 \
            (capacity) = (capacity) != 0 ? (capacity)*2 : (least);   \
            (list) = mem_resize((list), (capacity), sizeof *(list)); \
        }                                                            \
    } while (0)

#endif
