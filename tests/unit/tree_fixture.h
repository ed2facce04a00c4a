/*
 * Temporary trees of directories, files and links, and running a test as an
 * ordinary user.
 */
#ifndef TESTS_TREE_FIXTURE_H
#define TESTS_TREE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/path.h"

/* A new directory under /tmp, canonical; freed and removed by tree_remove(). */
char *tree_new(void);
void tree_remove(char *root);

/*
 * Makes nodes below the root, in order; NULL ends the list. "d:NAME" directory, "f:NAME" file,
 * "p:NAME" fifo, "l:NAME=TARGET" link, "0:NAME" directory of mode 0, "r:NAME" mode of an existing
 * directory set to 0400. Parents of a name are made as needed. A target may begin with "$", the
 * root.
 */
void tree_make(const char *root, const char *const *nodes);

/* Belongs to the ordinary user from here on, when run as root. */
void tree_give(const char *root);
/* Runs `test` as an ordinary user: at once, or when run as root with the user changed meanwhile. */
void as_user(void (*test)(const char *root), const char *root);

/* `text` with each "$" replaced by the root; malloc'ed. */
char *tree_text(const char *root, const char *text);
/* Fails the test unless the list holds exactly the space-separated names, each below the root or
 * absolute with "=", in any order. "" is none. */
void assert_paths(const char *what, const struct paths *got, const char *root, const char *names);

#endif
