/* Write rules to mounts: the measured plans of chapter 50 section 8.6, with the stand-ins and link
 * pins of section 18. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/mounts_fixture.h"

#define CHECK(rows) mounts_check(rows, sizeof(rows) / sizeof *(rows))

static void test_allow(void **state)
{
    static const struct mounts_row rows[] = {
        {"nothing", "", "", ""},
        {"the working directory", "", "allowWrite .", "rw $W"},
        {"one in the other", "d $W/src", "allowWrite .; allowWrite src", "rw $W; rw $W/src"},
        {"twice", "", "allowWrite .; allowWrite $W", "rw $W"},
        {"slash at the end", "d $O/d", "allowWrite $O/d/", "rw $O/d"},
        {"stars at the end", "d $O/d", "allowWrite $O/d/**", "rw $O/d"},
        {"relative", "d $O/d", "allowWrite ../o/d", "rw $O/d"},
        {"home", "d $H/d", "allowWrite ~/d", "rw $H/d"},
        {"a file", "f $O/f", "allowWrite $O/f", "rw $O/f"},
        {"missing", "", "allowWrite $O/none", ""},
        {"a pattern", "f $O/a.txt", "allowWrite $O/*.txt", ""},
        {"under /dev", "", "allowWrite /dev/shm", ""},
        {"a name with brackets", "d $O/[a] x", "allowWrite $O/[a] x", "rw $O/[a] x"},
        {"literal", "d $O/a*; d $O/ab", "allowWrite= $O/a*", "rw $O/a*"},
        {"a link out", "d $O/d; l $W/lnk -> $O/d", "allowWrite $W/lnk", ""},
        {"through a link", "d $O/d/sub; l $W/lnk -> $O/d", "allowWrite $W/lnk/sub", ""},
        {"a link inside", "d $W/real; l $W/lnk -> real", "allowWrite $W/lnk", ""},
        {"strings before literal ones", "d $O/a; d $O/b", "allowWrite= $O/a; allowWrite $O/b",
         "rw $O/b; rw $O/a"},
        {"home defaults", "d $H/.npm/_logs; d $H/.claude/debug", "",
         "rw $H/.npm/_logs; rw $H/.claude/debug"},
        {"no home", "d $H/.npm/_logs", "home ", ""},
    };
    (void)state;
    CHECK(rows);
}

static void test_deny(void **state)
{
    static const struct mounts_row rows[] = {
        {"a file", "f $W/a/f", "allowWrite .; denyWrite a/f", "ro $W/a; rw $W; ro $W/a/f"},
        {"deeper", "f $W/a/b/d", "allowWrite .; denyWrite a/b/d",
         "ro $W/a; ro $W/a/b; rw $W; ro $W/a/b/d"},
        {"missing", "", "allowWrite .; denyWrite new.txt", "rw $W; node $W/new.txt"},
        {"missing on the way", "", "allowWrite .; denyWrite x/y/z", "rw $W; dir $W/x"},
        {"missing twice", "", "allowWrite .; denyWrite x; denyWrite x/y", "rw $W; dir $W/x"},
        {"missing twice, the other way", "", "allowWrite .; denyWrite x/y; denyWrite x",
         "rw $W; dir $W/x"},
        {"one in the other", "f $W/a/b", "allowWrite .; denyWrite a; denyWrite a/b",
         "rw $W; ro $W/a"},
        {"one in the other, the other way", "f $W/a/b", "allowWrite .; denyWrite a/b; denyWrite a",
         "rw $W; ro $W/a"},
        {"beneath a file", "f $W/f", "allowWrite .; denyWrite f/x", "rw $W; ro $W/f"},
        {"beneath a file that is allowed itself", "f $W/f", "allowWrite f; denyWrite f/x",
         "rw $W/f"},
        {"the same, denied too", "f $W/f", "allowWrite f; denyWrite f/x; denyWrite f",
         "rw $W/f; ro $W/f"},
        {"outside", "f $O/f", "allowWrite .; denyWrite $O/f", "rw $W"},
        {"missing outside", "", "allowWrite .; denyWrite $O/none", "rw $W"},
        {"a pattern", "f $W/a.env", "allowWrite .; denyWrite *.env", "rw $W"},
        {"stars at the end", "d $W/a", "allowWrite .; denyWrite a/**", "rw $W; ro $W/a"},
        {"the working directory", "f $W/.bashrc", "allowWrite .; denyWrite .", "rw $W; ro $W"},
        {"above what is allowed", "d $W/a/b", "allowWrite $W/a/b; denyWrite $W",
         "rw $W/a/b; ro $W"},
        {"under /dev", "", "allowWrite .; denyWrite /dev/null", "rw $W"},
        {"a file of another run", "f $W/x", "allowWrite .; denyWrite x; standin $W/x",
         "rw $W; node $W/x"},
        {"a directory of another run", "d $W/x", "allowWrite .; denyWrite x; standin $W/x",
         "rw $W; node $W/x"},
        {"a directory of another run, deeper", "d $W/x",
         "allowWrite .; denyWrite x/y; standin $W/x", "rw $W; dir $W/x"},
        {"an absolute name that goes up from a missing one", "f $W/x",
         "allowWrite .; denyWrite $W/none/../x", "rw $W; ro $W/x"},
    };
    (void)state;
    CHECK(rows);
}

static void test_deny_through_links(void **state)
{
    static const struct mounts_row rows[] = {
        {"a link to a file", "f $W/real/f; l $W/lnk -> real/f", "allowWrite .; denyWrite lnk",
         "ro $W/real; rw $W; ro $W/real/f; pin $W/lnk"},
        {"dangling", "l $W/lnk -> $W/t/u/v", "allowWrite .; denyWrite lnk",
         "rw $W; dir $W/t; pin $W/lnk"},
        {"dangling, nothing beneath", "l $W/lnk -> $W/t", "allowWrite .; denyWrite lnk",
         "rw $W; node $W/t; pin $W/lnk"},
        {"dangling, the way goes on", "l $W/lnk -> $W/t", "allowWrite .; denyWrite lnk/u",
         "rw $W; dir $W/t; pin $W/lnk"},
        {"leads out", "d $O/d; l $W/lnk -> $O/d", "allowWrite .; denyWrite lnk/x",
         "rw $W; pin $W/lnk"},
        {"leads in from outside", "f $W/a/f; l $O/lnk -> $W/a/f", "allowWrite .; denyWrite $O/lnk",
         "ro $W/a; rw $W; ro $W/a/f"},
        {"goes up from a missing name", "l $W/l -> miss/../x", "allowWrite .; denyWrite l",
         "rw $W; node $W/x; node $W/miss; pin $W/l"},
        {"a chain", "f $W/f; l $W/a/one -> ../b/two; l $W/b/two -> ../f",
         "allowWrite .; denyWrite a/one",
         "ro $W/a; ro $W/b; rw $W; ro $W/f; pin $W/a/one; pin $W/b/two"},
        {"one that reaches it through a link keeps its own", "f $W/a/b; l $W/lnk -> a/b",
         "allowWrite .; denyWrite a; denyWrite lnk",
         "ro $W/a; rw $W; ro $W/a; ro $W/a/b; pin "
         "$W/lnk"},
        {"a link in a denied directory needs no pin", "d $W/a; f $W/f; l $W/a/lnk -> ../f",
         "allowWrite .; denyWrite a; denyWrite a/lnk", "rw $W; ro $W/a; ro $W/f"},
        {"a cycle", "l $W/l1 -> l2; l $W/l2 -> l1", "allowWrite .; denyWrite l1",
         "error: denyWrite \"l1\""},
        {"a cycle outside", "l $O/l1 -> l1", "allowWrite .; denyWrite $O/l1", "rw $W"},
        {"a link to a name that is not UTF-8", "l $W/l -> \xff", "allowWrite .; denyWrite l",
         "error: denyWrite \"l\""},
    };
    (void)state;
    CHECK(rows);
}

static void test_mandatory(void **state)
{
    static const struct mounts_row rows[] = {
        {"repository", "f $W/.git/config; d $W/.git/hooks", "allowWrite .",
         "ro $W/.git; rw $W; ro $W/.git/hooks; ro $W/.git/config"},
        {"repository, allowGitConfig", "f $W/.git/config; d $W/.git/hooks",
         "allowWrite .; allowGitConfig", "ro $W/.git; rw $W; ro $W/.git/hooks"},
        {"repository without hooks", "f $W/.git/config", "allowWrite .",
         "ro $W/.git; rw $W; node $W/.git/hooks; ro $W/.git/config"},
        {".git a file", "f $W/.git", "allowWrite .", "rw $W; ro $W/.git"},
        {"a nested repository", "f $W/sub/.git/HEAD; f $W/sub/.git/config", "allowWrite .",
         "ro $W/sub; ro $W/sub/.git; rw $W; ro $W/sub/.git/config; node $W/sub/.git/hooks"},
        {"one deeper", "f $W/a/sub/.git/HEAD; f $W/a/sub/.git/config", "allowWrite .", "rw $W"},
        {".claude empty", "d $W/.claude", "allowWrite .",
         "ro $W/.claude; rw $W; node $W/.claude/commands; node $W/.claude/agents"},
        {".claude a file", "f $W/.claude", "allowWrite .", "rw $W; ro $W/.claude"},
        {".claude a link out", "d $O/cl; l $W/.claude -> $O/cl", "allowWrite .",
         "rw $W; pin $W/.claude"},
        {".bashrc a link", "f $W/dot/bashrc; l $W/.bashrc -> dot/bashrc", "allowWrite .",
         "ro $W/dot; rw $W; ro $W/dot/bashrc; pin $W/.bashrc"},
        {"working directory not writable", "f $W/.git/config; f $W/.bashrc", "allowWrite $O",
         "rw $O"},
        {"a directory in it writable", "f $W/sub/.bashrc; f $W/.bashrc", "allowWrite sub",
         "rw $W/sub; ro $W/sub/.bashrc"},
    };
    (void)state;
    CHECK(rows);
}

static void test_unreadable(void **state)
{
    static const struct mounts_row rows[] = {
        {"a directory of ours, mode 000", "d $W/a; m 000 $W/a", "allowWrite .", "rw $W; ro $W/a"},
        {"a way that cannot be searched", "d $W/a/b; m 000 $W/a", "allowWrite .; denyWrite a/b/c",
         "rw $W; ro $W/a"},
        {"our own directory without write", "d $W/a; m 555 $W/a", "allowWrite .; denyWrite a/x",
         "ro $W/a; rw $W; node $W/a/x"},
        {"a directory of another", "", "allowWrite /usr; denyWrite /usr/share/none",
         "ro /usr/share; rw /usr"},
    };
    (void)state;
    mounts_fixture_as_user(true);
    CHECK(rows);
    mounts_fixture_as_user(false);
}

static void test_root(void **state)
{
    static const struct mounts_row rows[] = {
        {"everything", "f $W/f", "allowWrite /; denyWrite f",
         "rw /; ro $T; ro $W; rw /tmp; ro $W/f"},
        {"everything, named twice", "", "allowWrite /; allowWrite .",
         "rw /; rw $W; ro $T; ro $W; rw /tmp"},
        {"and denied", "", "allowWrite /; allowWrite .; denyWrite /", "rw /; rw $W; ro /"},
        {"and denied, with something hidden", "f $O/x", "allowWrite /; denyWrite /; denyRead $O",
         "rw /; ro $T; rw /tmp; tmpfs $O; ro /; tmpfs $O"},
        {"a top directory", "", "allowWrite /tmp", "ro $T; ro $W; rw /tmp"},
        {"nothing of the kernel's is pinned", "", "allowWrite /; denyRead /sys/kernel; denyWrite .",
         "rw /; ro $T; rw /tmp; tmpfs /sys/kernel; ro $W"},
    };
    (void)state;
    CHECK(rows);
}

static void test_protected_files(void **state)
{
    static const struct mounts_row rows[] = {
        {"in a write path", "f $W/s.json", "allowWrite .; protected $W/s.json",
         "rw $W; ro $W/s.json"},
        {"relative", "f $W/d/s.json", "allowWrite .; protected d/s.json",
         "ro $W/d; rw $W; ro $W/d/s.json"},
        {"missing", "", "allowWrite .; protected $W/s.json", "rw $W"},
        {"elsewhere", "f $O/s.json", "allowWrite .; protected $O/s.json", "rw $W"},
        {"the write path itself", "f $O/s.json", "allowWrite $O/s.json; protected $O/s.json",
         "rw $O/s.json; ro $O/s.json"},
        {"a link in a write path", "f $O/s.json; l $W/l -> $O/s.json", "allowWrite .; protected l",
         "rw $W; pin $W/l"},
        {"a link on the way", "f $W/real/s; l $W/l -> real", "allowWrite .; protected $W/l/s",
         "ro $W/real; rw $W; ro $W/real/s; pin $W/l"},
        {"a chain", "f $O/s; l $W/a/one -> ../two; l $W/two -> $O/s",
         "allowWrite .; protected a/one", "ro $W/a; rw $W; pin $W/a/one; pin $W/two"},
        {"up from what a link leads to", "f $O/s; d $O/d; l $W/l -> $O/d",
         "allowWrite .; allowWrite $O; protected l/../s", "rw $W; rw $O; ro $O/s; pin $W/l"},
        {"to a name that is not UTF-8", "f $W/\xff; l $W/l -> \xff", "allowWrite .; protected l",
         "rw $W; ro $W/\xff; pin $W/l"},
        {"a dangling link", "l $W/l -> none", "allowWrite .; protected l", "rw $W"},
        {"a link cycle", "l $W/l -> l", "allowWrite .; protected l", "rw $W"},
        {"denied too", "f $W/s", "allowWrite .; denyWrite s; protected s", "rw $W; ro $W/s"},
        {"in a denied directory", "f $W/d/s", "allowWrite .; denyWrite d; protected d/s",
         "rw $W; ro $W/d"},
        {"hidden", "f $W/s", "allowWrite .; denyRead s; protected s", "rw $W; null $W/s"},
        {"of the kernel's", "",
         "allowWrite /; denyWrite /; protected /proc/self/status; "
         "protected /dev/null",
         "rw /; ro /"},
        {"nothing is writable", "f $W/s", "protected s", ""},
    };
    (void)state;
    CHECK(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allow),
        cmocka_unit_test(test_deny),
        cmocka_unit_test(test_deny_through_links),
        cmocka_unit_test(test_mandatory),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_protected_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
