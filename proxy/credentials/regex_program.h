/*
 * What PCRE2 runs: the tree as PCRE2 patterns, and the callouts in them that
 * provide what PCRE2 lacks. The patterns match UTF-16 code units (libpcre2-16
 * without UTF), which is how ECMAScript without the u flag sees a text.
 *
 * A lookbehind that PCRE2 cannot express is a program of its own: a callout
 * runs it, anchored, over the reversed text. Its parts stand in reverse order,
 * which is the order in which ECMAScript tries them. Programs form a tree as
 * the lookbehinds do; program 0 is the pattern itself.
 */
#ifndef CREDENTIALS_REGEX_PROGRAM_H
#define CREDENTIALS_REGEX_PROGRAM_H

#define PCRE2_CODE_UNIT_WIDTH 16
#include <pcre2.h>

#include "base/buf.h"
#include "proxy/credentials/regex.h"

/* Lengths in code units, counts of turns: REGEX_INFINITE is no bound. */
struct regex_shape {
    uint32_t min, max; /* length of what the node matches */
    uint32_t cost;     /* about the size of its PCRE2 code */
    bool captures;     /* a group inside */
    bool refers;       /* a reference inside */
};
/* One for each node of the tree; to be freed. */
struct regex_shape *regex_shapes(const struct regex_tree *tree);

/* What a callout does; its string is the decimal index of the action. Positions and PCRE2 group
 * numbers are those of the program. */
enum regex_action_type {
    REGEX_ACTION_TICK,     /* passes; where a search can see that it took too long */
    REGEX_ACTION_MOVED,    /* a: group at the start of a turn; fails when still there */
    REGEX_ACTION_BELOW,    /* a: group at the loop's start, b: length of a turn; passes when fewer
                              than c turns were made */
    REGEX_ACTION_AT_LEAST, /* the same; passes when c turns or more were made */
    REGEX_ACTION_RESET,    /* a: copy, b: number of the reset; passes when its bit is to be 1 */
    REGEX_ACTION_MARK,     /* a: copy; passes when its bit is to be 1 */
    REGEX_ACTION_IS_SET,   /* a: copy */
    REGEX_ACTION_NONE_SET, /* a: item; passes when no copy of it is set */
    REGEX_ACTION_LOOK,     /* a: program */
    REGEX_ACTION_MORE,     /* a: group where the comparison began, b: captured group elsewhere;
                              passes when the next unit is the group's next one */
    REGEX_ACTION_COMPARED  /* the same; passes when all of the group was found */
};
struct regex_action {
    enum regex_action_type type;
    uint32_t a, b, c;
};

/*
 * A capturing group (item: its number) or the place of a lookbehind that
 * captures (item: number of groups + program) in the text of a program. Within
 * loops it is known to be set in the present turn by bits, see regex_translate.c.
 */
struct regex_copy {
    uint32_t item;
    uint32_t number; /* PCRE2 group */
    uint32_t mark;   /* PCRE2 group of its bit; 0: needs none, set once captured */
    uint32_t resets; /* index of the first one, 0: none */
    uint32_t skips;  /* loops around with turns that may pass it by: the outermost so many */
};
struct regex_reset {
    uint32_t number; /* PCRE2 group of its bit */
    uint32_t next;   /* index of the next one of the same copy, 0: none */
};

struct regex_program {
    pcre2_code *code;
    bool backward; /* over the reversed text */
    bool negated;
    bool entangled; /* refers to a group outside: what it captured cannot be found again */
    uint32_t parent;
    struct regex_copy *copies;
    uint32_t copy_count, copy_capacity;
    struct regex_reset *resets; /* resets[0] is not used */
    uint32_t reset_count, reset_capacity;
    struct regex_action *actions;
    uint32_t action_count, action_capacity;
};
#define REGEX_NOWHERE UINT32_MAX /* in a part that is never tried, so that it is always unset */
struct regex_programs {
    struct regex_program *list;
    uint32_t count;
    uint32_t groups;
    uint32_t *home; /* the program each group lies in, or REGEX_NOWHERE */
};
/* False, with the reason in *error, when PCRE2 cannot take it; to be freed either way. */
bool regex_translate(const struct regex_tree *tree, struct regex_programs *programs,
                     struct buf *error);
void regex_programs_free(struct regex_programs *programs);

/* Whether program p is `outer` or lies within it. */
bool regex_program_within(const struct regex_programs *programs, uint32_t p, uint32_t outer);

enum regex_result { REGEX_NO_MATCH, REGEX_MATCHED, REGEX_LIMIT };
#define REGEX_UNSET UINT32_MAX /* a group that took no part */
struct regex_search;
/* The programs and the text must outlive the search. */
struct regex_search *regex_search_new(const struct regex_programs *programs, const uint16_t *text,
                                      uint32_t n);
/*
 * First match at or after `from`. On REGEX_MATCHED slots[2 * g] and
 * slots[2 * g + 1] are the ends of group g (0: the whole match), REGEX_UNSET
 * both when it took no part; there must be room for every group.
 */
enum regex_result regex_search_find(struct regex_search *s, uint32_t from, uint32_t *slots);
void regex_search_free(struct regex_search *s);

#endif
