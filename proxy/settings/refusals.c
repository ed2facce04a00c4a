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

static const struct {
    bool (*present)(const json_t *document);
    const char *line;
} gateway[] = {
    {terminates, "Error: network.tlsTerminate: srt proxy passes TLS through and does not terminate "
                 "it; remove the key\n"},
    {settings_mask, "Error: credentials: srt proxy does not put masked credentials back; remove "
                    "the entries with mode \"mask\"\n"},
};

bool settings_refused(const json_t *document, enum settings_use use, struct buf *error)
{
    bool refused = false;
    if (terminates(document) && has_mitm(document)) {
        buf_puts(error,
                 "Error: network.tlsTerminate and network.mitmProxy are mutually exclusive\n");
        return true;
    }
    bool gateway_file = use == SETTINGS_GATEWAY ||
                        (use == SETTINGS_CHECK && json_object_get(document, "proxy") != NULL);
    for (size_t i = 0; gateway_file && i < sizeof gateway / sizeof gateway[0]; i++)
        if (gateway[i].present(document)) {
            buf_puts(error, gateway[i].line);
            refused = true;
        }
    return refused;
}
