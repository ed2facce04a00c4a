/*
 * Mount plans as text: a directory view and settings in, the mounts out, in the
 * notation of chapter 50 section 8.6. One temporary tree a row:
 *   $W the working directory, $O another, $H the home, $T what holds them.
 */
#ifndef TEST_MOUNTS_FIXTURE_H
#define TEST_MOUNTS_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/mounts.h"

struct mounts_row {
    const char *title;
    /* Made in order, separated by "; ": "d PATH" directory, "f PATH" file, "l PATH -> TARGET"
     * link, "m MODE PATH" chmod. Parents are made too. */
    const char *tree;
    /* "KEY ENTRY", separated by "; ". KEY: denyRead, allowRead, allowWrite, denyWrite, credential
     * ("deny" file); with "=" after it the entry is a literal one. Or one of: allowGitConfig,
     * disabled, depth N, home PATH, private PATH, temporary PATH, readable PATH, protected PATH,
     * standin PATH. */
    const char *settings;
    /* Mounts separated by "; ": "ro X", "rw X", "tmpfs X", "null X", "pin X", "ro X at Y", and
     * for a stand-in "node X" or "dir X". Left out: those of absent names in $W itself,
     * /etc/ssh/ssh_config.d and its parents, /tmp/claude. Or "error: ...", a part of the text. */
    const char *expected;
};

/* As an ordinary user even where root runs the tests; for rows that need one. */
void mounts_fixture_as_user(bool user);

/* Fails the test when the plan is another. */
void mounts_check(const struct mounts_row *rows, size_t count);

/* For tests of more than the list: the plan of a row, whose expected text is not looked at. `keep`
 * is called while the tree is still there. */
void mounts_with(const struct mounts_row *row,
                 void (*keep)(const struct mounts *plan, const char *const *vars));
/* "$W/x" with the variables put in; vars as given to keep. The caller frees. */
char *mounts_expand(const char *text, const char *const *vars);

#endif
