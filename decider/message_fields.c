#include "decider/message_fields.h"

#include <string.h>

#include "decider/header_names.h"
#include "decider/message.h"
#include "decider/strict_json.h"

static bool take(const struct message_field *fields, size_t count, const char *key, json_t *value)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].key, key) == 0) {
            *fields[i].value = value;
            return true;
        }
    }
    return false;
}

bool message_fields(json_t *message, const struct message_field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        *fields[i].value = NULL;
    for (void *i = json_object_iter(message); i != NULL; i = json_object_iter_next(message, i))
        if (!take(fields, count, json_object_iter_key(i), json_object_iter_value(i)))
            return false;
    return true;
}

bool message_says(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

bool message_string(const json_t *value, size_t most, const char **out)
{
    *out = NULL;
    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) > most)
        return false;
    *out = json_string_value(value);
    return true;
}

bool message_optional_string(const json_t *value, size_t most, const char **out)
{
    *out = NULL;
    return value == NULL || message_string(value, most, out);
}

/* The values of one name; adds their bytes to *bytes. */
static bool header_values(const json_t *values, size_t *bytes)
{
    if (!json_is_array(values))
        return false;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        if (!json_is_string(value) ||
            !strict_text_valid(json_string_value(value), json_string_length(value)))
            return false;
        *bytes += json_string_length(value);
    }
    return true;
}

bool message_headers(json_t *headers, size_t *values)
{
    size_t entries = 0;
    size_t bytes = 0;
    *values = 0;
    if (!json_is_object(headers) || json_object_size(headers) == 0)
        return false;
    for (void *i = json_object_iter(headers); i != NULL; i = json_object_iter_next(headers, i)) {
        const char *name = json_object_iter_key(i);
        const json_t *list = json_object_iter_value(i);
        size_t length = strlen(name);
        if (!header_name_is_lower(name, length) || !header_values(list, &bytes))
            return false;
        bytes += length;
        *values += json_array_size(list);
        entries += json_array_size(list) != 0 ? json_array_size(list) : 1;
    }
    return entries <= HEADER_VALUES_MAX && bytes <= HEADER_BYTES_MAX;
}
