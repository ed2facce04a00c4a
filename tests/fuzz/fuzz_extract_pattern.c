/* A pattern, a zero byte, a text: what is found lies in the text and each group is in order. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/credentials/extract_pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void search(const struct extract_pattern *p, const uint8_t *text, uint32_t n)
{
    unsigned groups = extract_pattern_groups(p);
    uint16_t *units = mem_array(n, sizeof *units);
    uint32_t *slots = mem_array(2 * ((size_t)groups + 1), sizeof *slots);
    for (uint32_t i = 0; i < n; i++)
        units[i] = text[i];

    uint32_t from = n > 3 ? 1 : 0;
    if (extract_pattern_find(p, units, n, from, slots) == EXTRACT_MATCH) {
        assert(slots[0] >= from && slots[0] <= slots[1] && slots[1] <= n);
        for (unsigned g = 1; g <= groups; g++) {
            assert((slots[2 * g] == EXTRACT_UNSET) == (slots[2 * g + 1] == EXTRACT_UNSET));
            assert(slots[2 * g] == EXTRACT_UNSET ||
                   (slots[2 * g] <= slots[2 * g + 1] && slots[2 * g + 1] <= n));
        }
    }
    free(units);
    free(slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf error;
    const uint8_t *zero = size != 0 ? memchr(data, 0, size) : NULL;
    size_t n = zero != NULL ? (size_t)(zero - data) : size;
    size_t rest = zero != NULL ? size - n - 1 : 0;

    buf_init(&error, 1000);
    struct extract_pattern *p = extract_pattern_compile((const char *)data, n, &error);
    assert((p == NULL) == (buf_len(&error) != 0));
    /* What PCRE2 objects to is a size. */
    assert(strcmp(buf_cstr(&error), "Regular expression not supported") != 0);
    /* A short text keeps the search within its bounds, and the fuzzer quick. */
    if (p != NULL)
        search(p, zero != NULL ? zero + 1 : data, (uint32_t)(rest < 16 ? rest : 16));
    extract_pattern_free(p);
    buf_free(&error);
    return 0;
}
