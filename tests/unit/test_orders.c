/* Orders for the box: what is encoded comes back, and nothing else is taken. */
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "launcher/mounts.h"
#include "launcher/orders.h"

static const struct sock_filter program[] = {{.code = 0x20, .k = 4}, {.code = 6, .k = 0x7fff0000}};

static const char *const argv[] = {"/bin/bash", "-c", "", NULL};
static const char *const envp[] = {"A=1", "EMPTY=", NULL};
static const struct order_mount mounts[] = {
    {.kind = MOUNT_READ_ONLY, .source = "/a", .place = "/b c\n"},
    {.kind = MOUNT_WRITABLE, .source = "/", .place = "/"},
    {.kind = MOUNT_HIDE_DIRECTORY, .source = NULL, .place = "/d"},
    {.kind = MOUNT_HIDE_FILE, .source = "", .place = "/e"},
    {.kind = MOUNT_PIN_LINK, .source = "/l", .place = "/l"},
};

static struct orders full(void)
{
    return (struct orders){.flags = ORDER_MOUNT | ORDER_NULL_FD | ORDER_OBSERVE | ORDER_KEEP_PROC,
                           .null_fd = 7,
                           .ignored_signals = UINT64_C(1) << 63 | 5,
                           .program = "/bin/bash",
                           .directory = "/work",
                           .fallback = "",
                           .argv = argv,
                           .envp = envp,
                           .mounts = mounts,
                           .mount_count = sizeof mounts / sizeof *mounts,
                           .filter = program,
                           .filter_len = sizeof program,
                           .observe = program,
                           .observe_len = sizeof *program};
}

static struct orders least(void)
{
    return (struct orders){
        .program = "/p", .directory = "/", .fallback = "/", .argv = argv, .envp = NULL};
}

static bool decodes(const void *p, size_t n)
{
    struct orders o;
    void *arena;
    /* A copy of the exact size, so that reading past its end shows. */
    void *copy = mem_alloc(n);

    memcpy(copy, p, n);
    bool ok = orders_decode(copy, n, &o, &arena);
    if (!ok) {
        assert_null(arena);
        assert_null(o.argv);
    }
    free(arena);
    free(copy);
    return ok;
}

static bool accepted(const struct orders *o)
{
    struct buf out;

    buf_init(&out, ORDERS_MAX);
    orders_encode(o, &out);
    assert_true(buf_len(&out) != 0);
    bool ok = decodes(buf_data(&out), buf_len(&out));
    buf_free(&out);
    return ok;
}

static void assert_lists_equal(const char *const *got, const char *const *want)
{
    for (; *want != NULL; got++, want++) {
        assert_non_null(*got);
        assert_string_equal(*got, *want);
    }
    assert_null(*got);
}

static void test_round_trip(void **state)
{
    struct orders in = full(), out;
    struct buf encoded;
    void *arena;

    (void)state;
    buf_init(&encoded, ORDERS_MAX);
    orders_encode(&in, &encoded);
    assert_true(orders_decode(buf_data(&encoded), buf_len(&encoded), &out, &arena));
    assert_int_equal(out.flags, in.flags);
    assert_int_equal(out.null_fd, 7);
    assert_true(out.ignored_signals == in.ignored_signals);
    assert_string_equal(out.program, "/bin/bash");
    assert_string_equal(out.directory, "/work");
    assert_string_equal(out.fallback, "");
    assert_lists_equal(out.argv, argv);
    assert_lists_equal(out.envp, envp);
    assert_int_equal(out.mount_count, in.mount_count);
    for (size_t i = 0; i < in.mount_count; i++) {
        assert_int_equal(out.mounts[i].kind, mounts[i].kind);
        assert_string_equal(out.mounts[i].source, mounts[i].source != NULL ? mounts[i].source : "");
        assert_string_equal(out.mounts[i].place, mounts[i].place);
    }
    assert_int_equal(out.filter_len, sizeof program);
    assert_memory_equal(out.filter, program, sizeof program);
    assert_int_equal(out.observe_len, sizeof *program);
    assert_memory_equal(out.observe, program, sizeof *program);
    free(arena);
    buf_free(&encoded);
}

static void test_nothing_optional(void **state)
{
    struct orders in = least(), out;
    struct buf encoded;
    void *arena;

    (void)state;
    buf_init(&encoded, ORDERS_MAX);
    orders_encode(&in, &encoded);
    assert_true(orders_decode(buf_data(&encoded), buf_len(&encoded), &out, &arena));
    assert_null(out.envp[0]);
    assert_int_equal(out.mount_count, 0);
    assert_null(out.filter);
    assert_null(out.observe);
    free(arena);
    buf_free(&encoded);
}

static void test_every_truncation_is_refused(void **state)
{
    struct orders in = full();
    struct buf encoded;

    (void)state;
    buf_init(&encoded, ORDERS_MAX);
    orders_encode(&in, &encoded);
    for (size_t n = 0; n < buf_len(&encoded); n++)
        assert_false(decodes(buf_data(&encoded), n));
    assert_true(decodes(buf_data(&encoded), buf_len(&encoded)));
    buf_append(&encoded, "", 1);
    assert_false(decodes(buf_data(&encoded), buf_len(&encoded)));
    buf_free(&encoded);
}

/* Lengths and counts are in it: no single byte may lead out of the memory. */
static void test_every_changed_byte_is_survived(void **state)
{
    static const uint8_t values[] = {0, 1, 0x7f, 0xff};
    struct orders in = full();
    struct buf encoded;

    (void)state;
    buf_init(&encoded, ORDERS_MAX);
    orders_encode(&in, &encoded);
    size_t refused = 0;
    for (size_t i = 0; i < buf_len(&encoded); i++) {
        uint8_t was = buf_data(&encoded)[i];
        for (size_t j = 0; j < sizeof values; j++) {
            buf_data(&encoded)[i] = values[j];
            refused += !decodes(buf_data(&encoded), buf_len(&encoded));
        }
        buf_data(&encoded)[i] = was;
    }
    assert_true(refused > buf_len(&encoded));
    buf_free(&encoded);
}

static void test_what_makes_no_sense_is_refused(void **state)
{
    static const char *const none[] = {NULL};
    static const struct order_mount odd[] = {
        {.kind = 0, .source = "/a", .place = "/a"},
        {.kind = MOUNT_PIN_LINK + 1, .source = "/a", .place = "/a"},
        {.kind = MOUNT_READ_ONLY, .source = "", .place = "/a"},
        {.kind = MOUNT_WRITABLE, .source = "a", .place = "/a"},
        {.kind = MOUNT_HIDE_FILE, .source = "x", .place = "/a"},
        {.kind = MOUNT_HIDE_DIRECTORY, .source = "", .place = "a"},
        {.kind = MOUNT_HIDE_DIRECTORY, .source = "", .place = ""},
    };
    struct orders o = full();

    (void)state;
    assert_true(accepted(&o));
    o.flags |= ORDER_TERMINAL << 1;
    assert_false(accepted(&o));
    o = full();
    o.null_fd = 2;
    assert_false(accepted(&o));
    o = full();
    o.observe_len = 0;
    assert_false(accepted(&o));
    o = full();
    o.filter_len = sizeof program - 1;
    assert_false(accepted(&o));
    o = full();
    o.argv = none;
    assert_false(accepted(&o));
    o = full();
    o.program = "bash";
    assert_false(accepted(&o));
    o = full();
    o.mount_count = 1;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        o.mounts = &odd[i];
        assert_false(accepted(&o));
    }
}

static void test_program_is_bounded(void **state)
{
    struct orders o = full();
    struct sock_filter *longest = mem_array(BPF_MAXINSNS + 1, sizeof *longest);

    (void)state;
    o.filter = longest;
    o.filter_len = BPF_MAXINSNS * sizeof *longest;
    assert_true(accepted(&o));
    o.filter_len += sizeof *longest;
    assert_false(accepted(&o));
    free(longest);
}

static void test_what_does_not_fit_is_not_begun(void **state)
{
    struct orders o = full();
    struct buf out;

    (void)state;
    buf_init(&out, ORDERS_MAX);
    orders_encode(&o, &out);
    size_t n = buf_len(&out);
    buf_free(&out);
    buf_init(&out, n - 1);
    orders_encode(&o, &out);
    assert_int_equal(buf_len(&out), 0);
    char *huge = mem_alloc((size_t)ORDERS_MAX + 1);
    memset(huge, 'x', ORDERS_MAX);
    o.directory = huge;
    buf_init(&out, SIZE_MAX);
    orders_encode(&o, &out);
    assert_int_equal(buf_len(&out), 0);
    free(huge);
    buf_free(&out);
}

static double decode_seconds(size_t count)
{
    struct order_mount *many = mem_array(count, sizeof *many);
    struct orders o = least(), decoded;
    struct timespec from, to;
    struct buf out;
    void *arena;

    for (size_t i = 0; i < count; i++)
        many[i] = (struct order_mount){
            .kind = MOUNT_READ_ONLY, .source = "/some/where", .place = "/some/where"};
    o.mounts = many;
    o.mount_count = count;
    buf_init(&out, ORDERS_MAX);
    orders_encode(&o, &out);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    assert_true(orders_decode(buf_data(&out), buf_len(&out), &decoded, &arena));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_int_equal(decoded.mount_count, count);
    free(arena);
    free(many);
    buf_free(&out);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A thousand times as many: quadratic would take minutes. */
static void test_decoding_is_linear(void **state)
{
    (void)state;
    assert_true(decode_seconds(1000) < 1);
    assert_true(decode_seconds(1000000) < 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nothing_optional),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_changed_byte_is_survived),
        cmocka_unit_test(test_what_makes_no_sense_is_refused),
        cmocka_unit_test(test_program_is_bounded),
        cmocka_unit_test(test_what_does_not_fit_is_not_begun),
        cmocka_unit_test(test_decoding_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
