/* The SSH disconnect: whatever the reason, one well-formed packet of bounded size. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/socks/ssh_refusal.h"

#define BANNER "SSH-2.0-policy_refusal\r\n"

enum { UNITS_MAX = 1000, PACKET_MAX = 3 * UNITS_MAX + 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void check_description(const uint8_t *p, size_t n)
{
    size_t units = 0;

    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = text_utf8_decode(p + i, n - i, &code);
        assert(len != 0);
        assert(code >= 0x20 && (code < 0x7f || code >= 0xa0));
        units += code > 0xffff ? 2 : 1;
        i += len;
    }
    assert(units <= UNITS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *reason = mem_dup_n((const char *)data, size);
    struct buf out;

    buf_init(&out, sizeof BANNER + PACKET_MAX);
    ssh_refusal(&out, reason);
    const uint8_t *p = buf_data(&out) + strlen(BANNER);
    assert(memcmp(buf_data(&out), BANNER, strlen(BANNER)) == 0);
    size_t n = buf_len(&out) - strlen(BANNER);
    assert(n % 8 == 0 && n >= 16 && n <= PACKET_MAX);
    assert(u32(p) == n - 4);
    assert(p[4] >= 4 && p[4] <= 11);
    assert(p[5] == 1 && u32(p + 6) == 1);
    size_t len = u32(p + 10);
    assert(14 + len + 4 + p[4] == n);
    assert(u32(p + 14 + len) == 0);
    check_description(p + 14, len);
    assert(strlen(reason) != 0 || len == 0);
    buf_free(&out);
    free(reason);
    return 0;
}
