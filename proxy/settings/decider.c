#include "proxy/settings/decider.h"

#include <string.h>
#include <sys/un.h>

#include "base/mem.h"
#include "base/text.h"
#include "decider/decider.h"
#include "decider/remote.h"
#include "proxy/policy/host.h"

enum {
    TIMEOUT_MIN_MS = 10,
    TIMEOUT_MAX_MS = 600000,
    TIMEOUT_DEFAULT_MS = 5000,
    PROTO_DEFAULT = 2,
    COMMAND_MAX = 65536,
    PLACEMENTS_MAX = 1000,
    TEXT_MAX = 1024 /* of a placement's class and user */
};

static void check_command(struct validation *v, const json_t *value)
{
    struct buf why;
    if (json_has_nul(value)) {
        validation_issue(v, "String must not contain a NUL character");
        return;
    }
    buf_init(&why, 1024);
    char **words = remote_split_command(json_string_value(value), &why);
    if (words == NULL)
        validation_issue(v, "Invalid command line: %s", buf_cstr(&why));
    remote_free_words(words);
    buf_free(&why);
}

static void check_socket(struct validation *v, const json_t *value)
{
    const size_t room = sizeof(((struct sockaddr_un *)0)->sun_path);
    if (json_has_nul(value))
        validation_issue(v, "String must not contain a NUL character");
    else if (json_string_value(value)[0] != '/')
        validation_issue(v, "Socket path must be absolute");
    if (json_string_length(value) >= room)
        validation_issue(v, "Socket path must have at most %zu bytes", room - 1);
}

static void check_class(struct validation *v, const json_t *value)
{
    if (json_has_nul(value))
        validation_issue(v, "String must not contain a NUL character");
}

/* Only what a request's canonical host can be: anything else would never match. */
static void check_host(struct validation *v, const json_t *value)
{
    struct host canonical;
    size_t n = json_string_length(value);
    if (host_canonicalise(json_string_value(value), n, &canonical) != HOST_OK ||
        canonical.len != n || memcmp(canonical.text, json_string_value(value), n) != 0)
        validation_issue(v, "Invalid host. Use one host name in lower case, or an address (IPv6 "
                            "unbracketed), without a port, e.g. \"github.com\".");
}

/* RFC 7617 section 2: the first colon ends the user, and neither part has control characters. */
static bool user_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t bytes = text_utf8_decode((const uint8_t *)s + i, n - i, &code);
        if (bytes == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0) || code == ':')
            return false;
        i += bytes;
    }
    return true;
}

static void check_user(struct validation *v, const json_t *value)
{
    if (!user_valid(json_string_value(value), json_string_length(value)))
        validation_issue(v, "User must not contain \":\" or control characters");
}

static bool equals(const json_t *string, const char *text)
{
    return string != NULL && strcmp(json_string_value(string), text) == 0;
}

/* Adds an issue at a key of the object that is being looked at. */
static void issue_at(struct validation *v, const char *key, const char *message)
{
    size_t mark = path_push(v, key);
    validation_issue(v, "%s", message);
    path_pop(v, mark);
}

static void check_placement(struct validation *v, const json_t *object)
{
    bool basic = equals(json_object_get(object, "scheme"), "basic");
    bool user = json_object_get(object, "user") != NULL;
    if (basic && !user)
        issue_at(v, "user", "Required with scheme \"basic\"");
    else if (!basic && user)
        issue_at(v, "user", "Goes with scheme \"basic\" only");
}

static bool names_proto_1(const json_t *object)
{
    const json_t *proto = json_object_get(object, "proto");
    double number = json_number_value(proto); /* 0 for an absent one */
    return number >= 1 && number < 2;
}

static void check_decider(struct validation *v, const json_t *object)
{
    const json_t *level = json_object_get(object, "level");
    if (json_object_get(object, "exec") != NULL && json_object_get(object, "unix") != NULL)
        validation_issue(v, "exec and unix exclude each other: a decider is started or connected "
                            "to");
    if (!names_proto_1(object))
        return;
    if (v->sandbox)
        issue_at(v, "proto",
                 "A sandbox speaks protocol 2 with its decider. Protocol 1 is for srt proxy.");
    if (level != NULL && !equals(level, "request"))
        issue_at(v, "level", "Protocol 1 asks about requests only");
}

static const char *const level_choices[] = {"connection", "request", "both", NULL};
static const char *const scheme_choices[] = {"bearer", "basic", NULL};

static const struct option placement_options[] = {
    {.key = "class", .type = OPTION_STRING, .min = 1, .max = TEXT_MAX, .check = check_class},
    {.key = "host", .type = OPTION_STRING, .check = check_host},
    {.key = "scheme", .type = OPTION_ENUM, .need = REQUIRED, .choices = scheme_choices},
    {.key = "user", .type = OPTION_STRING, .max = TEXT_MAX, .check = check_user},
    {.key = NULL},
};
static const struct shape placement_shape = {
    .options = placement_options, .strict = true, .rule = check_placement};
static const struct option placement_item = {.type = OPTION_OBJECT, .shape = &placement_shape};

static const struct option decider_options[] = {
    {.key = "exec", .type = OPTION_STRING, .max = COMMAND_MAX, .check = check_command},
    {.key = "unix", .type = OPTION_STRING, .check = check_socket},
    {.key = "proto", .type = OPTION_INTEGER, .min = 1, .max = 2},
    {.key = "level", .type = OPTION_ENUM, .choices = level_choices},
    {.key = "timeoutMs", .type = OPTION_INTEGER, .min = TIMEOUT_MIN_MS, .max = TIMEOUT_MAX_MS},
    {.key = "placements", .type = OPTION_LIST, .max = PLACEMENTS_MAX, .item = &placement_item},
    {.key = NULL},
};
static const struct shape decider_shape = {
    .options = decider_options, .strict = true, .rule = check_decider};

const struct option decider_option = {
    .key = "decider", .type = OPTION_OBJECT, .shape = &decider_shape};

static char *copy(const json_t *string)
{
    return string != NULL ? mem_dup(json_string_value(string)) : NULL;
}

static unsigned level_bits(const json_t *level)
{
    if (level == NULL)
        return 0;
    if (equals(level, "both"))
        return DECIDER_CONNECTIONS | DECIDER_REQUESTS;
    return equals(level, "connection") ? DECIDER_CONNECTIONS : DECIDER_REQUESTS;
}

static struct placements *build_placements(const json_t *list)
{
    if (list == NULL)
        return NULL;
    struct placements *placements = placements_new();
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *object = json_array_get(list, i);
        placements_add(placements, &(struct placement){
                                       .class = json_string_value(json_object_get(object, "class")),
                                       .host = json_string_value(json_object_get(object, "host")),
                                       .scheme = equals(json_object_get(object, "scheme"), "basic")
                                                     ? PLACEMENT_BASIC
                                                     : PLACEMENT_BEARER,
                                       .user = json_string_value(json_object_get(object, "user")),
                                   });
    }
    return placements;
}

void decider_build(struct snapshot *s, const json_t *object)
{
    const json_t *timeout = json_object_get(object, "timeoutMs");
    s->decider_timeout_ms =
        timeout != NULL ? (uint32_t)json_number_value(timeout) : TIMEOUT_DEFAULT_MS;
    if (object == NULL)
        return;
    const json_t *proto = json_object_get(object, "proto");
    s->decider_proto = proto != NULL ? (unsigned)json_number_value(proto) : PROTO_DEFAULT;
    s->decider_exec = copy(json_object_get(object, "exec"));
    s->decider_unix = copy(json_object_get(object, "unix"));
    s->decider_level = level_bits(json_object_get(object, "level"));
    s->placements = build_placements(json_object_get(object, "placements"));
}
