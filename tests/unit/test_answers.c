#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/egress/answers.h"

static struct answers *a;

static int set_up(void **state)
{
    (void)state;
    a = answers_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    answers_free(a);
    return 0;
}

static const struct kept_answer yes = {.allow = true};

static struct answer_key key_of(const char *client, const char *user, const char *host,
                                uint16_t port)
{
    return (struct answer_key){.client = client, .user = user, .host = host, .port = port};
}

static void test_the_same_client_host_and_port(void **state)
{
    const struct answer_key key = key_of("192.0.2.1", NULL, "a.test", 443);
    const struct answer_key others[] = {
        key_of("192.0.2.2", NULL, "a.test", 443), key_of("192.0.2.1", "u", "a.test", 443),
        key_of("192.0.2.1", NULL, "b.test", 443), key_of("192.0.2.1", NULL, "a.test", 80),
        key_of("local", NULL, "a.test", 443),
    };
    (void)state;
    assert_null(answers_find(a, &key, 0));
    answers_put(a, &key, &yes, 100);
    assert_true(answers_find(a, &key, 99)->allow);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_null(answers_find(a, &others[i], 99));
}

static void test_an_answer_ends(void **state)
{
    const struct answer_key key = key_of("local", "u", "a.test", 443);
    (void)state;
    answers_put(a, &key, &yes, 100);
    assert_null(answers_find(a, &key, 100));
    assert_null(answers_find(a, &key, 0));
    answers_put(a, &key, &yes, (double)INFINITY);
    assert_non_null(answers_find(a, &key, 1e15));
}

static void test_a_new_answer_replaces_the_old(void **state)
{
    char reason[] = "busy";
    const struct answer_key key = key_of("local", NULL, "a.test", 443);
    const struct kept_answer no = {.status = 429, .reason = reason};
    (void)state;
    answers_put(a, &key, &yes, 100);
    answers_put(a, &key, &no, 200);
    const struct kept_answer *found = answers_find(a, &key, 150);
    assert_false(found->allow);
    assert_int_equal(found->status, 429);
    assert_string_equal(found->reason, "busy");
    assert_ptr_not_equal(found->reason, reason);
    answers_clear(a);
    assert_null(answers_find(a, &key, 0));
}

static void put_host(unsigned i)
{
    char host[32];
    snprintf(host, sizeof host, "h%u.test", i);
    const struct answer_key key = key_of("local", NULL, host, 443);
    answers_put(a, &key, &yes, 100);
}

static bool has_host(unsigned i)
{
    char host[32];
    snprintf(host, sizeof host, "h%u.test", i);
    const struct answer_key key = key_of("local", NULL, host, 443);
    return answers_find(a, &key, 0) != NULL;
}

static void test_the_oldest_goes_when_it_is_full(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ANSWERS_MAX + 3; i++)
        put_host(i);
    for (unsigned i = 0; i < 3; i++)
        assert_false(has_host(i));
    for (unsigned i = 3; i < ANSWERS_MAX + 3; i++)
        assert_true(has_host(i));
    put_host(3); /* the youngest now */
    put_host(0);
    assert_true(has_host(3));
    assert_false(has_host(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_client_host_and_port, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_answer_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_new_answer_replaces_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_oldest_goes_when_it_is_full, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
