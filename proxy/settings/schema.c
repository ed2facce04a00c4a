#include "proxy/settings/schema.h"

#include <string.h>

#include "proxy/credentials/extract_pattern.h"
#include "proxy/policy/address.h"
#include "proxy/policy/pattern.h"
#include "proxy/settings/cross_rules.h"
#include "proxy/settings/own_keys.h"
#include "proxy/settings/url.h"
#include "proxy/settings/validate.h"

#define TEXT(string) json_string_value(string), json_string_length(string)

#define DOMAIN_MESSAGE                                                                           \
    "Invalid domain pattern. Must be a valid domain (e.g., \"example.com\"), a wildcard (e.g., " \
    "\"*.example.com\"), or a bracketed IPv6 literal (e.g., \"[::1]\", "                         \
    "\"[2001:db8::1]:443\"). Overly broad patterns like \"*.com\" or \"*\" are not allowed for " \
    "security reasons."
#define PORT_MESSAGE "optional \":port\" suffix (1-65535) restricts the entry to that port."

/* An entry with a NUL is refused even where the rule would let it pass: it could be compared only
 * up to there. */
static bool is_pattern(enum pattern_kind kind, const json_t *value)
{
    return !json_has_nul(value) && pattern_valid(kind, TEXT(value));
}

static void check_allowed(struct validation *v, const json_t *value)
{
    if (!is_pattern(PATTERN_ALLOWED, value))
        validation_issue(v, DOMAIN_MESSAGE " An " PORT_MESSAGE);
}

static void check_denied(struct validation *v, const json_t *value)
{
    if (!is_pattern(PATTERN_DENIED, value))
        validation_issue(
            v, DOMAIN_MESSAGE
            " In deniedDomains a bare \"*\" (deny-all) is also accepted, and an " PORT_MESSAGE);
}

static void check_plain(struct validation *v, const json_t *value)
{
    if (!is_pattern(PATTERN_PLAIN, value))
        validation_issue(v, DOMAIN_MESSAGE);
}

static void check_range(struct validation *v, const json_t *value)
{
    struct address_range range;
    if (json_has_nul(value) || !address_range_parse(TEXT(value), &range))
        validation_issue(v, "Invalid IP address or CIDR range. Use an IPv4/IPv6 literal or CIDR, "
                            "e.g. \"10.0.0.0/8\", \"192.168.1.10\", \"fc00::/7\" (IPv6 "
                            "unbracketed).");
}

static void check_mach_name(struct validation *v, const json_t *value)
{
    size_t n = json_string_length(value);
    const char *star = memchr(json_string_value(value), '*', n);
    if (star != NULL && star != json_string_value(value) + n - 1)
        validation_issue(v, "Wildcards are only allowed as a single trailing \"*\" (e.g., "
                            "\"com.example.*\" or \"*\" for all services).");
}

static void check_url(struct validation *v, const json_t *value)
{
    if (!url_parses(TEXT(value)))
        validation_issue(v, "Invalid url");
}

static void check_path(struct validation *v, const json_t *value)
{
    if (json_string_length(value) == 0)
        validation_issue(v, "Path cannot be empty");
}

static void check_absolute(struct validation *v, const json_t *value)
{
    check_path(v, value);
    if (json_string_value(value)[0] != '/')
        validation_issue(v, "Binary path must be absolute");
}

static bool is_word(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

static void check_variable(struct validation *v, const json_t *value)
{
    const char *s = json_string_value(value);
    size_t n = json_string_length(value), good = 0;
    while (good < n && is_word(s[good], good == 0))
        good++;
    if (n == 0 || good != n)
        validation_issue(v, "Environment variable name must start with a letter or underscore and "
                            "contain only letters, digits, and underscores");
}

static void check_extract(struct validation *v, const json_t *value)
{
    struct buf error;
    buf_init(&error, 1000);
    struct extract_pattern *pattern = extract_pattern_compile(TEXT(value), &error);
    if (pattern == NULL)
        validation_issue(v,
                         "extract is not a valid regular expression: Invalid regular expression: "
                         "/%s/: %s",
                         json_string_value(value), buf_cstr(&error));
    else if (extract_pattern_groups(pattern) == 0)
        validation_issue(v, "extract must contain at least one capturing group — group 1 is the "
                            "credential value to mask (e.g. \"token:\\s*(\\S+)\").");
    extract_pattern_free(pattern);
    buf_free(&error);
}

static void check_function(struct validation *v, const json_t *value)
{
    (void)value;
    validation_type_failure(v, "filterRequest must be a function");
}

static void check_path_entry(struct validation *v, const json_t *value);

static const struct option string_item = {.type = OPTION_STRING};
static const struct option filled_item = {.type = OPTION_STRING, .min = 1};
static const struct option allowed_item = {.type = OPTION_STRING, .check = check_allowed};
static const struct option denied_item = {.type = OPTION_STRING, .check = check_denied};
static const struct option plain_item = {.type = OPTION_STRING, .check = check_plain};
static const struct option range_item = {.type = OPTION_STRING, .check = check_range};
static const struct option mach_item = {.type = OPTION_STRING, .check = check_mach_name};
static const struct option string_list_item = {.type = OPTION_LIST, .item = &string_item};
static const struct option path_entry_item = {.type = OPTION_CUSTOM, .check = check_path_entry};

static const char *const target_choices[] = {"refuse", "asSpelled", "normalize", NULL};
static const char *const mode_choices[] = {"deny", "mask", NULL};
static const char *const no_match_choices[] = {"warn", "deny", "error", NULL};
static const char *const decode_choices[] = {"jwt", NULL};
static const char *const sigv4_choices[] = {"deny", "passthrough", NULL};

static const struct option mitm_options[] = {
    {.key = "socketPath", .type = OPTION_STRING, .need = REQUIRED, .min = 1},
    {.key = "domains", .type = OPTION_LIST, .need = REQUIRED, .min = 1, .item = &plain_item},
    {.key = NULL},
};
static const struct shape mitm_shape = {.options = mitm_options};

static void check_ca_pair(struct validation *v, const json_t *object);
static const struct option tls_options[] = {
    {.key = "caCertPath", .type = OPTION_STRING, .min = 1},
    {.key = "caKeyPath", .type = OPTION_STRING, .min = 1},
    {.key = "excludeDomains", .type = OPTION_LIST, .item = &plain_item},
    {.key = "onlyHosts", .type = OPTION_LIST, .item = &plain_item}, /* ours */
    {.key = "extraCaCertPaths", .type = OPTION_LIST, .item = &filled_item},
    {.key = "maxTunnels", .type = OPTION_INTEGER, .min = 1, .max = 65536},
    {.key = "handshakeTimeoutMs", .type = OPTION_INTEGER, .min = 100, .max = 600000},
    {.key = NULL},
};
static const struct shape tls_shape = {.options = tls_options, .rule = check_ca_pair};

static const struct option parent_options[] = {
    {.key = "http", .type = OPTION_STRING, .check = check_url},
    {.key = "https", .type = OPTION_STRING, .check = check_url},
    {.key = "noProxy", .type = OPTION_STRING},
    {.key = NULL},
};
static const struct shape parent_shape = {.options = parent_options};

static const struct option network_options[] = {
    {.key = "allowedDomains", .type = OPTION_LIST, .need = REQUIRED, .item = &allowed_item},
    {.key = "deniedDomains", .type = OPTION_LIST, .need = REQUIRED, .item = &denied_item},
    {.key = "deniedDomainReasons", .type = OPTION_MAP, .item = &filled_item},
    {.key = "strictAllowlist", .type = OPTION_BOOLEAN},
    {.key = "deniedResolvedAddresses", .type = OPTION_LIST, .item = &range_item},
    {.key = "allowUnixSockets", .type = OPTION_LIST, .item = &string_item},
    {.key = "allowAllUnixSockets", .type = OPTION_BOOLEAN},
    {.key = "allowLocalBinding", .type = OPTION_BOOLEAN},
    {.key = "allowMachLookup", .type = OPTION_LIST, .item = &mach_item},
    {.key = "httpProxyPort", .type = OPTION_INTEGER, .min = 1, .max = 65535},
    {.key = "socksProxyPort", .type = OPTION_INTEGER, .min = 1, .max = 65535},
    {.key = "mitmProxy", .type = OPTION_OBJECT, .shape = &mitm_shape},
    {.key = "filterRequest", .type = OPTION_CUSTOM, .check = check_function},
    {.key = "allowPlaintextHeaderSet", .type = OPTION_BOOLEAN},
    {.key = "stripResponseHeaders", .type = OPTION_LIST, .item = &filled_item},
    {.key = "refuseOpaqueTunnels", .type = OPTION_BOOLEAN},
    {.key = "requireHostMatch", .type = OPTION_BOOLEAN},
    {.key = "ambiguousRequestTarget", .type = OPTION_ENUM, .choices = target_choices},
    {.key = "tlsTerminate", .type = OPTION_OBJECT, .shape = &tls_shape},
    {.key = "parentProxy", .type = OPTION_OBJECT, .shape = &parent_shape},
    {.key = NULL},
};
static const struct shape network_shape = {.options = network_options};

static const struct option filesystem_options[] = {
    {.key = "disabled", .type = OPTION_BOOLEAN},
    {.key = "denyRead", .type = OPTION_LIST, .need = REQUIRED, .item = &path_entry_item},
    {.key = "allowRead", .type = OPTION_LIST, .item = &path_entry_item},
    {.key = "allowWrite", .type = OPTION_LIST, .need = REQUIRED, .item = &path_entry_item},
    {.key = "denyWrite", .type = OPTION_LIST, .need = REQUIRED, .item = &path_entry_item},
    {.key = "allowGitConfig", .type = OPTION_BOOLEAN},
    {.key = NULL},
};
static const struct shape filesystem_shape = {.options = filesystem_options};

static const struct option file_options[] = {
    {.key = "path", .type = OPTION_STRING, .need = REQUIRED, .check = check_path},
    {.key = "mode", .type = OPTION_ENUM, .need = REQUIRED, .choices = mode_choices},
    {.key = "extract", .type = OPTION_STRING, .check = check_extract},
    {.key = "onExtractNoMatch", .type = OPTION_ENUM, .choices = no_match_choices},
    {.key = "decode", .type = OPTION_ENUM, .choices = decode_choices},
    {.key = "maskClaims", .type = OPTION_LIST, .item = &filled_item},
    {.key = "maskDuplicates", .type = OPTION_BOOLEAN},
    {.key = "injectHosts", .type = OPTION_LIST, .item = &plain_item},
    {.key = NULL},
};
static const struct shape file_shape = {.options = file_options};
static const struct option file_item = {.type = OPTION_OBJECT, .shape = &file_shape};

static const struct option variable_options[] = {
    {.key = "name", .type = OPTION_STRING, .need = REQUIRED, .check = check_variable},
    {.key = "mode", .type = OPTION_ENUM, .need = REQUIRED, .choices = mode_choices},
    {.key = "extract", .type = OPTION_STRING, .check = check_extract},
    {.key = "onExtractNoMatch", .type = OPTION_ENUM, .choices = no_match_choices},
    {.key = "decode", .type = OPTION_ENUM, .choices = decode_choices},
    {.key = "maskClaims", .type = OPTION_LIST, .item = &filled_item},
    {.key = "injectHosts", .type = OPTION_LIST, .item = &plain_item},
    {.key = NULL},
};
static const struct shape variable_shape = {.options = variable_options};
static const struct option variable_item = {.type = OPTION_OBJECT, .shape = &variable_shape};

static const struct option pair_options[] = {
    {.key = "accessKeyIdVar", .type = OPTION_STRING, .need = REQUIRED, .check = check_variable},
    {.key = "secretAccessKeyVar", .type = OPTION_STRING, .need = REQUIRED, .check = check_variable},
    {.key = "sessionTokenVar", .type = OPTION_STRING, .check = check_variable},
    {.key = NULL},
};
static const struct shape pair_shape = {.options = pair_options, .strict = true};
static const struct option pair_item = {.type = OPTION_OBJECT, .shape = &pair_shape};

static const struct option sigv4_options[] = {
    {.key = "streaming", .type = OPTION_ENUM, .choices = sigv4_choices},
    {.key = "presigned", .type = OPTION_ENUM, .choices = sigv4_choices},
    {.key = "sigv4a", .type = OPTION_ENUM, .choices = sigv4_choices},
    {.key = NULL},
};
static const struct shape sigv4_shape = {.options = sigv4_options, .strict = true};

static const struct option credentials_options[] = {
    {.key = "files", .type = OPTION_LIST, .item = &file_item},
    {.key = "envVars", .type = OPTION_LIST, .item = &variable_item},
    {.key = "allowPlaintextInject", .type = OPTION_BOOLEAN},
    {.key = "awsPairs", .type = OPTION_LIST, .item = &pair_item},
    {.key = "sigv4", .type = OPTION_OBJECT, .shape = &sigv4_shape},
    {.key = NULL},
};
static const struct shape credentials_shape = {.options = credentials_options, .strict = true};

static const struct option ripgrep_options[] = {
    {.key = "command", .type = OPTION_STRING, .need = REQUIRED},
    {.key = "args", .type = OPTION_LIST, .item = &string_item},
    {.key = "argv0", .type = OPTION_STRING},
    {.key = NULL},
};
static const struct shape ripgrep_shape = {.options = ripgrep_options};

static const struct option seccomp_options[] = {
    {.key = "applyPath", .type = OPTION_STRING},
    {.key = "argv0", .type = OPTION_STRING},
    {.key = NULL},
};
static const struct shape seccomp_shape = {.options = seccomp_options};

static const struct option git_options[] = {
    {.key = "safeDirectories", .type = OPTION_LIST, .item = &string_item},
    {.key = NULL},
};
static const struct shape git_shape = {.options = git_options};

static const struct option root_options[] = {
    {.key = "network", .type = OPTION_OBJECT, .need = REQUIRED, .shape = &network_shape},
    {.key = "filesystem",
     .type = OPTION_OBJECT,
     .need = REQUIRED_IN_SANDBOX,
     .shape = &filesystem_shape},
    {.key = "credentials", .type = OPTION_OBJECT, .shape = &credentials_shape},
    {.key = "ignoreViolations", .type = OPTION_MAP, .item = &string_list_item},
    {.key = "enableWeakerNestedSandbox", .type = OPTION_BOOLEAN},
    {.key = "allowNestedUserNamespaces", .type = OPTION_BOOLEAN},
    {.key = "enableWeakerNetworkIsolation", .type = OPTION_BOOLEAN},
    {.key = "allowAppleEvents", .type = OPTION_BOOLEAN},
    {.key = "ripgrep", .type = OPTION_OBJECT, .shape = &ripgrep_shape},
    {.key = "mandatoryDenySearchDepth", .type = OPTION_INTEGER, .min = 1, .max = 10},
    {.key = "allowPty", .type = OPTION_BOOLEAN},
    {.key = "seccomp", .type = OPTION_OBJECT, .shape = &seccomp_shape},
    {.key = "bwrapPath", .type = OPTION_STRING, .check = check_absolute},
    {.key = "socatPath", .type = OPTION_STRING, .check = check_absolute},
    {.key = "javaAgentJarPath", .type = OPTION_STRING, .check = check_absolute},
    {.key = "windows", .type = OPTION_ANY},
    {.key = "git", .type = OPTION_OBJECT, .shape = &git_shape},
    {.key = NULL},
};
static const struct shape root_shape = {.options = root_options, .rule = cross_rules};

static const struct option literal_options[] = {
    {.key = "path", .type = OPTION_STRING, .need = REQUIRED, .check = check_path},
    {.key = "literal", .type = OPTION_ANY, .need = REQUIRED},
    {.key = NULL},
};
static const struct shape literal_shape = {.options = literal_options, .strict = true};

/* A path, or the same taken literally. */
static void check_path_entry(struct validation *v, const json_t *value)
{
    if (json_is_string(value)) {
        check_path(v, value);
        return;
    }
    if (!json_is_string(json_object_get(value, "path")) ||
        !json_is_true(json_object_get(value, "literal"))) {
        validation_type_failure(v,
                                "Expected a path, or { \"path\": \"<path>\", \"literal\": true }");
        return;
    }
    validate_object(v, &literal_shape, value);
}

static void check_ca_pair(struct validation *v, const json_t *object)
{
    const json_t *certificate = json_object_get(object, "caCertPath");
    const json_t *key = json_object_get(object, "caKeyPath");
    bool has_certificate = certificate != NULL && json_string_length(certificate) != 0;
    bool has_key = key != NULL && json_string_length(key) != 0;
    if (has_certificate != has_key)
        validation_issue(v, "caCertPath and caKeyPath must be provided together");
}

bool schema_validate(const json_t *document, enum settings_use use, struct issues *issues)
{
    *issues = (struct issues){0};
    struct validation v = {.issues = issues};
    buf_init(&v.path, 2 * SETTINGS_FILE_MAX);
    v.sandbox = use == SETTINGS_SANDBOX ||
                (use == SETTINGS_CHECK && json_object_get(document, "proxy") == NULL);
    validate_object(&v, &root_shape, document);
    if (json_is_object(document))
        own_keys_validate(&v, document);
    buf_free(&v.path);
    return issues->count == 0;
}
