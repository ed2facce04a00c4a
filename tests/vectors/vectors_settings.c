/* config-valid and cred-pattern. */
#include <string.h>

#include "proxy/credentials/extract_pattern.h"
#include "proxy/settings/schema.h"
#include "tests/vectors/vectors.h"

static void describe(struct buf *why, const struct issues *issues)
{
    buf_puts(why, "got");
    for (size_t i = 0; i < issues->count; i++)
        buf_printf(why, " [%s: %s]", issues->list[i].path, issues->list[i].message);
}

static bool same_issue(const struct issue *got, const json_t *want)
{
    const char *path = got->path[0] != '\0' ? got->path : "(root)";
    return strcmp(path, json_string_value(json_object_get(want, "path"))) == 0 &&
           strcmp(got->message, json_string_value(json_object_get(want, "message"))) == 0;
}

static bool config_valid(const json_t *row, struct buf *why)
{
    struct issues issues;
    const json_t *want = json_object_get(row, "issues");
    bool ok = schema_validate(json_object_get(row, "settings"), SETTINGS_SANDBOX, &issues);
    bool same =
        ok == json_is_true(json_object_get(row, "ok")) && issues.count == json_array_size(want);
    for (size_t i = 0; same && i < issues.count; i++)
        same = same_issue(&issues.list[i], json_array_get(want, i));
    if (!same)
        describe(why, &issues);
    issues_free(&issues);
    return same;
}

static bool cred_pattern(const json_t *row, struct buf *why)
{
    const json_t *pattern = json_object_get(row, "pattern");
    const json_t *groups = json_object_get(row, "groups");
    struct buf error;
    buf_init(&error, 1000);
    struct extract_pattern *p =
        extract_pattern_compile(json_string_value(pattern), json_string_length(pattern), &error);
    unsigned got = p != NULL ? extract_pattern_groups(p) : 0;
    bool same = (p == NULL) == json_is_null(groups) &&
                (p == NULL || (json_int_t)got == json_integer_value(groups)) &&
                (got != 0) == json_is_true(json_object_get(row, "ok"));
    if (!same)
        buf_printf(why, "got %u groups, error \"%s\"", got, buf_cstr(&error));
    extract_pattern_free(p);
    buf_free(&error);
    return same;
}

const struct vector_file vectors_settings[] = {
    {"config-valid", config_valid},
    {"cred-pattern", cred_pattern},
    {NULL, NULL},
};
