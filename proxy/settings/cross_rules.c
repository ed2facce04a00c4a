#include "proxy/settings/cross_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/policy/pattern.h"

struct rules {
    struct validation *v;
    const json_t *network, *filesystem, *credentials;
    struct pattern_list *allowed;  /* compiled allowedDomains */
    struct pattern_list *excluded; /* compiled tlsTerminate.excludeDomains */
    bool disabled;                 /* filesystem.disabled */
    bool all_excluded; /* excludeDomains covers every allowed host, of which there are */
};

/* The strings of a list. Malformed entries are in it too: only the rules over one value say no to
 * them. One with a NUL would be compared as something else, and is left out. */
static struct pattern_list *compile(enum pattern_kind kind, const json_t *list)
{
    struct pattern_list *compiled = pattern_list_new(kind);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_has_nul(entry))
            pattern_list_add(compiled, json_string_value(entry));
    }
    pattern_list_seal(compiled);
    return compiled;
}

static bool covers(const struct pattern_list *list, const json_t *entry)
{
    return pattern_list_covers(list, json_string_value(entry), json_string_length(entry));
}

static bool covers_all_allowed(const struct pattern_list *excluded, const json_t *allowed)
{
    struct buf host;
    buf_init(&host, SETTINGS_FILE_MAX);
    bool all = json_array_size(allowed) != 0 && pattern_list_count(excluded) != 0;
    for (size_t i = 0; i < json_array_size(allowed) && all; i++) {
        const json_t *entry = json_array_get(allowed, i);
        buf_clear(&host);
        pattern_split(json_string_value(entry), json_string_length(entry), &host);
        all = pattern_list_covers(excluded, buf_cstr(&host), buf_len(&host));
    }
    buf_free(&host);
    return all;
}

static bool equals(const json_t *string, const char *text)
{
    return json_is_string(string) && strcmp(json_string_value(string), text) == 0;
}

static bool is_mask(const json_t *entry)
{
    return equals(json_object_get(entry, "mode"), "mask");
}

/* A path may hold a NUL as far as the schema goes. */
static bool holds_glob(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] == '*' || s[i] == '?' || s[i] == '[' || s[i] == ']')
            return true;
    return false;
}

/* A path that is a glob and ends in a separator, at the current path. */
static void deny_glob(struct validation *v, const json_t *entry)
{
    const char *s = json_string_value(entry);
    size_t n = json_string_length(entry), kept = n;
    while (kept != 0 && s[kept - 1] == '/')
        kept--;
    if (kept == n || (s[0] != '/' && s[0] != '~') || !holds_glob(s, n))
        return;
    validation_issue(v,
                     "Deny glob \"%s\" ends in a separator, so as a pattern it can match no path. "
                     "Write \"%.*s\", which is also read as the path of that name where it exists, "
                     "or add a \"**\" segment to match at any depth.",
                     s, (int)kept, s);
}

static void deny_lists(struct rules *r)
{
    static const char *const lists[] = {"denyRead", "denyWrite"};
    size_t marks[3];
    marks[0] = path_push(r->v, "filesystem");
    for (size_t l = 0; l < 2; l++) {
        const json_t *list = json_object_get(r->filesystem, lists[l]);
        marks[1] = path_push(r->v, lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *entry = json_array_get(list, i);
            marks[2] = path_push_index(r->v, i);
            if (json_is_string(entry))
                deny_glob(r->v, entry);
            path_pop(r->v, marks[2]);
        }
        path_pop(r->v, marks[1]);
    }
    path_pop(r->v, marks[0]);
}

static size_t push_inject_host(struct validation *v, size_t index)
{
    size_t mark = path_push(v, "injectHosts");
    path_push_index(v, index);
    return mark;
}

static void inject_hosts(struct rules *r, const json_t *entry)
{
    const json_t *hosts = json_object_get(entry, "injectHosts");
    bool masks = is_mask(entry);
    for (size_t i = 0; i < json_array_size(hosts); i++) {
        const json_t *host = json_array_get(hosts, i);
        size_t mark = push_inject_host(r->v, i);
        if (!covers(r->allowed, host))
            validation_issue(
                r->v,
                "injectHosts entry \"%s\" is not reachable via network.allowedDomains — "
                "add \"%s\" (or a covering wildcard) to allowedDomains, or remove it "
                "from injectHosts.",
                json_string_value(host), json_string_value(host));
        path_pop(r->v, mark);
    }
    for (size_t i = 0; masks && i < json_array_size(hosts); i++) {
        const json_t *host = json_array_get(hosts, i);
        size_t mark = push_inject_host(r->v, i);
        if (covers(r->excluded, host))
            validation_issue(
                r->v,
                "injectHosts entry \"%s\" is entirely covered by "
                "network.tlsTerminate.excludeDomains. Credential injection only runs on "
                "TLS-terminated connections, so this host would receive the placeholder "
                "instead of the credential. Remove it from one of the two lists.",
                json_string_value(host));
        path_pop(r->v, mark);
    }
    if (masks && hosts == NULL && r->all_excluded)
        validation_issue(r->v, "This masked credential has no injectHosts, so it defaults to "
                               "network.allowedDomains — but network.tlsTerminate.excludeDomains "
                               "covers every allowed domain, so it could never be injected "
                               "anywhere. Credential injection only runs on TLS-terminated "
                               "connections.");
    if (masks && hosts != NULL && json_array_size(hosts) == 0)
        validation_issue(r->v, "injectHosts is explicitly empty — the credential would be masked "
                               "but never injected. Omit injectHosts to default to "
                               "network.allowedDomains, or list the intended hosts.");
}

static void mask_claims(struct rules *r, const json_t *entry, bool is_file)
{
    const json_t *claims = json_object_get(entry, "maskClaims");
    if (claims == NULL)
        return;
    size_t mark = path_push(r->v, "maskClaims");
    if (json_object_get(entry, "decode") == NULL)
        validation_issue(r->v,
                         "maskClaims requires decode — it names claims inside the decoded "
                         "payload. Set decode (e.g. \"jwt\"), or remove maskClaims to mask the %s.",
                         is_file ? "extracted value whole" : "whole value");
    if (json_array_size(claims) == 0)
        validation_issue(r->v, "maskClaims is explicitly empty — no claim would ever be masked. "
                               "Omit maskClaims to mask the whole token, or list the claims to "
                               "protect.");
    path_pop(r->v, mark);
}

static void file_path(struct rules *r, const json_t *entry)
{
    const json_t *path = json_object_get(entry, "path");
    size_t n = json_string_length(path);
    size_t mark = path_push(r->v, "path");
    if (!is_mask(entry)) {
        if (!r->disabled)
            deny_glob(r->v, path);
    } else if (n != 0 && json_string_value(path)[n - 1] == '/') {
        validation_issue(r->v,
                         "Credential mode \"mask\" applies to a single file, not a directory. Use "
                         "mode \"deny\" for \"%s\", or point at the credential file inside it.",
                         json_string_value(path));
    }
    path_pop(r->v, mark);
}

static void credential_entries(struct rules *r, const char *key, bool is_file)
{
    const json_t *list = json_object_get(r->credentials, key);
    size_t outer = path_push(r->v, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        size_t inner = path_push_index(r->v, i);
        inject_hosts(r, entry);
        mask_claims(r, entry, is_file);
        if (is_file)
            file_path(r, entry);
        path_pop(r->v, inner);
    }
    path_pop(r->v, outer);
}

/* One slot of a pair, at its path. used: the names met so far; first: the first entry of a name. */
static void aws_slot(struct validation *v, const json_t *name, json_t *used, const json_t *first)
{
    const char *text = json_string_value(name);
    if (json_object_get(used, text) != NULL) {
        validation_issue(v,
                         "\"%s\" appears in more than one awsPairs slot (within or across pairs) — "
                         "each variable can fill exactly one slot.",
                         text);
        return;
    }
    json_object_set_new(used, text, json_true());
    const json_t *entry = json_object_get(first, text);
    if (entry == NULL || !is_mask(entry))
        validation_issue(v,
                         "\"%s\" does not reference a credentials.envVars entry with mode \"mask\" "
                         "— an AWS pair links already-masked variables; add the entry (masking is "
                         "the opt-in for SigV4 re-signing).",
                         text);
    else if (json_object_get(entry, "extract") != NULL || json_object_get(entry, "decode") != NULL)
        validation_issue(v,
                         "\"%s\" uses extract/decode, but an AWS pair member must be masked "
                         "whole-value: the SigV4 trigger is an exact match of the fake access key "
                         "id, and the signer needs the entire real value.",
                         text);
}

static void aws_pairs(struct rules *r)
{
    static const char *const slots[] = {"accessKeyIdVar", "secretAccessKeyVar", "sessionTokenVar"};
    const json_t *pairs = json_object_get(r->credentials, "awsPairs");
    const json_t *variables = json_object_get(r->credentials, "envVars");
    json_t *used = json_object(), *first = json_object();
    for (size_t i = 0; i < json_array_size(variables); i++) {
        json_t *entry = json_array_get(variables, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (json_object_get(first, name) == NULL)
            json_object_set(first, name, entry);
    }
    size_t outer = path_push(r->v, "awsPairs");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        size_t middle = path_push_index(r->v, i);
        for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++) {
            const json_t *name = json_object_get(json_array_get(pairs, i), slots[s]);
            size_t inner = path_push(r->v, slots[s]);
            if (name != NULL)
                aws_slot(r->v, name, used, first);
            path_pop(r->v, inner);
        }
        path_pop(r->v, middle);
    }
    path_pop(r->v, outer);
    json_decref(used);
    json_decref(first);
}

static bool any_mask(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_mask(json_array_get(list, i)))
            return true;
    return false;
}

static void credentials(struct rules *r)
{
    const json_t *allowed = json_object_get(r->network, "allowedDomains");
    const json_t *tls = json_object_get(r->network, "tlsTerminate");
    r->allowed = compile(PATTERN_ALLOWED, allowed);
    /* An entry with a port is an issue of its own; what it covers, it covers all the same. */
    r->excluded = compile(PATTERN_DENIED, json_object_get(tls, "excludeDomains"));
    r->all_excluded = covers_all_allowed(r->excluded, allowed);

    size_t mark = path_push(r->v, "credentials");
    credential_entries(r, "envVars", false);
    credential_entries(r, "files", true);
    aws_pairs(r);
    if (tls == NULL && !json_is_true(json_object_get(r->credentials, "allowPlaintextInject")) &&
        (any_mask(json_object_get(r->credentials, "envVars")) ||
         any_mask(json_object_get(r->credentials, "files"))))
        validation_issue(r->v, "Credential masking requires network.tlsTerminate so substitution "
                               "runs only over a verified TLS connection. Enable tlsTerminate, or "
                               "set credentials.allowPlaintextInject to opt out (not "
                               "recommended).");
    path_pop(r->v, mark);

    pattern_list_free(r->allowed);
    pattern_list_free(r->excluded);
}

void cross_rules(struct validation *v, const json_t *document)
{
    struct rules r = {.v = v,
                      .network = json_object_get(document, "network"),
                      .filesystem = json_object_get(document, "filesystem"),
                      .credentials = json_object_get(document, "credentials")};
    r.disabled = json_is_true(json_object_get(r.filesystem, "disabled"));
    if (!r.disabled)
        deny_lists(&r);
    if (r.credentials != NULL)
        credentials(&r);
}
