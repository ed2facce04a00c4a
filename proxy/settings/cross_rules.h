/* The rules that compare several values of one document. Chapter 10 section 2.6. */
#ifndef SETTINGS_CROSS_RULES_H
#define SETTINGS_CROSS_RULES_H

#include <jansson.h>

#include "proxy/settings/validate.h"

/* document: one without a type failure, though its entries may be malformed. */
void cross_rules(struct validation *v, const json_t *document);

#endif
