/* Chapter 20: authorities, request targets, Host matching. */
#include "tests/vectors/vectors.h"

#include <string.h>

#include "proxy/http/target.h"

enum { HOST_HEADERS_MAX = 8, TARGET_MAX = 1 << 16 };

static const char *string_at(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static void show(struct buf *why, const char *s)
{
    buf_printf(why, "%s", s != NULL ? s : "null");
}

static bool parse_authority(const json_t *row, struct authority *authority, struct host *host)
{
    const json_t *target = json_object_get(row, "target");
    const char *s = json_string_value(target);
    size_t n = json_string_length(target);
    bool connect = strcmp(string_at(row, "form"), "connect") == 0;
    return (connect ? authority_parse_connect(s, n, authority)
                    : authority_parse_absolute(s, n, authority)) &&
           authority->port != 0 &&
           host_canonicalise(authority->host, authority->host_len, host) == HOST_OK;
}

static bool authority_row(const json_t *row, struct buf *why)
{
    struct authority authority;
    struct host host;
    bool accepted = parse_authority(row, &authority, &host);
    const char *want = string_at(row, "host");
    if (!accepted)
        buf_puts(why, "got a refusal");
    else
        buf_printf(why, "got %s port %u", host.text, (unsigned)authority.port);
    if (json_is_true(json_object_get(row, "refused"))) {
        buf_puts(why, ", wanted a refusal");
        return !accepted;
    }
    json_int_t port = json_integer_value(json_object_get(row, "port"));
    buf_printf(why, ", wanted %s port %d", want, (int)port);
    return accepted && want != NULL && strcmp(host.text, want) == 0 && authority.port == port;
}

/* Compares a buffer, or NULL for none, with a JSON string or null. */
static bool same(struct buf *got, const json_t *want, const char *what, struct buf *why)
{
    const char *s = got != NULL ? buf_cstr(got) : NULL, *wanted = json_string_value(want);
    if (s == NULL ? wanted == NULL : wanted != NULL && strcmp(s, wanted) == 0)
        return true;
    buf_printf(why, "%s: got ", what);
    show(why, s);
    buf_puts(why, ", wanted ");
    show(why, wanted);
    buf_puts(why, "; ");
    return false;
}

static bool choice(const struct target_forms *forms, bool parsed, enum target_mode mode,
                   const json_t *row, const char *key, struct buf *why)
{
    const json_t *want = json_object_get(row, key);
    const struct buf *chosen = NULL;
    enum target_refusal refusal = parsed ? target_choose(forms, mode, &chosen) : TARGET_MALFORMED;
    struct buf got;
    buf_init(&got, TARGET_MAX);
    const char *wanted = "forwarded";
    if (refusal == TARGET_OK) {
        buf_append(&got, buf_data(chosen), buf_len(chosen));
    } else {
        wanted = "refusal";
        buf_puts(&got, refusal == TARGET_AMBIGUOUS ? target_ambiguous_text : target_malformed_text);
    }
    bool ok = same(&got, json_object_get(want, wanted), key, why);
    buf_free(&got);
    return ok;
}

static bool exact(const json_t *row, bool absolute, const char *key, struct buf *why)
{
    const json_t *target = json_object_get(row, "target");
    struct buf got;
    buf_init(&got, TARGET_MAX);
    bool accepted =
        target_exact(&got, json_string_value(target), json_string_length(target), absolute);
    bool ok = same(accepted ? &got : NULL, json_object_get(row, key), key, why);
    buf_free(&got);
    return ok;
}

static bool request_target_row(const json_t *row, struct buf *why)
{
    const json_t *target = json_object_get(row, "target"), *method = json_object_get(row, "method");
    const json_t *ambiguous = json_object_get(row, "ambiguous");
    struct target_forms forms;
    target_forms_init(&forms, TARGET_MAX);
    bool parsed = target_forms_parse(&forms, json_string_value(target), json_string_length(target),
                                     json_string_value(method), json_string_length(method));
    bool ok = same(parsed ? &forms.spelled : NULL, json_object_get(row, "spelled"), "spelled", why);
    ok &= same(parsed ? &forms.normalized : NULL, json_object_get(row, "normalized"), "normalized",
               why);
    if (parsed ? !json_is_boolean(ambiguous) || json_is_true(ambiguous) != forms.ambiguous
               : !json_is_null(ambiguous)) {
        buf_puts(why, "ambiguous is wrong; ");
        ok = false;
    }
    ok &= choice(&forms, parsed, TARGET_REFUSE, row, "refuse", why);
    ok &= choice(&forms, parsed, TARGET_AS_SPELLED, row, "asSpelled", why);
    ok &= choice(&forms, parsed, TARGET_NORMALIZE, row, "normalize", why);
    ok &= exact(row, false, "exact", why);
    ok &= exact(row, true, "exactAbsolute", why);
    target_forms_free(&forms);
    return ok;
}

static bool host_mismatch_row(const json_t *row, struct buf *why)
{
    const json_t *headers = json_object_get(row, "hostHeaders");
    const json_t *target = json_object_get(row, "target");
    const char *values[HOST_HEADERS_MAX];
    size_t lens[HOST_HEADERS_MAX], count = json_array_size(headers);
    if (count > HOST_HEADERS_MAX) {
        buf_puts(why, "more Host headers than this test holds");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = json_string_value(json_array_get(headers, i));
        lens[i] = json_string_length(json_array_get(headers, i));
    }
    struct host_match match = {
        .host_headers = values,
        .host_header_lens = lens,
        .host_header_count = count,
        .hostname = string_at(target, "hostname"),
        .port = (uint16_t)json_integer_value(json_object_get(target, "port")),
        .default_port = (uint16_t)json_integer_value(json_object_get(target, "defaultPort")),
        .server_name = string_at(row, "serverName"),
        .authority = string_at(row, "authority"),
    };
    const char *got = host_mismatch(&match), *want = string_at(row, "why");
    buf_puts(why, "got ");
    show(why, got);
    buf_puts(why, ", wanted ");
    show(why, want);
    return got == NULL ? want == NULL : want != NULL && strcmp(got, want) == 0;
}

const struct vector_file vectors_http[] = {
    {"authority", authority_row},
    {"request-target", request_target_row},
    {"host-mismatch", host_mismatch_row},
    {NULL, NULL},
};
