/*
 * Fields of a message that was read: what both sides check alike. Pure, private
 * to decider/. Chapter 35 sections 1 and 3.
 */
#ifndef DECIDER_MESSAGE_FIELDS_H
#define DECIDER_MESSAGE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct message_field {
    const char *key;
    json_t **value;
};

/* Puts each field's value, or NULL, where the table says. False: the message has a key that is not
 * in the table. */
bool message_fields(json_t *message, const struct message_field *fields, size_t count);

/* A string that says just this. */
bool message_says(const json_t *value, const char *text);
/* A string of 1 to `most` bytes, in *out. Optional: absent is well too, *out is NULL then. */
bool message_string(const json_t *value, size_t most, const char **out);
bool message_optional_string(const json_t *value, size_t most, const char **out);

/* Not empty; lower-case names, each with an array of texts; within the limits. How many values
 * there are in *values. */
bool message_headers(json_t *headers, size_t *values);

#endif
