/*
 * Validation of a settings document: every issue with its path and message, in
 * schema order. The peer's keys first (chapter 10 section 2), then ours (see
 * own_keys.h), which are strict. Driven by tables of options. Pure: no I/O.
 */
#ifndef SETTINGS_SCHEMA_H
#define SETTINGS_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "proxy/settings/snapshot.h"

struct issue {
    char *path; /* "network.allowedDomains.0", "" for the document itself */
    char *message;
};
struct issues {
    struct issue *list;
    size_t count;
    size_t dropped; /* further ones, of which a bounded report leaves out the text */
};
void issues_free(struct issues *issues);

/* True when the document is valid. */
bool schema_validate(const json_t *document, enum settings_use use, struct issues *issues);

#endif
