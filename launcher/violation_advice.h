/*
 * What to write into the settings so that what was denied is allowed: entries to
 * paste, gathered while the box runs. Only what an entry can allow: a deny list
 * or a protected path wins over it. Entries are valid ones, and show as they are.
 */
#ifndef LAUNCHER_VIOLATION_ADVICE_H
#define LAUNCHER_VIOLATION_ADVICE_H

#include "launcher/path.h"
#include "launcher/violation_record.h"

enum { ADVICE_MAX = 100 /* entries of a kind; later ones are left out */ };

struct violation_advice {
    struct paths domains, writes;
};

/* A network violation. */
void violation_advice_network(struct violation_advice *a, const struct violation_record *r);
/* A file-system violation outside the allowed paths; the path is folded. */
void violation_advice_write(struct violation_advice *a, const char *syscall, const char *path);
/* Appends lines, or nothing. Looks on the disk for what is there to be allowed. */
void violation_advice_print(const struct violation_advice *a, struct buf *out);
void violation_advice_free(struct violation_advice *a);

#endif
