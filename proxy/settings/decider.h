/* The "decider" key: its schema, and its compilation. Described in srt-settings(5). */
#ifndef SETTINGS_DECIDER_H
#define SETTINGS_DECIDER_H

#include <jansson.h>

#include "proxy/settings/snapshot.h"
#include "proxy/settings/validate.h"

extern const struct option decider_option;

/* object: valid, or NULL. */
void decider_build(struct snapshot *s, const json_t *object);

#endif
