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

/* A CA of one run, which nobody could be made to trust. */
static bool terminates_by_itself(const json_t *document)
{
    const json_t *network = json_object_get(document, "network");
    return terminates(document) &&
           json_object_get(json_object_get(network, "tlsTerminate"), "caCertPath") == NULL;
}

/* Nobody else can bring one here. */
static bool names_no_decider(const json_t *document)
{
    const json_t *decider = json_object_get(document, "decider");
    return decider != NULL && json_object_get(decider, "exec") == NULL &&
           json_object_get(decider, "unix") == NULL;
}

static const struct refused gateway[] = {
    {terminates_by_itself,
     "Error: network.tlsTerminate: srt proxy needs caCertPath and caKeyPath, or "
     "--ca-fd: a CA that its clients trust, see srt ca create\n"},
    {settings_mask, "Error: credentials: srt proxy does not put masked credentials back; remove "
                    "the entries with mode \"mask\"\n"},
};

static const struct refused sandbox[] = {
    {names_no_decider, "Error: decider: exec or unix is needed, to start a decider or to connect "
                       "to one\n"},
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
    if (use == SETTINGS_CHECK && json_object_get(document, "proxy") == NULL)
        return false;
    /* The first rule is about the CA. */
    size_t skip = use == SETTINGS_GATEWAY_CA ? 1 : 0;
    return refuse(gateway + skip, sizeof gateway / sizeof gateway[0] - skip, document, error);
}
