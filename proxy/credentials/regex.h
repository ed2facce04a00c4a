/*
 * ECMAScript regular expressions without flags, over UTF-16 code units: the
 * parser, and the tree it makes. regex_program.h is what becomes of the tree.
 * Private to extract_pattern.c. ECMA-262 section 22.2 and its Annex B.1.2.
 */
#ifndef CREDENTIALS_REGEX_H
#define CREDENTIALS_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REGEX_GROUPS_MAX = 65535,    /* capturing groups of one pattern */
    REGEX_NAMES_MAX = 2000,      /* group names, and references to them: each looks at all */
    REGEX_NESTING_MAX = 1000,    /* groups within groups; bounds the recursion over the tree */
    REGEX_INFINITE = 0x7fffffff, /* no maximum, and the largest count that is told apart */
    REGEX_UNIT_MAX = 0xffff      /* largest code unit */
};

/* Ranges of code units. Built by adding, in any order; sealed before use. */
struct regex_range {
    uint16_t first, last;
};
struct regex_class {
    struct regex_range *ranges;
    size_t count, capacity;
};
void regex_class_add(struct regex_class *c, uint32_t first, uint32_t last);
/* Adds the class of an escape letter: d D s S w W. */
void regex_class_add_escape(struct regex_class *c, uint32_t letter);
/* Sorts and merges the ranges, then turns the class into its complement when negated. */
void regex_class_seal(struct regex_class *c, bool negated);

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
    REGEX_REPEAT    /* one child; min, max, lazy */
};
struct regex_node {
    enum regex_node_type type;
    bool negated, behind, lazy;
    bool consumes; /* false: can only match empty */
    uint32_t value;
    uint32_t min, max;
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

#endif
