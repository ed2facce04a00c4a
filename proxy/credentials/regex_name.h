/* Names of capturing groups: RegExpIdentifierName of ECMA-262 section 22.2.1. */
#ifndef CREDENTIALS_REGEX_NAME_H
#define CREDENTIALS_REGEX_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct regex_name {
    uint32_t *codes; /* code points, escapes resolved */
    size_t count;
};
/* Takes `name>` at text[*at]. NULL with *name to be freed, or why it is none, *name empty. */
const char *regex_name_take(const uint16_t *text, size_t n, size_t *at, struct regex_name *name);
bool regex_name_equal(const struct regex_name *a, const struct regex_name *b);
void regex_name_free(struct regex_name *name);

/* Names with a number each, in the order they came. */
struct regex_name_use {
    struct regex_name name;
    uint32_t value; /* group number of a name, node of a reference */
};
struct regex_names {
    struct regex_name_use *list;
    size_t count, capacity;
};
/* Takes over the name. False, with the name freed, when there are REGEX_NAMES_MAX. */
bool regex_names_add(struct regex_names *l, struct regex_name *name, uint32_t value);
/* NULL when it is not there. */
const struct regex_name_use *regex_names_find(const struct regex_names *l,
                                              const struct regex_name *name);
void regex_names_free(struct regex_names *l);

/* The value of a hex digit, -1 for anything else. */
int regex_hex_digit(uint32_t c);

#endif
