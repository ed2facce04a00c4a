#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/policy/placement.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void expect(const struct placements *p, const char *class, const char *host,
                   const char *value)
{
    struct buf out;
    buf_init(&out, 1000);
    assert_true(buf_puts(&out, "x: "));
    assert_true(placements_value(&out, p, class, "s3cret", host));
    assert_string_equal(buf_cstr(&out) + 3, value);
    buf_free(&out);
}

static void the_default_knows_one_case(void **state)
{
    (void)state;
    expect(NULL, "github", "github.com", "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0");
    expect(NULL, "github", "api.github.com", "Bearer s3cret");
    expect(NULL, "gitlab", "github.com", "Bearer s3cret");
    expect(NULL, "GitHub", "github.com", "Bearer s3cret");
}

static void the_first_that_matches_counts(void **state)
{
    static const struct placement list[] = {
        {.class = "a", .host = "one.test", .scheme = PLACEMENT_BASIC, .user = "u"},
        {.class = "a", .scheme = PLACEMENT_BEARER, .user = "never"},
        {.host = "one.test", .scheme = PLACEMENT_BASIC, .user = ""},
        {.class = "c", .scheme = PLACEMENT_BASIC, .user = "later"},
    };
    (void)state;
    struct placements *p = placements_new();
    expect(p, "github", "github.com",
           "Bearer s3cret"); /* a list of one's own replaces the default */
    for (size_t i = 0; i < COUNT(list); i++)
        placements_add(p, &list[i]);
    expect(p, "a", "one.test", "Basic dTpzM2NyZXQ=");
    expect(p, "a", "two.test", "Bearer s3cret");
    expect(p, "b", "one.test", "Basic OnMzY3JldA==");
    expect(p, "c", "one.test", "Basic OnMzY3JldA==");
    expect(p, "c", "two.test", "Basic bGF0ZXI6czNjcmV0");
    expect(p, "b", "two.test", "Bearer s3cret");
    placements_free(p);
    placements_free(NULL);
}

static void a_value_that_does_not_fit_is_not_begun(void **state)
{
    static const struct {
        const char *class;
        size_t length;
    } rows[] = {{"github", 34}, {"other", 13}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t max = 0; max <= rows[i].length; max++) {
            struct buf out;
            buf_init(&out, max);
            assert_int_equal(placements_value(&out, NULL, rows[i].class, "s3cret", "github.com"),
                             max == rows[i].length);
            assert_int_equal(buf_len(&out), max == rows[i].length ? max : 0);
            buf_free(&out);
        }
    }
}

static void what_is_added_is_copied(void **state)
{
    char class[] = "k", host[] = "h.test", user[] = "me";
    (void)state;
    struct placements *p = placements_new();
    placements_add(p, &(struct placement){class, host, PLACEMENT_BASIC, user});
    class[0] = host[0] = user[0] = 'X';
    expect(p, "k", "h.test", "Basic bWU6czNjcmV0");
    placements_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_knows_one_case),
        cmocka_unit_test(the_first_that_matches_counts),
        cmocka_unit_test(a_value_that_does_not_fit_is_not_begun),
        cmocka_unit_test(what_is_added_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
