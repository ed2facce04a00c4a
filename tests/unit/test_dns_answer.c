#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proxy/net/dns_answer.h"

/* Header and question for ok.test; COUNT answers follow. */
#define HEAD(flags, count) "\x12\x34" flags "\0\1\0" count "\0\0\0\0"
#define QUESTION(type) "\2ok\4test\0\0" type "\0\1"
#define A(owner, last) owner "\0\1\0\1\0\0\0\0\0\4\12\0\0" last
#define OK_TEST "\xc0\x0c"

static enum dns_status read_a(const char *bytes, size_t n, char *out, size_t size)
{
    struct address found[4];
    size_t count = 99, used = 0;
    /* A copy of exactly that size: reading past it is seen. */
    uint8_t *copy = mem_alloc(n + 1);
    uint8_t *exact = mem_resize(copy, n == 0 ? 1 : n, 1);
    memcpy(exact, bytes, n);
    enum dns_status status = dns_answer_read(exact, n, "OK.test", DNS_TYPE_A, found, 4, &count);

    free(exact);
    assert_int_equal(status == DNS_ADDRESSES, count > 0);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&found[i], text);
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? " " : "", text);
    }
    return status;
}

#define CASE(status, text, bytes)              \
    {                                          \
        status, text, bytes, sizeof(bytes) - 1 \
    }

static void test_messages(void **state)
{
    static const struct {
        enum dns_status status;
        const char *text, *bytes;
        size_t n;
    } cases[] = {
        CASE(DNS_FAILED, "", ""),
        CASE(DNS_FAILED, "", "\x12\x34\x81\x80\0\1\0\1\0\0\0"),
        CASE(DNS_FAILED, "", HEAD("\x01\x00", "\1") QUESTION("\1") A(OK_TEST, "\1")),
        CASE(DNS_ADDRESSES, "10.0.0.1", HEAD("\x81\x80", "\1") QUESTION("\1") A(OK_TEST, "\1")),
        CASE(DNS_ADDRESSES, "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4",
             HEAD("\x81\x80", "\5") QUESTION("\1") A(OK_TEST, "\1") A(OK_TEST, "\2")
                 A(OK_TEST, "\3") A(OK_TEST, "\4") A(OK_TEST, "\5")),
        CASE(DNS_NO_DATA, "", HEAD("\x81\x80", "\0") QUESTION("\1")),
        CASE(DNS_NO_NAME, "", HEAD("\x81\x83", "\0") QUESTION("\1")),
        CASE(DNS_SERVER_FAILED, "", HEAD("\x81\x82", "\0") QUESTION("\1")),
        CASE(DNS_SERVER_FAILED, "", HEAD("\x81\x84", "\0") QUESTION("\1")),
        CASE(DNS_SERVER_FAILED, "", HEAD("\x81\x85", "\0") QUESTION("\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x81", "\0") QUESTION("\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x8f", "\0") QUESTION("\1")),
        /* Owner spelled out, in other letters; of another name; of another class or type. */
        CASE(DNS_ADDRESSES, "10.0.0.1",
             HEAD("\x81\x80", "\1") QUESTION("\1") A("\2oK\4TeST\0", "\1")),
        CASE(DNS_EMPTY, "", HEAD("\x81\x80", "\1") QUESTION("\1") A("\2no\4test\0", "\1")),
        CASE(DNS_EMPTY, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") OK_TEST "\0\1\0\3\0\0\0\0\0\4\12\0\0\1"),
        CASE(DNS_EMPTY, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") OK_TEST "\0\x10\0\1\0\0\0\0\0\2\1x"),
        /* An alias, and one whose target is not followed by its addresses. */
        CASE(DNS_ADDRESSES, "10.0.0.1",
             HEAD("\x81\x80", "\2") QUESTION("\1") OK_TEST
             "\0\5\0\1\0\0\0\0\0\4\1b\xc0\x0f" A("\1b\xc0\x0f", "\1")),
        CASE(DNS_EMPTY, "",
             HEAD("\x81\x80", "\2") QUESTION("\1") OK_TEST
             "\0\5\0\1\0\0\0\0\0\4\1b\xc0\x0f" A("\1c\xc0\x0f", "\1")),
        CASE(DNS_EMPTY, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") OK_TEST "\0\5\0\1\0\0\0\0\0\2\xc0\x0c"),
        /* An address or an alias of the wrong size. */
        CASE(DNS_FAILED, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") OK_TEST "\0\1\0\1\0\0\0\0\0\3\12\0\0"),
        CASE(DNS_FAILED, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") OK_TEST "\0\5\0\1\0\0\0\0\0\3\xc0\x0c\0"),
        /* Fewer records than promised. */
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\2") QUESTION("\1") A(OK_TEST, "\1")),
        /* Pointers to themselves, forward, past the end; a label past the end; a reserved type. */
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") QUESTION("\1") A("\xc0\x19", "\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") QUESTION("\1") A("\xc0\x20", "\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") QUESTION("\1") A("\xff\xff", "\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") QUESTION("\1") "\77"),
        CASE(DNS_FAILED, "",
             HEAD("\x81\x80", "\1") QUESTION("\1") A("\x41"
                                                     "a",
                                                     "\1")),
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") QUESTION("\1") "\xc0"),
        CASE(DNS_FAILED, "", HEAD("\x81\x80", "\1") "\2ok\4test\0\0\1"),
    };
    char got[128];
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum dns_status status = read_a(cases[i].bytes, cases[i].n, got, sizeof(got));
        if (status != cases[i].status || strcmp(got, cases[i].text) != 0)
            fail_msg("case %zu: got %d \"%s\"", i, (int)status, got);
    }
}

static void test_names_that_cannot_be_asked(void **state)
{
    static const char *const names[] = {".", "a..b", ".a"};
    static const uint8_t answer[] = HEAD("\x81\x80", "\1") QUESTION("\1") A(OK_TEST, "\1");
    struct address found;
    size_t count;
    char label[80];
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(
            dns_answer_read(answer, sizeof(answer) - 1, names[i], DNS_TYPE_A, &found, 1, &count),
            DNS_FAILED);
    memset(label, 'a', sizeof(label));
    label[64] = '\0';
    assert_int_equal(
        dns_answer_read(answer, sizeof(answer) - 1, label, DNS_TYPE_A, &found, 1, &count),
        DNS_FAILED);
}

/* A message made to cost as much as it can: each record's name is a chain of thousands of
 * pointers. It is given up at the first. */
static void test_costly_message(void **state)
{
    enum { SIZE = 65535, POINTERS = 8000 };
    uint8_t *m = mem_alloc(SIZE);
    struct address found;
    size_t count, at = 12;
    unsigned records = 0;
    (void)state;

    m[2] = 0x81;
    m[at++] = 0;
    for (unsigned i = 0; i < POINTERS; i++, at += 2) {
        size_t to = i == 0 ? 12 : at - 2;
        m[at] = (uint8_t)(0xc0 | to >> 8);
        m[at + 1] = (uint8_t)to;
    }
    size_t last = at - 2;
    for (; at + 12 <= SIZE; at += 12, records++) {
        m[at] = (uint8_t)(0xc0 | last >> 8);
        m[at + 1] = (uint8_t)last;
        m[at + 3] = DNS_TYPE_CNAME;
        m[at + 5] = 1;
    }
    m[6] = (uint8_t)(records >> 8);
    m[7] = (uint8_t)records;
    assert_int_equal(dns_answer_read(m, SIZE, "ok.test", DNS_TYPE_A, &found, 1, &count),
                     DNS_FAILED);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_names_that_cannot_be_asked),
        cmocka_unit_test(test_costly_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
