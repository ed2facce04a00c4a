#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proxy/tls/hello.h"
#include "tests/unit/hello_captures.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void put_hex(struct buf *out, const char *hex)
{
    for (; hex[0] != '\0'; hex += 2) {
        uint8_t byte = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
        assert_true(buf_append(out, &byte, 1));
    }
}

static void put_number(struct buf *out, size_t bytes, size_t value)
{
    while (bytes-- != 0) {
        uint8_t byte = (uint8_t)(value >> 8 * bytes);
        assert_true(buf_append(out, &byte, 1));
    }
}

static void put_zeros(struct buf *out, size_t n)
{
    while (n-- != 0)
        put_number(out, 1, 0);
}

static void put_name(struct buf *out, const char *name)
{
    size_t n = strlen(name);
    put_number(out, 2, 0);
    put_number(out, 2, n + 5);
    put_number(out, 2, n + 3);
    put_number(out, 1, 0);
    put_number(out, 2, n);
    buf_puts(out, name);
}

/* A handshake message around extensions, without any record. */
static void put_message(struct buf *out, struct buf *extensions)
{
    size_t body = 34 + 1 + 4 + 2 + (extensions != NULL ? 2 + buf_len(extensions) : 0);
    put_number(out, 1, 1);
    put_number(out, 3, body);
    put_number(out, 2, 0x0303);
    put_zeros(out, 32 + 1);
    put_number(out, 2, 2);
    put_number(out, 2, 0xC02B);
    put_number(out, 2, 0x0100);
    if (extensions == NULL)
        return;
    put_number(out, 2, buf_len(extensions));
    buf_append(out, buf_data(extensions), buf_len(extensions));
}

/* The message in records of at most `size` bytes. */
static void put_records(struct buf *out, const struct buf *message, size_t size)
{
    for (size_t at = 0; at < buf_len(message); at += size) {
        size_t n = buf_len(message) - at < size ? buf_len(message) - at : size;
        put_number(out, 3, 0x160301);
        put_number(out, 2, n);
        buf_append(out, buf_data(message) + at, n);
    }
}

struct bytes {
    struct buf extensions, message, wire;
};

static struct bytes bytes_new(void)
{
    struct bytes b;
    buf_init(&b.extensions, 1 << 17);
    buf_init(&b.message, 1 << 17);
    buf_init(&b.wire, 1 << 18);
    return b;
}

static void bytes_free(struct bytes *b)
{
    buf_free(&b->extensions);
    buf_free(&b->message);
    buf_free(&b->wire);
}

static void read_all(const struct buf *wire, struct client_hello *out)
{
    client_hello_read(buf_data(wire), buf_len(wire), out);
}

/* Complete at its last byte and not before, and then for good. */
static void expect_complete_at_end(struct buf *wire)
{
    size_t n = buf_len(wire);
    for (size_t i = 0; i < n; i++)
        assert_false(hello_complete(buf_data(wire), i));
    assert_true(hello_complete(buf_data(wire), n));
}

static void expect_name(const struct buf *wire, const char *name)
{
    struct client_hello hello;
    read_all(wire, &hello);
    assert_int_equal(hello.state, HELLO_NAME);
    assert_string_equal(hello.name, name);
    assert_int_equal(hello.name_len, strlen(name));
}

static void expect_state(const struct buf *wire, enum hello_name state)
{
    struct client_hello hello;
    read_all(wire, &hello);
    assert_int_equal(hello.state, state);
    assert_string_equal(hello.name, "");
    assert_int_equal(hello.name_len, 0);
}

static void test_three_bytes_tell_tls(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        enum hello_sniff sniff;
    } rows[] = {
        {"", SNIFF_MORE},          {"47", SNIFF_MORE},        {"1603", SNIFF_MORE},
        {"160300", SNIFF_TLS},     {"160301", SNIFF_TLS},     {"160303", SNIFF_TLS},
        {"160304", SNIFF_NOT_TLS}, {"160200", SNIFF_NOT_TLS}, {"150301", SNIFF_NOT_TLS},
        {"474554", SNIFF_NOT_TLS}, {"16030100ff", SNIFF_TLS},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf wire;
        buf_init(&wire, 16);
        put_hex(&wire, rows[i].hex);
        assert_int_equal(hello_sniff(buf_data(&wire), buf_len(&wire)), rows[i].sniff);
        buf_free(&wire);
    }
}

static const struct {
    const char *hex, *name;
    bool ecdsa, alpn, http11, h2, tls13;
} clients[] = {
    {hello_openssl, "api.example.com", .ecdsa = true, .tls13 = true},
    {hello_openssl_tls12, "api.example.com", .ecdsa = true},
    {hello_openssl_tls12_rsa, "api.example.com", .ecdsa = false},
    {hello_openssl_rsa_only, "api.example.com", .ecdsa = false, .tls13 = true},
    {hello_openssl_noname, NULL, .ecdsa = true, .tls13 = true},
    {hello_python, "api.example.com", true, .alpn = true, .http11 = true, .tls13 = true},
    {hello_curl, "api.example.com", true, .alpn = true, .http11 = true, .h2 = true, .tls13 = true},
};

static void expect_client(const struct buf *wire, size_t i)
{
    struct client_hello hello;
    read_all(wire, &hello);
    assert_int_equal(hello.state, clients[i].name != NULL ? HELLO_NAME : HELLO_ABSENT);
    assert_string_equal(hello.name, clients[i].name != NULL ? clients[i].name : "");
    assert_int_equal(hello.ecdsa, clients[i].ecdsa);
    assert_int_equal(hello.alpn, clients[i].alpn);
    assert_int_equal(hello.http11, clients[i].http11);
    assert_int_equal(hello.h2, clients[i].h2);
    assert_int_equal(hello.tls13, clients[i].tls13);
}

static void test_real_clients(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(clients); i++) {
        struct bytes b = bytes_new();
        put_hex(&b.wire, clients[i].hex);
        expect_complete_at_end(&b.wire);
        expect_client(&b.wire, i);
        bytes_free(&b);
    }
}

static void test_real_clients_in_small_records(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 5, 17, 64, 100, 255};
    for (size_t i = 0; i < COUNT(clients); i++) {
        for (size_t k = 0; k < COUNT(sizes); k++) {
            struct bytes b = bytes_new();
            put_hex(&b.message, clients[i].hex);
            buf_consume(&b.message, 5);
            put_records(&b.wire, &b.message, sizes[k]);
            expect_complete_at_end(&b.wire);
            expect_client(&b.wire, i);
            bytes_free(&b);
        }
    }
}

static void put_key_share(struct buf *out, size_t group, size_t n)
{
    put_number(out, 2, 51);
    put_number(out, 2, n + 6);
    put_number(out, 2, n + 4);
    put_number(out, 2, group);
    put_number(out, 2, n);
    put_zeros(out, n);
}

static void test_large_key_shares_before_the_name(void **state)
{
    (void)state;
    static const struct {
        size_t group, bytes;
    } shares[] = {{0x11EC, 1216}, {0x11ED, 1665}, {0x0202, 1568}, {0x1234, 9000}};
    static const size_t sizes[] = {16384, 1460, 512, 100};
    for (size_t i = 0; i < COUNT(shares); i++) {
        for (size_t k = 0; k < COUNT(sizes); k++) {
            struct bytes b = bytes_new();
            put_key_share(&b.extensions, shares[i].group, shares[i].bytes);
            put_name(&b.extensions, "pq.example.com");
            put_message(&b.message, &b.extensions);
            put_records(&b.wire, &b.message, sizes[k]);
            expect_complete_at_end(&b.wire);
            expect_name(&b.wire, "pq.example.com");
            bytes_free(&b);
        }
    }
}

static void test_grease_is_passed_over(void **state)
{
    (void)state;
    struct bytes b = bytes_new();
    struct client_hello hello;
    put_hex(&b.extensions, "0a0a0000"                 /* an extension */
                           "002b0007060a0a03047a7a"   /* supported_versions */
                           "000d000600043a3a0403"     /* signature_algorithms */
                           "00100008000602aaaa026832" /* ALPN with h2 */
                           "fafa000100");
    put_name(&b.extensions, "Grease.Example");
    put_message(&b.message, &b.extensions);
    put_records(&b.wire, &b.message, 16384);
    read_all(&b.wire, &hello);
    assert_string_equal(hello.name, "grease.example");
    assert_true(hello.ecdsa && hello.alpn && hello.h2 && hello.tls13);
    assert_false(hello.http11);
    bytes_free(&b);
}

/* What may follow a hello, or stand where its next record should. */
static void test_what_follows_changes_nothing(void **state)
{
    (void)state;
    static const char *const tails[] = {"", "00", "1603010005", "170303000100", "ffffffffffff"};
    for (size_t i = 0; i < COUNT(tails); i++) {
        struct bytes b = bytes_new();
        put_hex(&b.wire, hello_python);
        put_hex(&b.wire, tails[i]);
        expect_name(&b.wire, "api.example.com");
        assert_true(hello_complete(buf_data(&b.wire), buf_len(&b.wire)));
        bytes_free(&b);
    }
}

static void test_a_broken_chain_of_records_ends_it(void **state)
{
    (void)state;
    static const char *const headers[] = {"1503010002", "1703010002", "1602010002", "1603010000",
                                          "1603014001"};
    for (size_t i = 0; i < COUNT(headers); i++) {
        struct bytes b = bytes_new();
        put_hex(&b.message, hello_openssl);
        /* The first record ends before the name. */
        buf_append(&b.wire, buf_data(&b.message), 100);
        buf_data(&b.wire)[3] = 0;
        buf_data(&b.wire)[4] = 95;
        assert_false(hello_complete(buf_data(&b.wire), buf_len(&b.wire)));
        put_hex(&b.wire, headers[i]);
        assert_true(hello_complete(buf_data(&b.wire), buf_len(&b.wire)));
        expect_state(&b.wire, HELLO_UNREADABLE);
        bytes_free(&b);
    }
}

static void test_what_is_no_client_hello_is_over_at_once(void **state)
{
    (void)state;
    static const char *const rows[] = {"17", "1703010005", "160301000502", "1603010000"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes b = bytes_new();
        put_hex(&b.wire, rows[i]);
        assert_true(hello_complete(buf_data(&b.wire), buf_len(&b.wire)));
        put_hex(&b.wire, "0000000000000000");
        expect_state(&b.wire, HELLO_UNREADABLE);
        bytes_free(&b);
    }
}

static void test_a_name_before_a_cut_counts(void **state)
{
    (void)state;
    struct bytes b = bytes_new();
    struct client_hello hello;
    put_name(&b.extensions, "cut.example.com");
    put_key_share(&b.extensions, 29, 32);
    put_message(&b.message, &b.extensions);
    put_records(&b.wire, &b.message, 60);
    for (size_t n = buf_len(&b.wire) - 30; n < buf_len(&b.wire); n++) {
        client_hello_read(buf_data(&b.wire), n, &hello);
        assert_int_equal(hello.state, HELLO_NAME);
        assert_string_equal(hello.name, "cut.example.com");
        assert_true(hello.ecdsa); /* signature_algorithms may have been to come */
    }
    client_hello_read(buf_data(&b.wire), 70, &hello);
    assert_int_equal(hello.state, HELLO_UNREADABLE);
    bytes_free(&b);
}

static void test_the_bound(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct bytes b = bytes_new();
        struct client_hello hello;
        if (early)
            put_name(&b.extensions, "big.example.com");
        put_key_share(&b.extensions, 29, 20000);
        if (!early)
            put_name(&b.extensions, "big.example.com");
        put_message(&b.message, &b.extensions);
        put_records(&b.wire, &b.message, 4000);
        assert_false(hello_complete(buf_data(&b.wire), HELLO_MAX - 1));
        assert_true(hello_complete(buf_data(&b.wire), HELLO_MAX));
        assert_true(hello_complete(buf_data(&b.wire), buf_len(&b.wire)));
        read_all(&b.wire, &hello);
        assert_int_equal(hello.state, early ? HELLO_NAME : HELLO_UNREADABLE);
        bytes_free(&b);
    }
}

static void test_names(void **state)
{
    (void)state;
    char longest[254], too_long[255], label63[66], label64[67];
    memset(longest, 'a', sizeof longest);
    for (size_t i = 63; i < 253; i += 64)
        longest[i] = '.';
    longest[253] = '\0';
    snprintf(too_long, sizeof too_long, "%sa", longest);
    snprintf(label64, sizeof label64, "%.64s.c",
             "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
             "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
    snprintf(label63, sizeof label63, "%s", label64 + 1);
    const struct {
        const char *name;
        bool ok;
    } rows[] = {
        {"a", true},           {"A.B", true},     {"127.0.0.1", true}, {"x--y.z9", true},
        {longest, true},       {label63, true},   {"xn--a", true},     {"", false},
        {".", false},          {"a.", false},     {".a", false},       {"a..b", false},
        {"-a.b", false},       {"a-.b", false},   {"a.-", false},      {"a_b.c", false},
        {"*.a.b", false},      {"[::1]", false},  {"::1", false},      {"a b", false},
        {"\xc3\xbc.a", false}, {too_long, false}, {label64, false},    {"a/b", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes b = bytes_new();
        put_name(&b.extensions, rows[i].name);
        put_message(&b.message, &b.extensions);
        put_records(&b.wire, &b.message, 16384);
        struct client_hello hello;
        read_all(&b.wire, &hello);
        if (hello.state != (rows[i].ok ? HELLO_NAME : HELLO_UNREADABLE))
            fail_msg("%s", rows[i].name);
        bytes_free(&b);
    }
}

/* A NUL in the name is a byte like any other that no name holds. */
static void test_a_nul_does_not_end_a_name(void **state)
{
    (void)state;
    struct bytes b = bytes_new();
    put_hex(&b.extensions, "0000000c000a00000761626300646566");
    put_message(&b.message, &b.extensions);
    put_records(&b.wire, &b.message, 16384);
    expect_state(&b.wire, HELLO_UNREADABLE);
    bytes_free(&b);
}

static void test_extension_lists(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        enum hello_name state;
    } rows[] = {
        {"", HELLO_ABSENT},
        {"00170000", HELLO_ABSENT},
        {"0000000600040000"
         "0161",
         HELLO_NAME},
        {"0000000600040000"
         "016100",
         HELLO_NAME},             /* a stray byte behind */
        {"00", HELLO_UNREADABLE}, /* and without a name */
        {"0000000600040000"
         "0161"
         "0000000600040000"
         "0162",
         HELLO_UNREADABLE}, /* two */
        {"0000000600040000"
         "0161"
         "00170009",
         HELLO_UNREADABLE}, /* overruns the list */
        {"0000000600040100"
         "0161",
         HELLO_UNREADABLE}, /* entry type 1 */
        {"0000000600050000"
         "0161",
         HELLO_UNREADABLE}, /* list length */
        {"0000000700040000"
         "016100",
         HELLO_UNREADABLE}, /* bytes behind the list */
        {"0000000a00080000"
         "0161"
         "00000162",
         HELLO_UNREADABLE},             /* a second entry */
        {"00000000", HELLO_UNREADABLE}, /* an empty body */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes b = bytes_new();
        struct client_hello hello;
        put_hex(&b.extensions, rows[i].hex);
        put_message(&b.message, &b.extensions);
        put_records(&b.wire, &b.message, 16384);
        read_all(&b.wire, &hello);
        if (hello.state != rows[i].state)
            fail_msg("%s: %d", rows[i].hex, (int)hello.state);
        bytes_free(&b);
    }
}

static void test_no_extension_block(void **state)
{
    (void)state;
    struct bytes b = bytes_new();
    put_message(&b.message, NULL);
    put_records(&b.wire, &b.message, 16384);
    expect_state(&b.wire, HELLO_ABSENT);
    /* The record says that more is to come. */
    buf_data(&b.wire)[4]++;
    expect_state(&b.wire, HELLO_UNREADABLE);
    bytes_free(&b);
}

static void test_who_can_use_an_ecdsa_leaf(void **state)
{
    (void)state;
    static const char tls13[] = "002b0003020304";
    static const struct {
        const char *schemes; /* NULL: no signature_algorithms */
        bool tls13, ecdsa;
    } rows[] = {
        {"0403", false, true},  {"08040403", true, true},   {"0503", false, true},
        {"0503", true, false},  {"08040401", false, false}, {"08040401", true, false},
        {"0203", false, false}, {"0807", true, false},      {NULL, false, false},
        {NULL, true, false},    {"", true, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes b = bytes_new();
        struct client_hello hello;
        if (rows[i].schemes != NULL) {
            size_t n = strlen(rows[i].schemes) / 2;
            put_number(&b.extensions, 2, 13);
            put_number(&b.extensions, 2, n + 2);
            put_number(&b.extensions, 2, n);
            put_hex(&b.extensions, rows[i].schemes);
        }
        if (rows[i].tls13)
            put_hex(&b.extensions, tls13);
        put_message(&b.message, &b.extensions);
        put_records(&b.wire, &b.message, 16384);
        read_all(&b.wire, &hello);
        if (hello.ecdsa != rows[i].ecdsa)
            fail_msg("row %zu", i);
        /* Without an ECDSA suite a client of TLS 1.2 cannot. */
        uint8_t *suite = memmem(buf_data(&b.wire), buf_len(&b.wire), "\xC0\x2B", 2);
        suite[1] = 0x2F;
        read_all(&b.wire, &hello);
        assert_int_equal(hello.ecdsa, rows[i].ecdsa && rows[i].tls13);
        bytes_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_bytes_tell_tls),
        cmocka_unit_test(test_real_clients),
        cmocka_unit_test(test_real_clients_in_small_records),
        cmocka_unit_test(test_large_key_shares_before_the_name),
        cmocka_unit_test(test_grease_is_passed_over),
        cmocka_unit_test(test_what_follows_changes_nothing),
        cmocka_unit_test(test_a_broken_chain_of_records_ends_it),
        cmocka_unit_test(test_what_is_no_client_hello_is_over_at_once),
        cmocka_unit_test(test_a_name_before_a_cut_counts),
        cmocka_unit_test(test_the_bound),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_nul_does_not_end_a_name),
        cmocka_unit_test(test_extension_lists),
        cmocka_unit_test(test_no_extension_block),
        cmocka_unit_test(test_who_can_use_an_ecdsa_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
