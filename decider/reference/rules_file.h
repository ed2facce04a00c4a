/* Reading the rules of the reference decider from JSON. */
#ifndef DECIDER_REFERENCE_RULES_FILE_H
#define DECIDER_REFERENCE_RULES_FILE_H

#include "base/buf.h"
#include "decider/reference/rules.h"

/* One reference, the caller's. On failure NULL, with a line in *error for everything that is wrong,
 * safe to show on a terminal. */
struct decider_rules *decider_rules_read(const char *path, struct buf *error);
/* The same for a text, called `name` in errors. */
struct decider_rules *decider_rules_parse(const char *name, const char *text, size_t n,
                                          struct buf *error);

#endif
