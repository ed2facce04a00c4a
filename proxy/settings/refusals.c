#include "proxy/settings/refusals.h"

#include <string.h>

static bool list_masks(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(list, i), "mode")), "mask") ==
            0)
            return true;
    return false;
}

bool settings_mask(const json_t *document)
{
    const json_t *credentials = json_object_get(document, "credentials");
    return list_masks(json_object_get(credentials, "files")) ||
           list_masks(json_object_get(credentials, "envVars"));
}

static bool terminates(const json_t *document)
{
    return json_object_get(json_object_get(document, "network"), "tlsTerminate") != NULL;
}

static bool has_mitm(const json_t *document)
{
    return json_object_get(json_object_get(document, "network"), "mitmProxy") != NULL;
}

/* A setting that is refused, and what is said about it. */
struct refused {
    bool (*present)(const json_t *document);
    const char *line;
};

static const struct refused gateway[] = {
    {terminates, "Error: network.tlsTerminate: srt proxy passes TLS through and does not terminate "
                 "it; remove the key\n"},
    {settings_mask, "Error: credentials: srt proxy does not put masked credentials back; remove "
                    "the entries with mode \"mask\"\n"},
};

static const struct refused sandbox[] = {
    {terminates, "Error: network.tlsTerminate: srt passes TLS through and does not terminate it; "
                 "remove the key\n"},
    {settings_mask, "Error: credentials: srt does not put masked credentials back; remove the "
                    "entries with mode \"mask\", or use mode \"deny\"\n"},
};

static bool refuse(const struct refused *rules, size_t count, const json_t *document,
                   struct buf *error)
{
    bool refused = false;
    for (size_t i = 0; i < count; i++)
        if (rules[i].present(document)) {
            buf_puts(error, rules[i].line);
            refused = true;
        }
    return refused;
}

bool settings_refused(const json_t *document, enum settings_use use, struct buf *error)
{
    if (terminates(document) && has_mitm(document)) {
        buf_puts(error,
                 "Error: network.tlsTerminate and network.mitmProxy are mutually exclusive\n");
        return true;
    }
    if (use == SETTINGS_SANDBOX)
        return refuse(sandbox, sizeof sandbox / sizeof sandbox[0], document, error);
    if (use == SETTINGS_GATEWAY || json_object_get(document, "proxy") != NULL)
        return refuse(gateway, sizeof gateway / sizeof gateway[0], document, error);
    return false;
}
