/* Request targets: normal forms are stable, clean, and without dot segments. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/http/target.h"

enum { ROOM = 1 << 20 };

static bool equal(const struct buf *a, const struct buf *b)
{
    return buf_len(a) == buf_len(b) && memcmp(buf_data(a), buf_data(b), buf_len(a)) == 0;
}

/* True when the segment is one or two dots, each as '.' or %2e. */
static bool is_dots(const char *s, size_t n)
{
    size_t dots = 0, i = 0;
    while (i < n) {
        if (s[i] == '.')
            i++;
        else if (n - i >= 3 && memcmp(s + i, "%2", 2) == 0 && (s[i + 2] == 'e' || s[i + 2] == 'E'))
            i += 3;
        else
            return false;
        dots++;
    }
    return dots == 1 || dots == 2;
}

static void check_normal(const struct buf *b)
{
    const char *s = buf_chars(b);
    size_t n = buf_len(b), path = n;
    assert(n != 0 && s[0] == '/');
    for (size_t i = 0; i < n; i++) {
        assert(s[i] > 0x20 && s[i] < 0x7F && s[i] != '#' && strchr("\"<>", s[i]) == NULL);
        if (s[i] == '?' && path == n)
            path = i;
    }
    assert(path + 1 != n);
    for (size_t i = 0; i < path;) {
        size_t segment = ++i;
        while (i < path && s[i] != '/')
            i++;
        assert(memchr(s + segment, '\\', i - segment) == NULL);
        assert(!is_dots(s + segment, i - segment));
    }
}

static void check_forwarded(const char *s, size_t n)
{
    struct buf once, twice;
    buf_init(&once, ROOM);
    buf_init(&twice, ROOM);
    assert(target_forwarded(&once, s, n));
    check_normal(&once);
    assert(target_forwarded(&twice, buf_chars(&once), buf_len(&once)));
    assert(equal(&once, &twice));
    buf_free(&once);
    buf_free(&twice);
}

static void check_forms(const char *s, size_t n)
{
    struct target_forms f, again;
    const struct buf *chosen;
    target_forms_init(&f, ROOM);
    target_forms_init(&again, ROOM);
    if (target_forms_parse(&f, s, n, "GET", 3)) {
        check_normal(&f.normalized);
        assert(buf_len(&f.normalized) < 2 || buf_chars(&f.normalized)[1] != '/');
        /* Each form is a target itself; the normalized one has nothing left to normalise. */
        assert(target_forms_parse(&again, buf_chars(&f.spelled), buf_len(&f.spelled), "GET", 3));
        assert(again.ambiguous == f.ambiguous && equal(&again.normalized, &f.normalized));
        assert(
            target_forms_parse(&again, buf_chars(&f.normalized), buf_len(&f.normalized), "GET", 3));
        assert(!again.ambiguous && equal(&again.normalized, &f.normalized));
        assert(equal(&again.spelled, &f.normalized));
        assert((target_choose(&f, TARGET_REFUSE, &chosen) == TARGET_AMBIGUOUS) == f.ambiguous);
    } else {
        assert(target_choose(&f, TARGET_REFUSE, &chosen) == TARGET_MALFORMED);
    }
    target_forms_free(&f);
    target_forms_free(&again);
}

static void check_exact(const char *s, size_t n, bool absolute)
{
    struct buf once, twice;
    buf_init(&once, ROOM);
    buf_init(&twice, ROOM);
    if (target_exact(&once, s, n, absolute)) {
        assert(target_exact(&twice, buf_chars(&once), buf_len(&once), false));
        assert(equal(&once, &twice));
    }
    buf_free(&once);
    buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = (const char *)data;
    check_forwarded(s, size);
    check_forms(s, size);
    check_exact(s, size, false);
    check_exact(s, size, true);
    return 0;
}
