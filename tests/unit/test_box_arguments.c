/* What bubblewrap is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "launcher/box.h"

static struct dependencies dependencies;

/* The words with a space after each; the caller frees. */
static char *words_of(const struct box_options *o)
{
    struct buf words, error;
    buf_init(&words, 1 << 20);
    buf_init(&error, 4096);
    assert_true(box_arguments(o, &words, &error));
    assert_int_equal(buf_len(&error), 0);
    char *text = mem_dup_n(buf_chars(&words), buf_len(&words));
    for (size_t i = 0; i < buf_len(&words); i++)
        if (text[i] == '\0')
            text[i] = ' ';
    buf_free(&words);
    buf_free(&error);
    return text;
}

static void assert_words(const struct box_options *o, const char *const *there,
                         const char *const *absent)
{
    char *text = words_of(o);
    for (; *there != NULL; there++)
        if (strstr(text, *there) == NULL)
            fail_msg("\"%s\" is not in: %s", *there, text);
    for (; *absent != NULL; absent++)
        if (strstr(text, *absent) != NULL)
            fail_msg("\"%s\" is in: %s", *absent, text);
    free(text);
}

static void test_srt_inside_mounts(void **state)
{
    (void)state;
    static const char *const there[] = {"--unshare-user ",
                                        "--unshare-net ",
                                        "--unshare-pid ",
                                        "--unshare-ipc ",
                                        "--unshare-uts ",
                                        "--unshare-cgroup-try ",
                                        "--as-pid-1 ",
                                        "--cap-drop ALL ",
                                        "--cap-add CAP_SYS_ADMIN ",
                                        "--bind / / --proc /proc --chdir / ",
                                        NULL};
    static const char *const absent[] = {"--dev ", "--ro-bind", "--tmpfs", NULL};
    assert_words(&(struct box_options){.dependencies = &dependencies}, there, absent);
}

static void test_the_hosts_proc(void **state)
{
    (void)state;
    static const char *const there[] = {"--bind /proc /proc ", NULL};
    static const char *const absent[] = {"--proc ", NULL};
    assert_words(&(struct box_options){.dependencies = &dependencies, .weaker_nested = true}, there,
                 absent);
}

static struct mounts example(void)
{
    static struct mount list[] = {
        {MOUNT_WRITABLE, REASON_ALLOW_WRITE, (char *)"/w", (char *)"/w"},
        {MOUNT_READ_ONLY, REASON_DENY_WRITE, (char *)"/w/a b", (char *)"/w/a b"},
        {MOUNT_HIDE_DIRECTORY, REASON_DENY_READ, NULL, (char *)"/s"},
        {MOUNT_HIDE_FILE, REASON_DENY_READ, NULL, (char *)"/f"},
        {MOUNT_PIN_LINK, REASON_MANDATORY, (char *)"/w/l", (char *)"/w/l"},
    };
    return (struct mounts){.list = list, .count = sizeof list / sizeof list[0]};
}

static void test_bubblewrap_mounts(void **state)
{
    (void)state;
    const struct mounts mounts = example();
    static const char *const there[] = {
        "--ro-bind / / --bind /w /w --ro-bind /w/a b /w/a b --tmpfs /s --ro-bind /dev/null /f ",
        "--ro-bind /sys /sys --dev /dev --proc /proc ", NULL};
    static const char *const absent[] = {"/w/l ", NULL};
    assert_words(&(struct box_options){.dependencies = &dependencies, .mounts = &mounts}, there,
                 absent);
}

static void test_a_setuid_bubblewrap_gives_nothing(void **state)
{
    (void)state;
    const struct mounts mounts = {.root_writable = true};
    static const char *const there[] = {"--cap-drop ALL ", "--bind / / ", NULL};
    static const char *const absent[] = {"--cap-add", NULL};
    dependencies.bwrap_setuid = true;
    assert_words(&(struct box_options){.dependencies = &dependencies, .mounts = &mounts}, there,
                 absent);
    dependencies.bwrap_setuid = false;
}

static void test_too_many(void **state)
{
    (void)state;
    enum { MANY = 3100 };
    struct mount *list = mem_array(MANY, sizeof *list);
    for (size_t i = 0; i < MANY; i++)
        list[i] = (struct mount){MOUNT_READ_ONLY, i < 11 ? REASON_MANDATORY : REASON_DENY_WRITE,
                                 (char *)"/a", (char *)"/a"};
    const struct mounts mounts = {.list = list, .count = MANY};
    struct buf words, error;
    buf_init(&words, 1 << 20);
    buf_init(&error, 4096);
    assert_false(box_arguments(
        &(struct box_options){.dependencies = &dependencies, .mounts = &mounts}, &words, &error));
    assert_non_null(strstr(buf_cstr(&error), "bwrap arguments and bwrap accepts at most 9000 "
                                             "(about 3000 mounts)."));
    assert_non_null(strstr(buf_cstr(&error), " 11 of them are built-in protection"));
    buf_free(&words);
    buf_free(&error);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_srt_inside_mounts),
        cmocka_unit_test(test_the_hosts_proc),
        cmocka_unit_test(test_bubblewrap_mounts),
        cmocka_unit_test(test_a_setuid_bubblewrap_gives_nothing),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
