/* Valid settings that this program cannot give their effect: refused, never ignored. */
#ifndef SETTINGS_REFUSALS_H
#define SETTINGS_REFUSALS_H

#include <stdbool.h>

#include <jansson.h>

#include "base/buf.h"
#include "proxy/settings/snapshot.h"

/* True, with an "Error: ..." line each in *error, when there are any. */
bool settings_refused(const json_t *document, enum settings_use use, struct buf *error);

/* True when a credentials entry has mode mask. */
bool settings_mask(const json_t *document);

#endif
