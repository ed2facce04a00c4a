/* Destinations: what is accepted lies in the input, and its canonical writing is accepted again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/http/target.h"

enum { ROOM = 1 << 20 };

/* A CONNECT target written from an accepted destination means that destination. */
static void check_canonical(const struct authority *a)
{
    struct host host, again;
    struct authority b;
    struct buf text;
    if (host_canonicalise(a->host, a->host_len, &host) != HOST_OK)
        return;
    buf_init(&text, ROOM);
    authority_format(&text, &host, a->port, 0);
    assert(authority_parse_connect(buf_chars(&text), buf_len(&text), &b));
    assert(b.port == a->port);
    assert(host_canonicalise(b.host, b.host_len, &again) == HOST_OK);
    assert(strcmp(host.text, again.text) == 0);

    struct host_match match = {.hostname = host.text, .port = a->port, .default_port = 80};
    const char *value = buf_cstr(&text);
    size_t len = buf_len(&text);
    match.host_headers = &value;
    match.host_header_lens = &len;
    match.host_header_count = 1;
    assert(host_mismatch(&match) == NULL);
    buf_free(&text);
}

static void check(const struct authority *a, const char *s, size_t n, bool connect)
{
    struct buf shown;
    assert(a->host >= s && a->host_len != 0 && a->host + a->host_len <= s + n);
    assert(a->port != 0 && a->path <= n);
    if (!a->bracketed)
        assert(memchr(a->host, ':', a->host_len) == NULL);
    buf_init(&shown, ROOM);
    authority_spelling(&shown, a, connect);
    assert(buf_len(&shown) != 0);
    buf_free(&shown);
    check_canonical(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = (const char *)data;
    struct authority a;
    if (size == 0)
        return 0;
    if (authority_parse_connect(s, size, &a))
        check(&a, s, size, true);
    if (authority_parse_absolute(s, size, &a)) {
        check(&a, s, size, false);
        assert(a.path == size || s[a.path] == '/' || s[a.path] == '?' || s[a.path] == '#');
    }
    return 0;
}
