/* Idle connections: given out only while they would still be dialled. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/egress/pool.h"

enum { IDLE_MS = 60000, MOST = 8 };

static struct ev_loop *loop;
static struct interfaces *interfaces;
static struct pool *pool;
static struct host host;

static int set_up(void **state)
{
    (void)state;
    loop = ev_loop_new(EVFLAG_AUTO);
    interfaces = interfaces_new(loop);
    pool = pool_new(loop, interfaces);
    return host_canonicalise("ok.test", 7, &host) == HOST_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pool_free(pool);
    interfaces_free(interfaces);
    ev_loop_destroy(loop);
    return 0;
}

static struct policy *policy(const char *denied_range)
{
    struct policy *p = policy_new();
    struct address_range range;

    policy_allow(p, "ok.test");
    if (denied_range != NULL) {
        assert_true(address_range_parse(denied_range, strlen(denied_range), &range));
        policy_deny_range(p, &range);
    }
    policy_seal(p);
    return p;
}

static const struct pool_key key = {.host = &host, .port = 80};

/* An idle connection that reaches `address` (NULL: through a parent); the server's end. */
static int put(const char *address)
{
    struct pool_connection c = {.uses = 1};
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    c.stream = stream_plain(loop, ends[0]);
    if (address != NULL)
        assert_true(address_parse(address, strlen(address), false, &c.address));
    pool_put(pool, &key, &c, IDLE_MS, MOST);
    return ends[1];
}

static bool take(const struct policy *p)
{
    struct pool_connection c;

    if (!pool_take(pool, &key, p, 1, false, &c))
        return false;
    stream_close(&c.stream);
    return true;
}

static bool is_closed(int server)
{
    char byte;
    return read(server, &byte, 1) == 0;
}

static void test_given_out_while_allowed(void **state)
{
    struct policy *p = policy(NULL);

    (void)state;
    int server = put("192.0.2.1");
    assert_true(take(p));
    assert_false(take(p));
    close(server);
    policy_free(p);
}

/* A new policy refuses the address that an old one let through. */
static void test_not_to_an_address_that_is_refused_now(void **state)
{
    struct policy *strict = policy("192.0.2.0/24");

    (void)state;
    int refused = put("192.0.2.1");
    assert_false(take(strict));
    assert_true(is_closed(refused));
    close(refused);

    int fine = put("198.51.100.1");
    int mapped = put("::ffff:192.0.2.7");
    assert_true(take(strict)); /* past the newer one */
    assert_true(is_closed(mapped));
    assert_false(take(strict));
    close(mapped);
    close(fine);
    policy_free(strict);
}

/* Behind a parent proxy the address is the parent's affair. */
static void test_behind_a_parent_nothing_is_judged(void **state)
{
    struct policy *strict = policy("192.0.2.0/24");

    (void)state;
    int server = put(NULL);
    assert_true(take(strict));
    close(server);
    policy_free(strict);
}

static void test_not_when_the_server_spoke_or_went(void **state)
{
    struct policy *p = policy(NULL);

    (void)state;
    int server = put("192.0.2.1");
    assert_int_equal(write(server, "x", 1), 1);
    assert_false(take(p));
    close(server);
    close(put("192.0.2.1"));
    assert_false(take(p));
    policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_given_out_while_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_to_an_address_that_is_refused_now, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_behind_a_parent_nothing_is_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_when_the_server_spoke_or_went, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
