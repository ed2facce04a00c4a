/* What is said of a decider's message that is refused: the field at fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "decider/message.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define LISTS "\"allowedDomains\":[],\"deniedDomains\":[]"
#define VERDICT "{\"t\":\"verdict\",\"id\":7,\"action\":"

static void what_is_wrong_is_named(void **state)
{
    static const struct {
        const char *text, *why;
    } hellos[] =
        {
            {"{\"t\":\"hi\",\"proto\":1," LISTS "}", "bad hello: t"},
            {"{\"t\":\"hello\",\"proto\":2," LISTS "}", "bad hello: proto"},
            {"{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"\"],\"deniedDomains\":[]}",
             "bad hello: allowedDomains"},
            {"{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[]}", "bad hello: deniedDomains"},
        },
      verdicts[] = {
          {"{\"t\":\"req\",\"id\":7,\"action\":\"allow\"}", "bad verdict frame: t"},
          {"{\"t\":\"verdict\",\"id\":0,\"action\":\"allow\"}", "bad verdict frame: id"},
          {VERDICT "\"alow\"}", "bad verdict frame: action"},
          {VERDICT "\"allow\",\"x\":1}", "bad verdict frame: a field that verdicts do not have"},
          {VERDICT "\"allow\",\"max\":1}", "bad verdict frame: allow with status, reason or max"},
          {VERDICT "\"allow\",\"ttl\":1}", "bad verdict frame: ttl"},
          {VERDICT "\"allow\",\"setHeaders\":{\"A\":[]}}", "bad verdict frame: setHeaders"},
          {VERDICT "\"allow\",\"removeHeaders\":[]}", "bad verdict frame: removeHeaders"},
          {VERDICT "\"allow\",\"cred\":1}", "bad verdict frame: cred"},
          {VERDICT "\"allow\",\"cred\":\"c\",\"credential\":\"a b\"}",
           "bad verdict frame: credential"},
          {VERDICT "\"allow\",\"cred\":\"c\"}",
           "bad verdict frame: cred and credential come together"},
          {VERDICT "\"deny\"}", "bad verdict frame: status"},
          {VERDICT "\"deny\",\"status\":403,\"reason\":1}", "bad verdict frame: reason"},
          {VERDICT "\"deny\",\"status\":403,\"max\":1}",
           "bad verdict frame: deny with fields of another action"},
          {VERDICT "\"need_body\"}", "bad verdict frame: max"},
          {VERDICT "\"need_body\",\"max\":1,\"status\":403}",
           "bad verdict frame: need_body with fields of another action"},
      };
    (void)state;
    const char *why;
    for (size_t i = 0; i < COUNT(hellos); i++) {
        struct hello h;
        assert_false(
            hello_read(&h, 1, (const uint8_t *)hellos[i].text, strlen(hellos[i].text), &why));
        assert_string_equal(why, hellos[i].why);
    }
    for (size_t i = 0; i < COUNT(verdicts); i++) {
        struct verdict_message m;
        assert_false(
            verdict_read(&m, 1, (const uint8_t *)verdicts[i].text, strlen(verdicts[i].text), &why));
        assert_string_equal(why, verdicts[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
