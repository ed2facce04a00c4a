/* What a file of rules may hold: see srt-decider(8). */
#ifndef DECIDER_REFERENCE_RULES_SCHEMA_H
#define DECIDER_REFERENCE_RULES_SCHEMA_H

#include <jansson.h>

#include "proxy/settings/validate.h"

/* Adds an issue, with its path, for everything that is wrong with the document. */
void rules_schema_validate(struct validation *v, const json_t *document);

#endif
