/* The plan in print. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <cmocka.h>

#include "launcher/plan.h"
#include "seccomp/filters.h"

static char *const inherited[] = {(char *)"HOME=/h", (char *)"SECRET=mine", (char *)"OLD=1", NULL};
static char *environment[] = {(char *)"HOME=/h", (char *)"OLD=2",
                              (char *)"HTTP_PROXY=http://srt.x:abc123@localhost:3128",
                              (char *)"TWICE=abc123 abc123", NULL};

static struct plan example(void)
{
    static struct mount list[] = {
        {MOUNT_WRITABLE, REASON_ALLOW_WRITE, (char *)"/w", (char *)"/w"},
        {MOUNT_READ_ONLY, REASON_ALLOW_READ, (char *)"/from", (char *)"/o/lnk"},
        {MOUNT_HIDE_FILE, REASON_DENY_READ, NULL, (char *)"/s\n1"},
    };
    static struct standin standins[] = {{(char *)"/w/.bashrc", false, false}};
    static char *warnings[] = {(char *)"an entry has no effect"};
    return (struct plan){
        .mounts = {.list = list,
                   .count = 3,
                   .standins = standins,
                   .standin_count = 1,
                   .warnings = {.list = warnings, .count = 1}},
        .environment = environment,
        .shell = (char *)"/bin/bash",
        .command = "echo hi",
        .directory = (char *)"/w",
        .filters = FILTER_TERMINAL | FILTER_SOCKETS,
    };
}

static char *printed(bool json)
{
    const struct plan plan = example();
    struct buf out;
    buf_init(&out, 1 << 20);
    plan_print(&plan, inherited, "abc123", json, &out);
    char *text = strdup(buf_cstr(&out));
    buf_free(&out);
    return text;
}

static const char *member(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void test_json(void **state)
{
    (void)state;
    char *text = printed(true);
    json_t *plan = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(plan);

    const json_t *mounts = json_object_get(plan, "mounts");
    assert_int_equal(json_array_size(mounts), 4);
    assert_string_equal(member(json_array_get(mounts, 0), "kind"), "read-only");
    assert_string_equal(member(json_array_get(mounts, 0), "place"), "/");
    assert_string_equal(member(json_array_get(mounts, 1), "kind"), "writable");
    assert_string_equal(member(json_array_get(mounts, 2), "source"), "/from");
    assert_string_equal(member(json_array_get(mounts, 3), "place"), "/s\n1");
    assert_null(member(json_array_get(mounts, 3), "source"));
    assert_string_equal(member(json_array_get(json_object_get(plan, "standIns"), 0), "kind"),
                        "socket");

    const json_t *changed = json_object_get(plan, "environment");
    const json_t *set = json_object_get(changed, "set");
    assert_int_equal(json_object_size(set), 3);
    assert_string_equal(member(set, "HTTP_PROXY"), "http://srt.x:TOKEN@localhost:3128");
    assert_string_equal(member(set, "TWICE"), "TOKEN TOKEN");
    assert_string_equal(member(set, "OLD"), "2");
    const json_t *removed = json_object_get(changed, "removed");
    assert_int_equal(json_array_size(removed), 1);
    assert_string_equal(json_string_value(json_array_get(removed, 0)), "SECRET");
    assert_int_equal(json_array_size(json_object_get(plan, "filters")), 2);
    assert_int_equal(json_array_size(json_object_get(plan, "argv")), 4);
    assert_int_equal(json_array_size(json_object_get(plan, "warnings")), 1);
    json_decref(plan);
    free(text);
}

static void test_text(void **state)
{
    (void)state;
    char *text = printed(false);
    static const char *const lines[] = {
        "runs        /bin/bash -c -- echo hi\n",
        "filters     terminal sockets\n",
        "  read-only        /\n",
        "  writable         /w  (filesystem.allowWrite)\n",
        "  read-only        /o/lnk from /from  (filesystem.allowRead)\n",
        "  hidden-file      \"/s\\n1\"  (filesystem.denyRead)\n",
        "  socket           /w/.bashrc\n",
        "  HTTP_PROXY=http://srt.x:TOKEN@localhost:3128\n",
        "  (without SECRET)\n",
        "warning     an entry has no effect\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("\"%s\" is not in:\n%s", lines[i], text);
    assert_null(strstr(text, "HOME=/h"));
    assert_null(strstr(text, "mine"));
    assert_null(strstr(text, "abc123"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
