/*
 * Our own settings, beside the peer's schema: one table, strict, described in
 * srt-settings(5).
 */
#ifndef SETTINGS_OWN_KEYS_H
#define SETTINGS_OWN_KEYS_H

#include <jansson.h>

#include "proxy/settings/validate.h"

void own_keys_validate(struct validation *v, const json_t *document);

#endif
