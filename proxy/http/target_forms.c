#include <string.h>

#include "proxy/http/field.h"
#include "proxy/http/target.h"
#include "proxy/http/target_path.h"

const char target_malformed_text[] = "malformed request-target";
const char target_ambiguous_text[] =
    "ambiguous request-target: as spelled and normalized it names different paths (a dot segment, "
    "leading slashes or \"\\\"); nothing was forwarded (network.ambiguousRequestTarget in the "
    "sandbox's configuration is \"refuse\")";

void target_forms_init(struct target_forms *f, size_t max)
{
    buf_init(&f->spelled, max);
    buf_init(&f->normalized, max);
    f->ambiguous = false;
}

void target_forms_free(struct target_forms *f)
{
    buf_free(&f->spelled);
    buf_free(&f->normalized);
}

/* True when the absolute form's authority names a host that section 3.3 accepts. */
static bool authority_ok(const char *target, size_t n, size_t *path)
{
    struct authority authority;
    struct host host;
    if (!authority_parse_absolute(target, n, &authority))
        return false;
    *path = authority.path;
    return host_canonicalise(authority.host, authority.host_len, &host) == HOST_OK;
}

/* Appends the spelled form of a target without a fragment. False: malformed. */
static bool spell(struct buf *out, const char *target, size_t n)
{
    size_t path = 0;
    if (n == 0)
        return false;
    if (target[0] != '/') {
        if (!authority_ok(target, n, &path))
            return false;
        if ((path == n || target[path] == '?') && !buf_puts(out, "/"))
            return false;
    }
    for (size_t i = path; i < n; i++)
        if (!byte_is((uint8_t)target[i], BYTE_TARGET))
            return false;
    return buf_append(out, target + path, n - path);
}

static bool same_but_final_question(const struct buf *spelled, const struct buf *normalized)
{
    size_t n = buf_len(normalized), longer = buf_len(spelled);
    if (longer != n && (longer != n + 1 || buf_chars(spelled)[n] != '?'))
        return false;
    return memcmp(buf_chars(spelled), buf_chars(normalized), n) == 0;
}

/* Whether two forms differ by more than a final '?' and the spelling of bytes that URL parsers
 * escape in some places and not in others. */
static bool differ(const struct buf *spelled, const struct buf *normalized)
{
    static const char escaped[] = "\"'<>^`{}";
    if (same_but_final_question(spelled, normalized))
        return false;
    struct buf a, b;
    buf_init(&a, buf_len(spelled) * 3);
    buf_init(&b, buf_len(normalized) * 3);
    bool same = target_escape(&a, buf_chars(spelled), buf_len(spelled), escaped) &&
                target_escape(&b, buf_chars(normalized), buf_len(normalized), escaped) &&
                same_but_final_question(&a, &b);
    buf_free(&a);
    buf_free(&b);
    return !same;
}

bool target_forms_parse(struct target_forms *f, const char *target, size_t n, const char *method,
                        size_t method_len)
{
    static const char options[] = "OPTIONS";
    buf_clear(&f->spelled);
    buf_clear(&f->normalized);
    f->ambiguous = false;
    const char *hash = n != 0 ? memchr(target, '#', n) : NULL;
    if (hash != NULL)
        n = (size_t)(hash - target);
    if (n == 1 && target[0] == '*')
        return method_len == sizeof options - 1 && memcmp(method, options, method_len) == 0 &&
               buf_puts(&f->spelled, "*") && buf_puts(&f->normalized, "*");
    if (!spell(&f->spelled, target, n) ||
        !target_path_normalise(&f->normalized, buf_chars(&f->spelled), buf_len(&f->spelled), true))
        return false;
    f->ambiguous = differ(&f->spelled, &f->normalized);
    return true;
}

enum target_refusal target_choose(const struct target_forms *f, enum target_mode mode,
                                  const struct buf **out)
{
    *out = NULL;
    if (buf_len(&f->spelled) == 0 || buf_len(&f->normalized) == 0)
        return TARGET_MALFORMED;
    if (mode == TARGET_REFUSE && f->ambiguous)
        return TARGET_AMBIGUOUS;
    *out = mode == TARGET_NORMALIZE ? &f->normalized : &f->spelled;
    return TARGET_OK;
}
