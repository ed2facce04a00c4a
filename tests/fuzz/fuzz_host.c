/* A canonical host is valid, its own canonical form, and an address exactly when it says so. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proxy/policy/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_canonical(const struct host *h)
{
    struct host again;
    struct address a;

    assert(host_valid(h->text, h->len));
    assert(host_canonicalise(h->text, h->len, &again) == HOST_OK);
    assert(again.len == h->len && memcmp(again.text, h->text, h->len) == 0);
    assert(again.is_address == h->is_address);
    assert(address_parse(h->text, h->len, false, &a) == h->is_address);
    if (h->is_address)
        assert(address_equal(&a, &h->address) && address_equal(&a, &again.address));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct host h;
    const char *s = (const char *)data;
    enum host_result result = host_canonicalise(s, size, &h);

    assert(host_valid(s, size) == (result != HOST_INVALID));
    assert(h.len <= HOST_MAX && h.text[h.len] == 0);
    for (size_t i = 0; i < h.len; i++)
        assert(h.text[i] > 0x20 && h.text[i] < 0x7F && !(h.text[i] >= 'A' && h.text[i] <= 'Z'));
    if (result == HOST_OK)
        check_canonical(&h);
    else
        assert(!h.is_address);
    if (result == HOST_INVALID || result == HOST_NO_CANONICAL)
        assert(h.len == 0);
    return 0;
}
