/*
 * Where a credential that a decider hands out goes: the value of an
 * Authorization field. Pure. Chapter 35 section 3.
 */
#ifndef POLICY_PLACEMENT_H
#define POLICY_PLACEMENT_H

#include <stdbool.h>

#include "base/buf.h"

enum placement_scheme { PLACEMENT_BEARER, PLACEMENT_BASIC };

struct placement {
    const char *class; /* of the credential; NULL: any */
    const char *host;  /* canonical host of the request; NULL: any */
    enum placement_scheme scheme;
    const char *user; /* PLACEMENT_BASIC */
};

struct placements;
struct placements *placements_new(void);
void placements_free(struct placements *p); /* NULL is fine */
/* Everything is copied. Order of calls is the list's order. */
void placements_add(struct placements *p, const struct placement *placement);

/*
 * Appends "Bearer <credential>", or "Basic " and base64 of "<user>:<credential>", by the first
 * placement that matches; Bearer when none does. p NULL: the default list, class "github" on
 * github.com as Basic with user x-access-token. False when out's maximum would be passed.
 */
bool placements_value(struct buf *out, const struct placements *p, const char *class,
                      const char *credential, const char *host);

#endif
