/* network.rules: its schema, and its compilation. Described in srt-settings(5). */
#ifndef SETTINGS_RULES_H
#define SETTINGS_RULES_H

#include <jansson.h>

#include "proxy/policy/request_rules.h"
#include "proxy/settings/validate.h"

extern const struct option rules_option;
/* A string that path_pattern_valid() takes. */
void rules_check_path(struct validation *v, const json_t *value);

/* Issues for rules that would have to look into tunnels that are not opened. document: any. */
void rules_validate_tunnels(struct validation *v, const json_t *document);

/* list: valid, or NULL. NULL: there are none. */
struct request_rules *rules_build(const json_t *list);

#endif
