/* A DNS message from a hostile server. The first byte chooses the type asked for. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/net/dns_answer.h"

enum { MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address found[MAX], again[MAX];
    size_t count = 99, count_again = 99;

    if (size == 0)
        return 0;
    unsigned type = data[0] % 2 == 0 ? DNS_TYPE_A : DNS_TYPE_AAAA;
    enum dns_status status =
        dns_answer_read(data + 1, size - 1, "ok.test", type, found, MAX, &count);
    assert(count <= MAX);
    assert((status == DNS_ADDRESSES) == (count > 0));
    for (size_t i = 0; i < count; i++)
        assert(found[i].family == 4 || (found[i].family == 6 && type == DNS_TYPE_AAAA));
    /* With less room the same addresses come first, and the name's case does not matter. */
    if (count > 1) {
        dns_answer_read(data + 1, size - 1, "OK.TEST", type, again, count - 1, &count_again);
        assert(count_again == count - 1);
        for (size_t i = 0; i < count_again; i++)
            assert(address_equal(&found[i], &again[i]));
    }
    return 0;
}
