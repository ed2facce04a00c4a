/*
 * The walk of a document along tables of options: types, ranges, required keys
 * and strictness, each finding with its path. What the tables say is in
 * schema.c and own_keys.c. Private to proxy/settings, and to the rules of srt-decider.
 */
#ifndef SETTINGS_VALIDATE_H
#define SETTINGS_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buf.h"
#include "proxy/settings/schema.h"

/* Past this many, issues are only counted: a hostile file must not cost memory without bound. */
enum { ISSUES_MAX = 1000 };

struct validation {
    struct issues *issues;
    struct buf path;        /* of the value being looked at */
    unsigned type_failures; /* type failures so far; they suppress rules over several values */
    bool sandbox;           /* the file is for a sandbox: filesystem has to be there */
};

enum option_type {
    OPTION_ANY, /* accepted and not looked at */
    OPTION_STRING,
    OPTION_BOOLEAN,
    OPTION_INTEGER,
    OPTION_OBJECT,
    OPTION_LIST,
    OPTION_MAP, /* object with keys of the user's own */
    OPTION_ENUM,
    OPTION_CUSTOM /* check() does all of it, types included */
};
enum option_need { OPTIONAL, REQUIRED, REQUIRED_IN_SANDBOX };

struct shape;
struct option {
    const char *key; /* NULL ends a table */
    enum option_type type;
    enum option_need need;
    long min, max; /* of an integer; characters of a string, items of a list (max 0: no bound) */
    const struct shape *shape;                                /* of an object */
    const struct option *item;                                /* of a list or a map */
    const char *const *choices;                               /* of an enum, NULL-terminated */
    void (*check)(struct validation *v, const json_t *value); /* constraints of a string */
};
struct shape {
    const struct option *options;
    bool strict; /* other keys are refused */
    /* Over the whole object; not called after a type failure inside it. */
    void (*rule)(struct validation *v, const json_t *object);
};

/* Adds an issue at the current path. A type failure also counts as one. */
void validation_issue(struct validation *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void validation_type_failure(struct validation *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void validation_expected(struct validation *v, const char *want, const json_t *value);

/* Steps into a key or an index; returns what path_pop() takes to step out again. */
size_t path_push(struct validation *v, const char *key);
size_t path_push_index(struct validation *v, size_t index);
void path_pop(struct validation *v, size_t mark);

void validate_value(struct validation *v, const struct option *option, const json_t *value);
void validate_object(struct validation *v, const struct shape *shape, const json_t *object);
/* "Unrecognized key(s) in object: ..." for the keys of a strict object that the table lacks. */
void validate_unknown_keys(struct validation *v, const struct shape *shape, const json_t *object);

/* True for a JSON string that holds a NUL, which no C string can carry. */
bool json_has_nul(const json_t *string);
/* True for an integer, also one written 3.0 or 3e0. */
bool json_is_integral(const json_t *value);

#endif
