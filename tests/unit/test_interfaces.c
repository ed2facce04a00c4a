#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#endif

#include "proxy/net/interfaces.h"

static bool has(struct interfaces *i, const char *text)
{
    struct address a;

    assert_true(address_parse(text, strlen(text), false, &a));
    return address_set_has(interfaces_addresses(i), &a);
}

static void test_all_addresses(void **state)
{
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct interfaces *i = interfaces_new(loop);
    struct ifaddrs *list = NULL;
    size_t count = 0;
    (void)state;

    assert_int_equal(getifaddrs(&list), 0);
    for (const struct ifaddrs *p = list; p != NULL; p = p->ifa_next) {
        struct address a;
        uint16_t port;
        if (p->ifa_addr == NULL || !address_from_sockaddr(p->ifa_addr, &a, &port))
            continue;
        assert_true(address_set_has(interfaces_addresses(i), &a));
        count++;
    }
    freeifaddrs(list);
    assert_true(count > 0);
    assert_false(has(i, "192.0.2.1"));
    interfaces_free(i);
    ev_loop_destroy(loop);
}

#ifdef __linux__

/* Gives the loopback interface its address, without turning the loop. */
static void set_address(const char *text)
{
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&request.ifr_addr;
    struct address a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(address_parse(text, strlen(text), false, &a));
    in->sin_family = AF_INET;
    memcpy(&in->sin_addr, a.bytes, 4);
    assert_int_equal(ioctl(fd, SIOCSIFADDR, &request), 0);
    close(fd);
}

/* In a network namespace of its own; where the system grants none there is nothing to change. */
static void test_changes_are_seen(void **state)
{
    (void)state;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        skip();
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct interfaces *i = interfaces_new(loop);
    assert_false(has(i, "192.0.2.1"));
    set_address("192.0.2.1");
    assert_true(has(i, "192.0.2.1"));
    set_address("192.0.2.2");
    assert_true(has(i, "192.0.2.2"));
    assert_false(has(i, "192.0.2.1"));
    interfaces_free(i);
    ev_loop_destroy(loop);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_addresses),
#ifdef __linux__
        cmocka_unit_test(test_changes_are_seen),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
