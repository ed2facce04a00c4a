#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/executable.h"
#include "launcher/dependencies.h"
#include "launcher/explain.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A directory with an executable `bwrap`, one that is not executable in `plain/`, a directory so
 * named in `odd/`; PATH as it was. */
struct fixture {
    char directory[64];
    char *path;
};

static void make_file(const struct fixture *f, const char *name, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void make_directory(const struct fixture *f, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    const char *path = getenv("PATH");
    f->path = mem_dup(path != NULL ? path : "");
    snprintf(f->directory, sizeof f->directory, "/tmp/test_dependencies.XXXXXX");
    assert_non_null(mkdtemp(f->directory));
    make_directory(f, "plain");
    make_directory(f, "odd");
    make_directory(f, "odd/bwrap");
    make_file(f, "bwrap", 0755);
    make_file(f, "plain/bwrap", 0644);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"plain/bwrap", "bwrap", "odd/bwrap", "plain", "odd", ""};
    struct fixture *f = *state;
    char path[128];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->directory, names[i]);
        assert_int_equal(remove(path), 0);
    }
    setenv("PATH", f->path, 1);
    free(f->path);
    free(f);
    return 0;
}

/* PATH with each @ standing for the directory; NULL: none. */
static void set_path(const struct fixture *f, const char *pattern)
{
    struct buf path;
    if (pattern == NULL) {
        unsetenv("PATH");
        return;
    }
    buf_init(&path, 1000);
    for (; *pattern != 0; pattern++) {
        if (*pattern == '@')
            buf_puts(&path, f->directory);
        else
            buf_append(&path, pattern, 1);
    }
    setenv("PATH", buf_cstr(&path), 1);
    buf_free(&path);
}

static void test_the_search_path(void **state)
{
    static const struct {
        const char *path, *name;
        bool found;
    } rows[] = {
        {"@", "bwrap", true},         {"/nowhere:@", "bwrap", true},
        {"@/plain:@", "bwrap", true}, {"@/odd:@:/nowhere", "bwrap", true},
        {"@/plain", "bwrap", false},  {"@/odd", "bwrap", false},
        {"", "bwrap", false},         {NULL, "bwrap", false},
        {":", "bwrap", false},        {".", "bwrap", false},
        {".::../x", "bwrap", false},  {"@", "other", false},
        {"@", "plain/bwrap", false},  {"@", "", false},
    };
    struct fixture *f = *state;
    char expected[128];
    snprintf(expected, sizeof expected, "%s/bwrap", f->directory);
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(f->directory), 0); /* where "." and "" would find one */
    for (size_t i = 0; i < COUNT(rows); i++) {
        set_path(f, rows[i].path);
        char *found = executable_find(rows[i].name);
        assert_int_equal(found != NULL, rows[i].found);
        if (found != NULL)
            assert_string_equal(found, expected);
        free(found);
    }
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* `bwrap` of this test answers nothing: the probe of uid 0 has to have no part in it. */
static void test_the_check(void **state)
{
    static const struct {
        const char *path, *configured; /* @: the directory */
        const char *error;
    } rows[] = {
        {"@", NULL, NULL},
        {"/nowhere", "/bwrap", NULL},
        {"/nowhere", NULL, "Sandbox dependencies not available: bubblewrap (bwrap) not installed"},
        {"@/plain:@/odd", NULL,
         "Sandbox dependencies not available: bubblewrap (bwrap) not installed"},
        {"@", "/plain/bwrap",
         "Sandbox dependencies not available: bubblewrap (bwrap) not executable at @/plain/bwrap"},
        {"@", "/odd/bwrap",
         "Sandbox dependencies not available: bubblewrap (bwrap) not executable at @/odd/bwrap"},
        {"@", "/missing",
         "Sandbox dependencies not available: bubblewrap (bwrap) not executable at @/missing"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char configured[128];
        struct sandbox_settings settings = {0};
        struct dependencies d;
        struct buf error, expected;
        buf_init(&error, 4096);
        buf_init(&expected, 4096);
        set_path(f, rows[i].path);
        if (rows[i].configured != NULL) {
            snprintf(configured, sizeof configured, "%s%s", f->directory, rows[i].configured);
            settings.bwrap_path = configured;
        }
        for (const char *c = rows[i].error != NULL ? rows[i].error : ""; *c != 0; c++) {
            if (*c == '@')
                buf_puts(&expected, f->directory);
            else
                buf_append(&expected, c, 1);
        }
        if (rows[i].error == NULL && geteuid() == 0 && machine_lacks_setfcap()) {
            assert_false(dependencies_check(&settings, &d, &error));
            assert_non_null(strstr(buf_cstr(&error), "running as uid 0 without CAP_SETFCAP"));
        } else {
            assert_int_equal(dependencies_check(&settings, &d, &error), rows[i].error == NULL);
            assert_string_equal(buf_cstr(&error), buf_cstr(&expected));
        }
        assert_int_equal(d.bwrap != NULL, rows[i].error == NULL && buf_len(&error) == 0);
        assert_false(d.bwrap_setuid);
        dependencies_free(&d);
        assert_null(d.bwrap);
        buf_free(&error);
        buf_free(&expected);
    }
}

/* What of stderr came while `check` ran is in *said. */
static bool check_capturing(const struct sandbox_settings *s, struct dependencies *d,
                            struct buf *error, char *said, size_t size)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    dup2(ends[1], STDERR_FILENO);
    bool good = dependencies_check(s, d, error);
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(ends[0], said, size - 1);
    said[n > 0 ? n : 0] = 0;
    close(saved);
    close(ends[0]);
    close(ends[1]);
    return good;
}

/* A bwrap that a command may have put on PATH does not build the next command's box. */
static void test_a_planted_bwrap(void **state)
{
    static const struct {
        const char *path, *configured, *found; /* found NULL: refused */
    } rows[] = {
        {"@/first:@", NULL, "/bwrap"},
        {"@:@/first", NULL, "/bwrap"},
        {"@/first", NULL, NULL},
        {"@", "/first/bwrap", "/first/bwrap"},
    };
    struct fixture *f = *state;
    char allowed[80], wanted[128], said[1024];
    snprintf(allowed, sizeof allowed, "%s/first", f->directory);
    struct path_entry entry = {.text = allowed};
    if (geteuid() == 0 && machine_lacks_setfcap())
        skip();
    make_directory(f, "first");
    make_file(f, "first/bwrap", 0755);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sandbox_settings settings = {.allow_write = {.entries = &entry, .count = 1}};
        struct dependencies d;
        struct buf error;
        buf_init(&error, 4096);
        set_path(f, rows[i].path);
        if (rows[i].configured != NULL) {
            snprintf(wanted, sizeof wanted, "%s%s", f->directory, rows[i].configured);
            settings.bwrap_path = wanted;
        }
        bool good = check_capturing(&settings, &d, &error, said, sizeof said);
        assert_int_equal(good, rows[i].found != NULL);
        if (good)
            assert_string_equal(d.bwrap + strlen(f->directory), rows[i].found);
        else
            assert_non_null(strstr(buf_cstr(&error), "/first/bwrap): name it by bwrapPath"));
        assert_int_equal(strstr(said, "/first/bwrap, where the command may write") != NULL, i == 0);
        dependencies_free(&d);
        buf_free(&error);
    }
    snprintf(wanted, sizeof wanted, "%s/first/bwrap", f->directory);
    unlink(wanted);
    rmdir(allowed);
}

static void test_wsl(void **state)
{
    static const struct {
        const char *version;
        bool first;
    } rows[] = {
        {"Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) #1237", true},
        {"Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host)", false},
        {"Linux version 5.15.90.1-Microsoft-standard-WSL2", false},
        {"Linux version 4.19.84-microsoft-standard (oe-user@oe-host)", false},
        {"Linux version 4.4.0 WSL1", true},
        {"Linux version 4.4.0 WSL10 Microsoft", false},
        {"Linux version 4.4.0 WSL WSL1", true},
        {"Linux version 6.1.0-44-amd64 (debian-kernel@lists.debian.org)", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(machine_is_wsl1(rows[i].version), rows[i].first);
}

static void test_capability_sets(void **state)
{
    static const struct {
        const char *status;
        bool lacks;
    } rows[] = {
        {"Name:\tx\nCapInh:\t0000000000000000\nCapBnd:\t000001ffffffffff\n", false},
        {"Name:\tx\nCapInh:\t0000000000000000\nCapBnd:\t00000000a80425fb\n", false},
        {"Name:\tx\nCapInh:\t0000000000000000\nCapBnd:\t00000000280425fb\n", true},
        {"Name:\tx\nCapInh:\t0000000080000000\nCapBnd:\t00000000280425fb\n", false},
        {"Name:\tx\nCapBnd:\t00000000280425fb\n", false},
        {"", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(machine_text_lacks_setfcap(rows[i].status), rows[i].lacks);
}

/* What bubblewrap says, on which machine, and what the explanation has to hold (two parts), or
 * NULL: nothing at all. */
static void test_explanations(void **state)
{
    static const struct machine plain = {-1, -1, 63000, false, false, false};
    static const struct machine ubuntu = {1, 1, 63000, false, false, false};
    static const struct machine debian_off = {-1, 0, 63000, false, false, false};
    static const struct machine no_names = {-1, -1, 0, false, false, false};
    static const struct machine container = {-1, -1, 63000, true, false, false};
    static const struct machine root = {-1, -1, 63000, false, false, true};
    static const struct machine nested = {-1, -1, 0, false, true, false};
    static const struct {
        const char *text;
        const struct machine *machine;
        bool weaker;
        const char *first, *second;
    } rows[] = {
        {"bwrap: setting up uid map: Permission denied\n", &ubuntu, false, "profile bwrap",
         "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
        {"bwrap: setting up uid map: Permission denied\n", &plain, false, "profile bwrap",
         "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
        {"bwrap: setting up uid map: Permission denied\n", &container, false, "profile bwrap",
         "seccomp=unconfined"},
        {"bwrap: setting up uid map: Operation not permitted\n", &root, false, "CAP_SETFCAP",
         "--cap-add SETFCAP"},
        {"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n", &ubuntu, false,
         "AppArmor", "userns,"},
        {"bwrap: No permissions to creating new namespace, likely because the kernel does not "
         "allow non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl "
         "kernel.unprivileged_userns_clone=1'.\n",
         &debian_off, false, "kernel.unprivileged_userns_clone is 0",
         "sysctl -w kernel.unprivileged_userns_clone=1"},
        {"bwrap: No permissions to create a new namespace\n", &container, false,
         "seccomp=unconfined", "apparmor=unconfined"},
        {"bwrap: No permissions to create new namespace\n", &ubuntu, false, "AppArmor",
         "sysctl -w"},
        {"bwrap: Creating new namespace failed: Operation not permitted\n", &plain, false,
         "something around this process", "seccomp=unconfined"},
        {"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces "
         "exceeded (ENOSPC)\n",
         &no_names, false, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces="},
        {"bwrap: Creating new namespace failed: No space left on device\n", &nested, false,
         "inside a box already", "allowNestedUserNamespaces"},
        {"bwrap: Creating new namespace failed: Operation not permitted\n", &nested, false,
         "inside a box already", "allowNestedUserNamespaces"},
        {"bwrap: Creating new namespace failed, likely because the kernel does not support user "
         "namespaces.  bwrap must be installed setuid on such systems.\n",
         &plain, false, "CONFIG_USER_NS", "user_namespace.enable"},
        {"bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n", &container, false,
         "systempaths=unconfined", "enableWeakerNestedSandbox"},
        {"bwrap: Can't mount proc on /proc: Operation not permitted\n", &container, true,
         "systempaths=unconfined", "unmask=ALL"},
        {"bwrap: Failed to make / slave: Permission denied\n", &container, false,
         "apparmor=unconfined", "Kubernetes"},
        {"bwrap: Unexpected capabilities but not setuid, old file caps config?\n", &plain, false,
         "setcap -r", "setpriv"},
        {"bwrap: setuid use of bubblewrap is not supported in this build\n", &plain, false,
         "chmod u-s", ""},
        {"bwrap: Unknown option --as-pid-1\n", &plain, false, "0.4.0", ""},
        {"bwrap: execvp bash: No such file or directory\n", &plain, false, NULL, NULL},
        {"", &plain, false, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf out;
        buf_init(&out, 8192);
        explain_bwrap(rows[i].text, strlen(rows[i].text), rows[i].weaker, rows[i].machine, &out);
        const char *text = buf_cstr(&out);
        if (rows[i].first == NULL) {
            assert_string_equal(text, "");
        } else {
            assert_non_null(strstr(text, rows[i].first));
            assert_non_null(strstr(text, rows[i].second));
            assert_int_equal(text[buf_len(&out) - 1], '\n');
            if (rows[i].weaker)
                assert_null(strstr(text, "enableWeakerNestedSandbox"));
        }
        buf_free(&out);
    }
}

static void test_an_explanation_of_this_machine(void **state)
{
    static const char said[] = "bwrap: setting up uid map: Permission denied\n";
    struct buf out;
    (void)state;
    buf_init(&out, 8192);
    dependencies_explain(said, strlen(said), false, &out);
    assert_non_null(strstr(buf_cstr(&out), "AppArmor"));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_search_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_planted_bwrap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_check, set_up, tear_down),
        cmocka_unit_test(test_wsl),
        cmocka_unit_test(test_capability_sets),
        cmocka_unit_test(test_explanations),
        cmocka_unit_test(test_an_explanation_of_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
