/*
 * ECMAScript regular expressions without flags, over UTF-16 code units: a
 * parser that makes a tree, a compiler that makes a program of it, and a
 * backtracking matcher that runs the program within fixed bounds. Private to
 * extract_pattern.c. ECMA-262 section 22.2 and its Annex B.1.2.
 */
#ifndef CREDENTIALS_REGEX_H
#define CREDENTIALS_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REGEX_GROUPS_MAX = 65535,    /* capturing groups of one pattern */
    REGEX_NESTING_MAX = 1000,    /* groups within groups; bounds the recursion over the tree */
    REGEX_INFINITE = 0x7fffffff, /* no maximum, and the largest count that is told apart */
    REGEX_UNIT_MAX = 0xffff,     /* largest code unit */
    REGEX_STEPS_MAX = 50000000,  /* instructions of one search, about a second */
    REGEX_FRAMES_MAX = 1 << 21   /* backtracking frames of one search, 32 MiB */
};
#define REGEX_UNSET UINT32_MAX /* a group that took no part */

/* Ranges of code units. Built by adding, in any order; sealed before use. */
struct regex_range {
    uint16_t first, last;
};
struct regex_class {
    struct regex_range *ranges;
    size_t count, capacity;
    uint32_t ascii[4]; /* bit per unit below 128, once sealed */
};
void regex_class_add(struct regex_class *c, uint32_t first, uint32_t last);
/* Adds the class of an escape letter: d D s S w W. */
void regex_class_add_escape(struct regex_class *c, uint32_t letter);
/* Sorts and merges the ranges, then turns the class into its complement when negated. */
void regex_class_seal(struct regex_class *c, bool negated);
bool regex_class_has(const struct regex_class *c, uint32_t unit);
bool regex_is_word(uint32_t unit);

enum regex_node_type {
    REGEX_EMPTY,
    REGEX_UNIT,     /* value: the code unit */
    REGEX_CLASS,    /* value: index of the class */
    REGEX_START,    /* ^ */
    REGEX_END,      /* $ */
    REGEX_BOUNDARY, /* \b, negated: \B */
    REGEX_SEQUENCE, /* children in order */
    REGEX_CHOICE,   /* children are the alternatives */
    REGEX_GROUP,    /* one child; value: its number, 0 for (?: ) */
    REGEX_BACKREF,  /* value: number of the group */
    REGEX_LOOK,     /* one child; negated, behind */
    REGEX_REPEAT    /* one child; min, max, lazy, groups inside: [first_group, end_group) */
};
struct regex_node {
    enum regex_node_type type;
    bool negated, behind, lazy;
    bool consumes; /* false: can only match empty */
    uint32_t value;
    uint32_t min, max;
    uint32_t first_group, end_group;
    uint32_t child, next; /* index of the first child and of the next sibling, 0: none */
};

struct regex_tree {
    struct regex_node *nodes; /* nodes[0] is not used */
    uint32_t count, capacity;
    struct regex_class *classes;
    uint32_t class_count, class_capacity;
    uint32_t groups;
    uint32_t root;
};
/* NULL when well-formed, else why not ("Unterminated group"). The tree is to be freed either way.
 */
const char *regex_parse(const uint16_t *pattern, size_t n, struct regex_tree *tree);
void regex_tree_free(struct regex_tree *tree);

enum regex_op {
    REGEX_OP_UNIT,       /* a: unit */
    REGEX_OP_CLASS,      /* a: class */
    REGEX_OP_START,      /* at the start of the text */
    REGEX_OP_END,        /* at the end of the text */
    REGEX_OP_BOUNDARY,   /* flag: not at a boundary */
    REGEX_OP_BACKREF,    /* a: group */
    REGEX_OP_SAVE,       /* a: register that takes the position */
    REGEX_OP_SPLIT,      /* go on with the next, if that fails with a */
    REGEX_OP_JUMP,       /* a: target */
    REGEX_OP_LOOP_START, /* a: loop */
    REGEX_OP_LOOP,       /* a: loop, b: where to go when it is done; the next one is its ITERATE */
    REGEX_OP_ITERATE,    /* a: loop */
    REGEX_OP_LOOP_END,   /* a: loop, b: its LOOP */
    REGEX_OP_RUN,        /* a: loop over the single unit or class that is the next instruction */
    REGEX_OP_LOOK,       /* a: after its LOOK_END; flag: negative */
    REGEX_OP_LOOK_END,   /* flag: negative */
    REGEX_OP_MATCH
};
struct regex_insn {
    uint8_t op;
    bool back; /* moves towards the start of the text, inside a lookbehind */
    bool flag;
    uint32_t a, b;
};
struct regex_loop {
    uint32_t min, max;
    bool lazy;
    uint32_t first_group, end_group; /* cleared at each turn */
};
struct regex_program {
    struct regex_insn *code;
    uint32_t count, capacity;
    struct regex_loop *loops;
    uint32_t loop_count, loop_capacity;
    struct regex_class *classes; /* taken from the tree */
    uint32_t class_count;
    uint32_t groups;
};
/* Takes the tree's classes. */
void regex_compile(struct regex_tree *tree, struct regex_program *program);
void regex_program_free(struct regex_program *program);

enum regex_result { REGEX_NO_MATCH, REGEX_MATCHED, REGEX_LIMIT };
/*
 * First match at or after `from`. On REGEX_MATCHED slots[2 * g] and
 * slots[2 * g + 1] are the ends of group g (0: the whole match), REGEX_UNSET
 * both when it took no part; there must be room for every group.
 */
enum regex_result regex_search(const struct regex_program *program, const uint16_t *text,
                               uint32_t n, uint32_t from, uint32_t *slots);

#endif
