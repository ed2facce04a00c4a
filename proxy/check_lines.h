/* `srt check --json`: questions as JSON lines in, answers as JSON lines out, in order. */
#ifndef PROXY_CHECK_LINES_H
#define PROXY_CHECK_LINES_H

#include <stdbool.h>

#include "proxy/policy/policy.h"

/* Reads in to its end. Memory is bounded whatever comes. False with errno when reading or writing
 * failed. */
bool check_lines(const struct policy *policy, int in, int out);

#endif
