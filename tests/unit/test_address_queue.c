#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "proxy/net/address_queue.h"

static bool add(struct address_queue *q, const char *text, uint32_t scope)
{
    struct address a;

    assert_true(address_parse(text, strlen(text), false, &a));
    a.scope = scope;
    return address_queue_add(q, &a);
}

/* Everything that is left, joined by spaces. */
static const char *drain(struct address_queue *q)
{
    static char out[512];
    struct address a;
    size_t n = 0;

    out[0] = '\0';
    while (address_queue_take(q, &a)) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&a, text);
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", n > 0 ? " " : "", text);
    }
    return out;
}

static void test_families_alternate(void **state)
{
    static const struct {
        const char *in[8], *out;
    } cases[] = {
        {{NULL}, ""},
        {{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "10.0.0.1 10.0.0.2 10.0.0.3"},
        {{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2", "fd00::3"},
         "10.0.0.1 fd00::1 10.0.0.2 fd00::2 fd00::3"},
        {{"fd00::1", "fd00::2", "10.0.0.1", "10.0.0.2"}, "fd00::1 10.0.0.1 fd00::2 10.0.0.2"},
        {{"fd00::1", "10.0.0.1", "fd00::1", "10.0.0.1", "::ffff:10.0.0.1"}, "fd00::1 10.0.0.1"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct address_queue q = {.count = 0};
        for (size_t k = 0; k < 8 && cases[i].in[k] != NULL; k++)
            add(&q, cases[i].in[k], 0);
        assert_string_equal(drain(&q), cases[i].out);
        address_queue_free(&q);
    }
}

static void test_late_addresses_join(void **state)
{
    struct address_queue q = {.count = 0};
    struct address a;
    (void)state;

    assert_false(address_queue_take(&q, &a));
    add(&q, "10.0.0.1", 0);
    add(&q, "10.0.0.2", 0);
    assert_true(address_queue_take(&q, &a));
    assert_true(add(&q, "fd00::1", 0));
    assert_false(add(&q, "10.0.0.1", 0)); /* taken already, and not again */
    assert_true(address_queue_has(&q, 6));
    assert_string_equal(drain(&q), "fd00::1 10.0.0.2");
    assert_false(address_queue_has(&q, 6));
    assert_false(address_queue_has(&q, 4));
    address_queue_free(&q);
}

static void test_a_given_family_first(void **state)
{
    struct address_queue q = {.count = 0};
    (void)state;

    add(&q, "10.0.0.1", 0);
    add(&q, "fd00::1", 0);
    q.turn = 6;
    assert_string_equal(drain(&q), "fd00::1 10.0.0.1");
    address_queue_free(&q);
}

static void test_zones_differ(void **state)
{
    struct address_queue q = {.count = 0};
    (void)state;

    assert_true(add(&q, "fe80::1", 1));
    assert_true(add(&q, "fe80::1", 2));
    assert_false(add(&q, "fe80::1", 2));
    address_queue_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_alternate),
        cmocka_unit_test(test_late_addresses_join),
        cmocka_unit_test(test_a_given_family_first),
        cmocka_unit_test(test_zones_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
