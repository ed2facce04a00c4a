#include "launcher/orders.h"

#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/mounts.h"

/*
 * The layout, in the byte order of the machine that both ends run on: struct
 * header; the two programs, each padded to eight bytes; then every string as a
 * length, its bytes and a NUL: program, directory, fallback, argv, envp, and
 * for each mount its kind (32 bits), source and place. Nothing follows.
 */
struct header {
    uint32_t magic;
    uint32_t flags;
    uint64_t ignored_signals;
    int32_t null_fd;
    uint32_t argc, envc, mounts;
    uint32_t filter_len, observe_len;
};

enum {
    MAGIC = 0x31545253, /* "SRT1" */
    KNOWN_FLAGS = (ORDER_TERMINAL << 1) - 1,
    PROGRAM_MAX = BPF_MAXINSNS * (int)sizeof(struct sock_filter),
    STRING_MIN = sizeof(uint32_t) + 1
};

static size_t padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static const char *text(const char *s)
{
    return s != NULL ? s : "";
}

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

static size_t string_size(const char *s)
{
    return sizeof(uint32_t) + strlen(text(s)) + 1;
}

static size_t list_size(const char *const *list, size_t n)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        total += string_size(list[i]);
    return total;
}

static void put_string(struct buf *out, const char *s)
{
    size_t n = strlen(text(s));
    uint32_t len = (uint32_t)n;

    buf_append(out, &len, sizeof len);
    buf_append(out, text(s), n + 1);
}

static void put_list(struct buf *out, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_string(out, list[i]);
}

static void put_program(struct buf *out, const void *p, size_t n)
{
    static const uint8_t zeros[8];

    buf_append(out, p, n);
    buf_append(out, zeros, padded(n) - n);
}

void orders_encode(const struct orders *o, struct buf *out)
{
    size_t argc = count(o->argv), envc = count(o->envp);
    size_t total = sizeof(struct header) + padded(o->filter_len) + padded(o->observe_len) +
                   string_size(o->program) + string_size(o->directory) + string_size(o->fallback) +
                   list_size(o->argv, argc) + list_size(o->envp, envc);

    for (size_t i = 0; i < o->mount_count; i++)
        total +=
            sizeof(uint32_t) + string_size(o->mounts[i].source) + string_size(o->mounts[i].place);
    /* Every length and count is below the total, so they fit their fields. */
    if (total > ORDERS_MAX || total > buf_room(out))
        return;
    struct header header = {.magic = MAGIC,
                            .flags = o->flags,
                            .ignored_signals = o->ignored_signals,
                            .null_fd = o->null_fd,
                            .argc = (uint32_t)argc,
                            .envc = (uint32_t)envc,
                            .mounts = (uint32_t)o->mount_count,
                            .filter_len = (uint32_t)o->filter_len,
                            .observe_len = (uint32_t)o->observe_len};
    buf_append(out, &header, sizeof header);
    put_program(out, o->filter, o->filter_len);
    put_program(out, o->observe, o->observe_len);
    put_string(out, o->program);
    put_string(out, o->directory);
    put_string(out, o->fallback);
    put_list(out, o->argv, argc);
    put_list(out, o->envp, envc);
    for (size_t i = 0; i < o->mount_count; i++) {
        uint32_t kind = o->mounts[i].kind;
        buf_append(out, &kind, sizeof kind);
        put_string(out, o->mounts[i].source);
        put_string(out, o->mounts[i].place);
    }
}

/* What is still to be read. */
struct reader {
    const uint8_t *p;
    size_t left;
};

static bool get(struct reader *r, void *to, size_t n)
{
    if (r->left < n)
        return false;
    memcpy(to, r->p, n);
    r->p += n;
    r->left -= n;
    return true;
}

static bool get_string(struct reader *r, const char **s)
{
    uint32_t n;

    if (!get(r, &n, sizeof n) || r->left <= n)
        return false;
    if (memchr(r->p, 0, (size_t)n + 1) != r->p + n)
        return false;
    *s = (const char *)r->p;
    r->p += (size_t)n + 1;
    r->left -= (size_t)n + 1;
    return true;
}

static bool get_list(struct reader *r, const char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!get_string(r, &list[i]))
            return false;
    list[n] = NULL;
    return true;
}

static bool get_program(struct reader *r, size_t n, const void **program)
{
    static const uint8_t zeros[8];

    if (n > PROGRAM_MAX || n % sizeof(struct sock_filter) != 0 || r->left < padded(n) ||
        memcmp(r->p + n, zeros, padded(n) - n) != 0)
        return false;
    *program = n != 0 ? r->p : NULL;
    r->p += padded(n);
    r->left -= padded(n);
    return true;
}

static bool get_mount(struct reader *r, struct order_mount *m)
{
    uint32_t kind;

    if (!get(r, &kind, sizeof kind) || kind < MOUNT_READ_ONLY || kind > MOUNT_PIN_LINK)
        return false;
    m->kind = (uint8_t)kind;
    if (!get_string(r, &m->source) || !get_string(r, &m->place) || m->place[0] != '/')
        return false;
    bool sourced = kind == MOUNT_READ_ONLY || kind == MOUNT_WRITABLE;
    return m->source[0] == '/' || (m->source[0] == 0 && !sourced);
}

static bool valid_header(const struct header *h, size_t left)
{
    if (h->magic != MAGIC || (h->flags & ~(uint32_t)KNOWN_FLAGS) != 0 || h->argc == 0)
        return false;
    if ((h->flags & ORDER_NULL_FD) != 0 && h->null_fd < 3)
        return false;
    if ((h->flags & ORDER_OBSERVE) != 0 && h->observe_len == 0)
        return false;
    /* Bounds what is allocated for them by what came. */
    uint64_t strings = (uint64_t)h->argc + h->envc + 2 * (uint64_t)h->mounts + 3;
    return strings * STRING_MIN <= left;
}

bool orders_decode(const void *p, size_t n, struct orders *o, void **arena)
{
    struct reader r = {.p = p, .left = n};
    struct header h;

    *o = (struct orders){0};
    *arena = NULL;
    if (n > ORDERS_MAX || !get(&r, &h, sizeof h) || !valid_header(&h, r.left))
        return false;
    size_t mounts_size = h.mounts * sizeof(struct order_mount);
    struct order_mount *mounts =
        mem_alloc(mounts_size + ((size_t)h.argc + h.envc + 2) * sizeof(char *));
    const char **argv = (const char **)(void *)(mounts + h.mounts);
    const char **envp = argv + h.argc + 1;
    bool ok = get_program(&r, h.filter_len, &o->filter) &&
              get_program(&r, h.observe_len, &o->observe) && get_string(&r, &o->program) &&
              get_string(&r, &o->directory) && get_string(&r, &o->fallback) &&
              get_list(&r, argv, h.argc) && get_list(&r, envp, h.envc) && o->program[0] == '/';
    for (size_t i = 0; ok && i < h.mounts; i++)
        ok = get_mount(&r, &mounts[i]);
    if (!ok || r.left != 0) {
        free(mounts);
        *o = (struct orders){0};
        return false;
    }
    o->flags = h.flags;
    o->null_fd = h.null_fd;
    o->ignored_signals = h.ignored_signals;
    o->argv = argv;
    o->envp = envp;
    o->mounts = mounts;
    o->mount_count = h.mounts;
    o->filter_len = h.filter_len;
    o->observe_len = h.observe_len;
    *arena = mounts;
    return true;
}
