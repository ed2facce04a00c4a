#include "proxy/http/target.h"

#include <string.h>

#include "base/text.h"
#include "proxy/http/target_path.h"

/* Length of s without its fragment. */
static size_t without_fragment(const char *s, size_t n)
{
    const char *hash = memchr(s, '#', n);
    return hash != NULL ? (size_t)(hash - s) : n;
}

bool target_forwarded(struct buf *out, const char *rest, size_t n)
{
    n = n != 0 ? without_fragment(rest, n) : 0;
    if (n != 0 && rest[0] == '/')
        return target_path_normalise(out, rest, n, false);
    struct buf rooted;
    buf_init(&rooted, n + 1);
    bool ok = buf_puts(&rooted, "/") && buf_append(&rooted, rest, n) &&
              target_path_normalise(out, buf_chars(&rooted), n + 1, false);
    buf_free(&rooted);
    return ok;
}

/* Offset of what follows `http(s)://` and everything up to '/', '?' or '#'; 0 when s is none. */
static size_t after_authority(const char *s, size_t n)
{
    const char *colon = n != 0 ? memchr(s, ':', n) : NULL;
    if (colon == NULL)
        return 0;
    size_t scheme = (size_t)(colon - s);
    if (!text_equal_fold(s, scheme, "http", 4) && !text_equal_fold(s, scheme, "https", 5))
        return 0;
    size_t at = scheme + 3;
    if (n < at || memcmp(colon, "://", 3) != 0)
        return 0;
    while (at < n && s[at] != '/' && s[at] != '?' && s[at] != '#')
        at++;
    return at;
}

bool target_exact(struct buf *out, const char *target, size_t n, bool absolute)
{
    size_t at = absolute ? after_authority(target, n) : 0;
    if (absolute && at == 0)
        return false;
    const char *rest = target + at;
    size_t len = n - at;
    bool add_slash = absolute && (len == 0 || rest[0] == '?');
    if (!add_slash && (len == 0 || rest[0] != '/'))
        return false;
    if (!add_slash && len >= 2 && (rest[1] == '/' || rest[1] == '\\'))
        return false;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)rest[i];
        if (c <= ' ' || c == 0x7F || c == '#')
            return false;
    }
    if (buf_room(out) < len + 1)
        return false;
    return (!add_slash || buf_puts(out, "/")) && buf_append(out, rest, len);
}
