/*
 * A child process under the observing filter, which waits to be let go; its
 * listener comes to the test.
 */
#ifndef TESTS_OBSERVED_CHILD_H
#define TESTS_OBSERVED_CHILD_H

#include <sys/types.h>

typedef void observed_work_fn(void);

struct observed_child {
    pid_t pid;
    int listener;
    int sock;
};

/* The work starts in `directory` and had better end with _exit(). */
struct observed_child observed_child_start(const char *directory, observed_work_fn *work);
void observed_child_go(const struct observed_child *c);
/* Returns its wait status. */
int observed_child_end(const struct observed_child *c);

#endif
