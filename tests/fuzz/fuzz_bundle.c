/*
 * The filter of what goes into the trust bundle: certificates and nothing else,
 * each once; what came out once comes out again from what it made.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <openssl/err.h>

#include "certs/certificate_set.h"
#include "certs/pem.h"

enum { INPUT_MAX = 1 << 20, OUTPUT_MAX = 1 << 22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the number of blocks, all of which are certificates with nothing between them. */
static size_t check_blocks(const struct buf *out)
{
    struct pem_block block;
    struct pem pem;
    size_t count = 0;
    struct buf again;

    buf_init(&again, OUTPUT_MAX);
    pem_start(&pem, buf_data(out), buf_len(out));
    while (pem_next(&pem, &block)) {
        assert(pem_is(&block, "CERTIFICATE"));
        X509 *x = pem_certificate(&block);
        assert(x != NULL);
        X509_free(x);
        struct buf der;
        buf_init(&der, OUTPUT_MAX);
        assert(pem_decode(&block, &der) &&
               pem_append(&again, "CERTIFICATE", buf_data(&der), buf_len(&der)));
        buf_free(&der);
        count++;
    }
    assert(buf_len(&again) == buf_len(out));
    assert(buf_len(out) == 0 || memcmp(buf_data(&again), buf_data(out), buf_len(out)) == 0);
    buf_free(&again);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf out;
    struct buf again;

    if (size > INPUT_MAX)
        return 0;
    buf_init(&out, OUTPUT_MAX);
    buf_init(&again, OUTPUT_MAX);
    struct certificate_set *set = certificate_set_new();
    size_t found = certificate_set_add_pem(set, data, size, &out);
    assert(buf_len(&out) == 0 ||
           memmem(buf_data(&out), buf_len(&out), "PRIVATE KEY", strlen("PRIVATE KEY")) == NULL);
    size_t blocks = check_blocks(&out);
    assert(blocks <= found && (blocks == 0) == (found == 0));
    assert(certificate_set_add_pem(set, data, size, &again) == found && buf_len(&again) == 0);
    certificate_set_free(set);

    set = certificate_set_new();
    assert(certificate_set_add_pem(set, buf_data(&out), buf_len(&out), &again) == blocks);
    assert(buf_len(&again) == buf_len(&out));
    assert(buf_len(&out) == 0 || memcmp(buf_data(&again), buf_data(&out), buf_len(&out)) == 0);
    certificate_set_free(set);
    assert(ERR_peek_error() == 0);
    buf_free(&out);
    buf_free(&again);
    return 0;
}
