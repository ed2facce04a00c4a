/* ClientHellos: names are clean, and what has been judged whole stays what it was. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/tls/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const struct client_hello *h)
{
    if (h->state != HELLO_NAME) {
        assert(h->name_len == 0 && h->name[0] == '\0');
        return;
    }
    assert(h->name_len != 0 && h->name_len <= HELLO_NAME_MAX);
    assert(strlen(h->name) == h->name_len);
    const char *label = h->name;
    for (const char *c = h->name;; c++) {
        if (*c != '.' && *c != '\0') {
            assert((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '-');
            continue;
        }
        assert(c - label >= 1 && c - label <= 63 && *label != '-' && c[-1] != '-');
        label = c + 1;
        if (*c == '\0')
            break;
    }
}

static void read_copy(const uint8_t *data, size_t n, struct client_hello *out)
{
    /* Exactly as large as what is read, so that a byte too many is seen. */
    uint8_t *copy = (uint8_t *)mem_dup_n((const char *)data, n);
    client_hello_read(copy, n, out);
    free(copy);
    check_name(out);
}

static bool same(const struct client_hello *a, const struct client_hello *b)
{
    return a->state == b->state && strcmp(a->name, b->name) == 0 && a->name_len == b->name_len &&
           a->ecdsa == b->ecdsa && a->alpn == b->alpn && a->http11 == b->http11 && a->h2 == b->h2 &&
           a->tls13 == b->tls13;
}

/* The message of a single record, sent in two, must read the same. */
static void check_split(const uint8_t *data, size_t size, const struct client_hello *whole)
{
    size_t n = size - 5, first = size > 9 ? 1 + data[8] % (n - 1) : 1;
    uint8_t *split = mem_alloc(size + 5);
    struct client_hello hello;
    memcpy(split, data, 5 + first);
    memcpy(split + 5 + first, data, 5);
    memcpy(split + 10 + first, data + 5 + first, n - first);
    split[3] = (uint8_t)(first >> 8);
    split[4] = (uint8_t)first;
    split[8 + first] = (uint8_t)((n - first) >> 8);
    split[9 + first] = (uint8_t)(n - first);
    split[6 + first] = 3;
    assert(hello_complete(split, size + 5));
    read_copy(split, size + 5, &hello);
    assert(same(whole, &hello));
    free(split);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct client_hello first, last;
    size_t n = 0;
    read_copy(data, size, &last);
    (void)hello_sniff(data, size);
    while (n < size && !hello_complete(data, n))
        n++;
    if (!hello_complete(data, n))
        return 0;
    read_copy(data, n, &first);
    assert(same(&first, &last));
    size_t step = (size - n) / 64 + 1;
    for (size_t longer = n; longer <= size; longer += step)
        assert(hello_complete(data, longer));
    /* A hello that fills one record and says so. */
    if (n > 9 && n < 2048 && data[0] == 22 && data[5] == 1 &&
        n == 5 + ((size_t)data[3] << 8 | data[4]) &&
        n == 9 + ((size_t)data[6] << 16 | (size_t)data[7] << 8 | data[8]))
        check_split(data, n, &first);
    return 0;
}
