/* Orders for the box: what is taken lies within what came, and encodes to the same again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "launcher/mounts.h"
#include "launcher/orders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_string(const uint8_t *data, size_t size, const char *s)
{
    const uint8_t *p = (const uint8_t *)s;

    assert(p >= data && p < data + size);
    assert(memchr(p, 0, (size_t)(data + size - p)) != NULL);
}

static void check_list(const uint8_t *data, size_t size, const char *const *list)
{
    for (; *list != NULL; list++)
        check_string(data, size, *list);
}

static void check(const uint8_t *data, size_t size, const struct orders *o)
{
    check_string(data, size, o->program);
    check_string(data, size, o->directory);
    check_string(data, size, o->fallback);
    assert(o->argv[0] != NULL && o->program[0] == '/');
    check_list(data, size, o->argv);
    check_list(data, size, o->envp);
    for (size_t i = 0; i < o->mount_count; i++) {
        check_string(data, size, o->mounts[i].source);
        check_string(data, size, o->mounts[i].place);
        assert(o->mounts[i].kind >= MOUNT_READ_ONLY && o->mounts[i].kind <= MOUNT_PIN_LINK);
        assert(o->mounts[i].place[0] == '/');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct orders o;
    void *arena;

    if (orders_decode(data, size, &o, &arena)) {
        struct buf again;
        check(data, size, &o);
        buf_init(&again, ORDERS_MAX);
        orders_encode(&o, &again);
        assert(buf_len(&again) == size && memcmp(buf_data(&again), data, size) == 0);
        buf_free(&again);
    } else {
        assert(arena == NULL && o.argv == NULL && o.mounts == NULL);
    }
    free(arena);
    return 0;
}
