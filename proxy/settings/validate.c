#include "proxy/settings/validate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { PATH_MAX_BYTES = 2 * SETTINGS_FILE_MAX, MESSAGE_MAX = 2 * SETTINGS_FILE_MAX };

static void add_issue(struct validation *v, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
static void add_issue(struct validation *v, const char *fmt, va_list ap)
{
    struct issues *issues = v->issues;
    if (issues->count >= ISSUES_MAX) {
        issues->dropped++;
        return;
    }
    struct buf message;
    buf_init(&message, MESSAGE_MAX);
    buf_vprintf(&message, fmt, ap);
    issues->list = mem_resize(issues->list, issues->count + 1, sizeof *issues->list);
    issues->list[issues->count++] =
        (struct issue){.path = mem_dup(buf_cstr(&v->path)), .message = mem_dup(buf_cstr(&message))};
    buf_free(&message);
}

void validation_issue(struct validation *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_issue(v, fmt, ap);
    va_end(ap);
}

void validation_type_failure(struct validation *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_issue(v, fmt, ap);
    va_end(ap);
    v->type_failures++;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

void validation_expected(struct validation *v, const char *want, const json_t *value)
{
    validation_type_failure(v, "Expected %s, received %s", want, type_name(value));
}

size_t path_push(struct validation *v, const char *key)
{
    size_t mark = buf_len(&v->path);
    if (mark != 0)
        buf_puts(&v->path, ".");
    buf_puts(&v->path, key);
    return mark;
}

size_t path_push_index(struct validation *v, size_t index)
{
    size_t mark = buf_len(&v->path);
    buf_printf(&v->path, "%s%zu", mark != 0 ? "." : "", index);
    return mark;
}

void path_pop(struct validation *v, size_t mark)
{
    v->path.end = v->path.start + mark;
}

bool json_has_nul(const json_t *string)
{
    return strlen(json_string_value(string)) != json_string_length(string);
}

bool json_is_integral(const json_t *value)
{
    const double exact = 9007199254740992.0; /* from here on a double has no fraction */
    double number = json_real_value(value);
    return json_is_integer(value) || (json_is_real(value) && (number >= exact || number <= -exact ||
                                                              (double)(int64_t)number == number));
}

static void validate_string(struct validation *v, const struct option *option, const json_t *value)
{
    if (!json_is_string(value)) {
        validation_expected(v, "string", value);
        return;
    }
    if (json_string_length(value) < (size_t)option->min)
        validation_issue(v, "String must contain at least %ld character(s)", option->min);
    if (option->max != 0 && json_string_length(value) > (size_t)option->max)
        validation_issue(v, "String must contain at most %ld character(s)", option->max);
    if (option->check != NULL)
        option->check(v, value);
}

static void validate_integer(struct validation *v, const struct option *option, const json_t *value)
{
    if (!json_is_number(value)) {
        validation_expected(v, "number", value);
        return;
    }
    double number = json_number_value(value);
    if (!json_is_integral(value))
        validation_issue(v, "Expected integer, received float");
    if (number < (double)option->min)
        validation_issue(v, "Number must be greater than or equal to %ld", option->min);
    if (number > (double)option->max)
        validation_issue(v, "Number must be less than or equal to %ld", option->max);
}

static void validate_list(struct validation *v, const struct option *option, const json_t *value)
{
    if (!json_is_array(value)) {
        validation_expected(v, "array", value);
        return;
    }
    if (json_array_size(value) < (size_t)option->min)
        validation_issue(v, "Array must contain at least %ld element(s)", option->min);
    if (option->max != 0 && json_array_size(value) > (size_t)option->max)
        validation_issue(v, "Array must contain at most %ld element(s)", option->max);
    for (size_t i = 0; i < json_array_size(value); i++) {
        size_t mark = path_push_index(v, i);
        validate_value(v, option->item, json_array_get(value, i));
        path_pop(v, mark);
    }
}

static void validate_map(struct validation *v, const struct option *option, const json_t *value)
{
    if (!json_is_object(value)) {
        validation_expected(v, "object", value);
        return;
    }
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)value, key, member)
    {
        size_t mark = path_push(v, key);
        validate_value(v, option->item, member);
        path_pop(v, mark);
    }
}

static void validate_enum(struct validation *v, const struct option *option, const json_t *value)
{
    struct buf expected;
    buf_init(&expected, 1000);
    for (const char *const *choice = option->choices; *choice != NULL; choice++) {
        if (json_is_string(value) && strcmp(*choice, json_string_value(value)) == 0 &&
            !json_has_nul(value)) {
            buf_free(&expected);
            return;
        }
        buf_printf(&expected, "%s'%s'", choice != option->choices ? " | " : "", *choice);
    }
    if (json_is_string(value))
        validation_type_failure(v, "Invalid enum value. Expected %s, received '%s'",
                                buf_cstr(&expected), json_string_value(value));
    else
        validation_expected(v, buf_cstr(&expected), value);
    buf_free(&expected);
}

void validate_value(struct validation *v, const struct option *option, const json_t *value)
{
    switch (option->type) {
    case OPTION_ANY:
        break;
    case OPTION_STRING:
        validate_string(v, option, value);
        break;
    case OPTION_BOOLEAN:
        if (!json_is_boolean(value))
            validation_expected(v, "boolean", value);
        break;
    case OPTION_INTEGER:
        validate_integer(v, option, value);
        break;
    case OPTION_OBJECT:
        validate_object(v, option->shape, value);
        break;
    case OPTION_LIST:
        validate_list(v, option, value);
        break;
    case OPTION_MAP:
        validate_map(v, option, value);
        break;
    case OPTION_ENUM:
        validate_enum(v, option, value);
        break;
    case OPTION_CUSTOM:
        option->check(v, value);
        break;
    }
}

static bool knows(const struct shape *shape, const char *key)
{
    for (const struct option *o = shape->options; o->key != NULL; o++)
        if (strcmp(o->key, key) == 0)
            return true;
    return false;
}

void validate_unknown_keys(struct validation *v, const struct shape *shape, const json_t *object)
{
    struct buf names;
    buf_init(&names, MESSAGE_MAX);
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)object, key, member)
    {
        if (!knows(shape, key))
            buf_printf(&names, "%s'%s'", buf_len(&names) != 0 ? ", " : "", key);
    }
    if (buf_len(&names) != 0)
        validation_issue(v, "Unrecognized key(s) in object: %s", buf_cstr(&names));
    buf_free(&names);
}

void validate_object(struct validation *v, const struct shape *shape, const json_t *object)
{
    unsigned failures = v->type_failures;
    if (!json_is_object(object)) {
        validation_expected(v, "object", object);
        return;
    }
    for (const struct option *o = shape->options; o->key != NULL; o++) {
        const json_t *member = json_object_get(object, o->key);
        size_t mark = path_push(v, o->key);
        if (member != NULL)
            validate_value(v, o, member);
        else if (o->need == REQUIRED || (o->need == REQUIRED_IN_SANDBOX && v->sandbox))
            validation_type_failure(v, "Required");
        path_pop(v, mark);
    }
    if (shape->strict)
        validate_unknown_keys(v, shape, object);
    if (shape->rule != NULL && v->type_failures == failures)
        shape->rule(v, object);
}

void issues_free(struct issues *issues)
{
    for (size_t i = 0; i < issues->count; i++) {
        free(issues->list[i].path);
        free(issues->list[i].message);
    }
    free(issues->list);
    *issues = (struct issues){0};
}
