/* What is said of a destination that is more than it seems. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/ask_hint.h"

static void test_hints(void **state)
{
    static const struct {
        const char *host, *part; /* NULL: no hint */
    } rows[] = {
        {"127.0.0.1", "this machine"},
        {"127.1.2.3", "this machine"},
        {"0.0.0.0", "this machine"},
        {"::1", "this machine"},
        {"::", "this machine"},
        {"::ffff:127.0.0.1", "this machine"},
        {"localhost", "this machine"},
        {"db.localhost", "this machine"},
        {"169.254.169.254", "a link-local address"},
        {"169.254.0.1", "a link-local address"},
        {"::ffff:169.254.169.254", "a link-local address"},
        {"fe80::1", "a link-local address"},
        {"fd00:ec2::254", "credentials"},
        {"metadata.google.internal", "credentials"},
        {"169.255.0.1", NULL},
        {"192.0.2.1", NULL}, /* for documents: nobody's */
        {"2001:db8::1", NULL},
        {"224.0.0.1", NULL},
        {"ff02::1", NULL},
        {"255.255.255.255", NULL},
        {"localhost.example.org", NULL},
        {"notlocalhost", NULL},
        {"example.org", NULL},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *hint = ask_hint(rows[i].host);
        if ((hint != NULL) != (rows[i].part != NULL) ||
            (hint != NULL && strstr(hint, rows[i].part) == NULL))
            fail_msg("%s: %s", rows[i].host, hint != NULL ? hint : "no hint");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
