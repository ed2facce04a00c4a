/* Read rules to mounts, alone and with write rules: the measured plans of chapter 50 section 8.6.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/mounts_fixture.h"

#define CHECK(rows) mounts_check(rows, sizeof(rows) / sizeof *(rows))

static void test_deny(void **state)
{
    static const struct mounts_row rows[] = {
        {"a directory", "d $O/s", "denyRead $O/s", "tmpfs $O/s"},
        {"stars at the end", "d $O/s", "denyRead $O/s/**", "tmpfs $O/s"},
        {"a file", "f $O/f", "denyRead $O/f", "null $O/f"},
        {"missing", "", "denyRead $O/none", ""},
        {"a dangling link", "l $O/l -> none", "denyRead $O/l", ""},
        {"a link cycle", "l $O/l -> l", "denyRead $O/l", ""},
        {"a pattern at the root", "", "denyRead /**/*.pem", "error: filesystem.denyRead"},
        {"in the working directory", "f $W/a/b/k", "denyRead a/b/k; allowWrite .",
         "ro $W/a; ro $W/a/b; rw $W; null $W/a/b/k"},
        {"a link to a directory", "d $O/d; l $W/l -> $O/d", "denyRead l", "tmpfs $O/d"},
        {"a link to a file", "f $O/f; l $W/l -> $O/f", "denyRead l", "null $O/f"},
        {"a link to a name that is not UTF-8", "f $O/\xff; l $W/l -> $O/\xff", "denyRead l",
         "null $O/\xff"},
        {"a link to the root", "l $W/sub/lnk -> /", "denyRead $W/sub/lnk", "tmpfs $W/sub"},
        {"nothing back beneath that", "l $W/sub/lnk -> /; d $W/sub/p",
         "denyRead $W/sub/lnk; allowRead $W/sub/p; allowWrite sub", "rw $W/sub; tmpfs $W/sub"},
        {"twice", "f $O/f; l $O/l -> f", "denyRead $O/f; denyRead $O/l", "null $O/f"},
        {"shallow first", "d $O/a/b; d $W/c", "denyRead $O/a/b; denyRead $O/a; denyRead c",
         "tmpfs $O/a; tmpfs $W/c"},
        {"under /dev", "", "denyRead /dev/null; denyRead /dev; denyRead /proc/version", ""},
        {"a directory that stands in", "d $W/x", "denyRead x; standin $W/x", "tmpfs $W/x"},
        {"one as a match", "f $W/x/k", "denyRead x*; standin $W/x", "tmpfs $W/x"},
        {"a file in one", "f $W/x/k", "denyRead x/k; standin $W/x", "null $W/x/k"},
        {"one that is a credential", "d $W/x", "credential x; standin $W/x", "tmpfs $W/x"},
        {"one that is write-denied too", "d $W/x",
         "denyRead x; denyWrite x/y; allowWrite .; standin $W/x", "rw $W; tmpfs $W/x"},
        {"one that is allowed", "d $W/x", "denyRead x; allowRead x; allowWrite x; standin $W/x",
         "tmpfs $W/x"},
        {"a file that stands in", "f $W/x", "denyRead x; standin $W/x", ""},
    };
    (void)state;
    CHECK(rows);
}

static void test_bind_back(void **state)
{
    static const struct mounts_row rows[] = {
        {"beneath", "d $O/pub", "denyRead $O; allowRead $O/pub", "tmpfs $O; ro $O/pub"},
        {"equal", "", "denyRead $O; allowRead $O", "tmpfs $O; ro $O"},
        {"above", "d $O/s", "denyRead $O/s; allowRead $O", "tmpfs $O/s"},
        {"missing", "", "denyRead $O; allowRead $O/none", "tmpfs $O"},
        {"a deny in it", "d $O/pub/sec", "denyRead $O; denyRead $O/pub/sec; allowRead $O/pub",
         "tmpfs $O; ro $O/pub; tmpfs $O/pub/sec"},
        {"that same file", "f $O/x", "denyRead $O/x; allowRead $O/x", ""},
        {"the directory of a denied file", "f $O/x", "denyRead $O/x; allowRead $O", "null $O/x"},
        {"a link to the denied file", "f $O/x; l $O/l -> x", "denyRead $O/x; allowRead $O/l",
         "null $O/x"},
        {"the working directory", "", "denyRead $T; allowWrite .", "rw $W; tmpfs $T; rw $W"},
        {"the working directory twice", "", "denyRead $T; allowWrite .; allowRead .",
         "rw $W; tmpfs $T; rw $W"},
        {"a write path", "d $W/sub", "denyRead .; allowWrite sub",
         "rw $W/sub; tmpfs $W; rw $W/sub"},
        {"the write path itself", "", "denyRead .; allowWrite .", "rw $W; tmpfs $W; rw $W"},
        {"a write path in a read path", "d $H/p/out",
         "denyRead ~; allowRead ~/p; allowWrite ~/p/out",
         "rw $H/p/out; tmpfs $H; ro $H/p; rw $H/p/out"},
        {"a read path in a write path", "d $H/p/out",
         "denyRead ~; allowRead ~/p/out; allowWrite ~/p", "rw $H/p; tmpfs $H; rw $H/p"},
        {"a link in it to another part", "d $O/real; l $O/lnk -> real",
         "denyRead $O; allowRead $O/lnk", "tmpfs $O; ro $O/real at $O/lnk"},
        {"a link in it to a denied part", "d $O/real/s; l $O/lnk -> real",
         "denyRead $O; denyRead $O/real/s; allowRead $O/lnk", "tmpfs $O"},
        {"a link in what is bound back", "d $O/real; l $O/p/lnk -> ../real",
         "denyRead $O; allowRead $O/p; allowRead $O/p/lnk", "tmpfs $O; ro $O/p"},
        {"a link in it that leads out", "d $W/d; l $O/lnk -> $W/d", "denyRead $O; allowRead $O/lnk",
         "tmpfs $O"},
        {"a link into it", "d $O/real; l $W/lnk -> $O/real", "denyRead $O; allowRead $W/lnk",
         "tmpfs $O"},
        {"through a link into it", "d $O/real/x; l $W/lnk -> $O/real",
         "denyRead $O; allowRead $W/lnk/x", "tmpfs $O; ro $O/real/x"},
        {"a hidden deny", "d $O/a/b", "denyRead $O; denyRead $O/a; allowRead $O/a/b",
         "tmpfs $O; ro $O/a/b"},
    };
    (void)state;
    CHECK(rows);
}

/* Links that the command could replace or aim elsewhere. */
static void test_replaceable_links(void **state)
{
    static const struct mounts_row rows[] = {
        {"a denied link", "d $O/d; l $W/l -> $O/d", "denyRead l; allowWrite .",
         "rw $W; tmpfs $O/d; pin $W/l"},
        {"a denied link to a file", "f $O/f; l $W/a/l -> $O/f", "denyRead a/l; allowWrite .",
         "ro $W/a; rw $W; null $O/f; pin $W/a/l"},
        {"a link on the way", "f $O/d/f; l $W/l -> $O/d", "denyRead l/f; allowWrite .",
         "rw $W; null $O/d/f; pin $W/l"},
        {"a chain", "f $O/f; l $W/one -> two; l $W/two -> $O/f", "denyRead one; allowWrite .",
         "rw $W; null $O/f; pin $W/one; pin $W/two"},
        {"through a name that is not UTF-8", "f $O/f; l $W/\xff -> $O/f; l $W/l -> \xff",
         "denyRead l; allowWrite .", "rw $W; null $O/f; pin $W/l; pin $W/\xff"},
        {"a dangling link", "l $W/l -> $O/none", "denyRead l; allowWrite .", "rw $W; pin $W/l"},
        {"elsewhere", "f $W/f; l $O/l -> $W/f", "denyRead $O/l; allowWrite .", "rw $W; null $W/f"},
        {"a credential", "f $O/f; l $W/l -> $O/f", "credential l; allowWrite .",
         "rw $W; null $O/f; pin $W/l"},
        {"in a denied directory", "f $O/f; l $W/d/l -> $O/f",
         "denyRead d; denyRead d/l; allowWrite .", "rw $W; tmpfs $W/d; null $O/f"},
        {"in a write-denied directory", "f $O/f; l $W/d/l -> $O/f",
         "denyRead d/l; denyWrite d; allowWrite .", "rw $W; null $O/f; ro $W/d"},
        {"denied for writing, too", "f $O/f; l $W/l -> $O/f",
         "denyRead l; denyWrite l; allowWrite .", "rw $W; null $O/f; pin $W/l"},
        {"a match", "f $O/f; l $W/a.pem -> $O/f; l $W/b.txt -> $O/f",
         "denyRead *.pem; allowWrite .", "rw $W; null $O/f; pin $W/a.pem"},
        {"on the way to a match", "f $O/d/a.pem; l $W/l -> $O/d; l $W/m -> $O",
         "denyRead **/a.pem; denyWrite $W/m; allowWrite .",
         "rw $W; null $O/d/a.pem; pin $W/l; pin $W/m"},
        {"before a pattern", "f $O/d/a.pem; l $W/one -> two; l $W/two -> $O/d",
         "denyRead one/*.pem; allowWrite .", "rw $W; null $O/d/a.pem; pin $W/one; pin $W/two"},
        {"an allow through one", "d $H/.ssh; l $W/docs -> $H/.ssh",
         "denyRead ~; allowRead docs; allowWrite .", "rw $W; tmpfs $H"},
        {"an allow beneath one", "f $H/.ssh/id; l $W/docs -> $H/.ssh",
         "denyRead ~; allowRead docs/id; allowWrite .", "rw $W; tmpfs $H"},
        {"an allow beneath one that is not writable", "f $H/.ssh/id; l $W/docs -> $H/.ssh",
         "denyRead ~; allowRead docs/id; allowWrite $O", "rw $O; tmpfs $H; ro $H/.ssh/id"},
        {"matches beneath one", "f $H/.ssh/id; l $W/docs -> $H/.ssh",
         "denyRead ~; allowRead docs/*; allowWrite .", "rw $W; tmpfs $H"},
        {"a match that is one", "d $H/p/b; d $H/a; l $H/p/c -> ../a",
         "denyRead ~; allowRead ~/p/*; allowWrite ~/p", "rw $H/p; tmpfs $H; rw $H/p"},
        {"a second link on the way", "f $H/id; l $O/l -> $W/m; l $W/m -> $H",
         "denyRead ~; allowRead $O/l/id; allowWrite .", "rw $W; tmpfs $H"},
        {"a file of ours beneath one", "f $H/ca; l $W/l -> $H",
         "denyRead ~; readable $W/l/ca; allowWrite .", "rw $W; tmpfs $H"},
    };
    (void)state;
    CHECK(rows);
}

static void test_patterns(void **state)
{
    static const struct mounts_row rows[] = {
        {"files", "f $O/a.pem; f $O/b.pem; f $O/c", "denyRead $O/*.pem",
         "null $O/a.pem; null $O/b.pem"},
        {"through a link", "f $O/real/a.pem; l $W/certs -> $O/real", "denyRead $W/certs/*.pem",
         "null $O/real/a.pem"},
        {"each directory that holds something", "f $W/a/build/x; f $W/build/y; d $W/b/build",
         "denyRead **/build/**", "tmpfs $W/build; tmpfs $W/a/build"},
        {"with one of them allowed", "f $W/build/pub/one; f $W/build/pub/two; f $W/build/other",
         "denyRead **/build/**; allowRead build/pub",
         "tmpfs $W/build; ro $W/build/pub; tmpfs $W/build/pub; ro $W/build/pub; "
         "null $W/build/pub/one; null $W/build/pub/two"},
        {"of allowed names", "f $O/a.pub; f $O/b.pub; f $O/c", "denyRead $O; allowRead $O/*.pub",
         "tmpfs $O; ro $O/a.pub; ro $O/b.pub"},
        {"of allowed names, beneath", "f $O/pub/d/f; f $O/q/g", "denyRead $O; allowRead $O/p*/**",
         "tmpfs $O; ro $O/pub/d; ro $O/pub/d/f"},
        {"no match", "", "denyRead $O/*.pem", ""},
        {"a slash at the end", "", "denyRead $O/*/", "error: Deny glob"},
    };
    (void)state;
    CHECK(rows);
}

static void test_with_write_rules(void **state)
{
    static const struct mounts_row rows[] = {
        {"the same directory", "d $W/s", "denyRead s; denyWrite s; allowWrite .",
         "rw $W; tmpfs $W/s"},
        {"the same file", "f $W/s", "denyRead s; denyWrite s; allowWrite .", "rw $W; null $W/s"},
        {"a denied directory in a write-denied one", "d $W/d/s",
         "denyRead d/s; denyWrite d; allowWrite .",
         "ro $W/d; rw $W; tmpfs $W/d/s; ro $W/d; tmpfs $W/d/s"},
        {"a denied file in a write-denied one", "f $W/d/s",
         "denyRead d/s; denyWrite d; allowWrite .",
         "ro $W/d; rw $W; null $W/d/s; ro $W/d; null $W/d/s"},
        {"a write-denied directory in a denied one, with its own allow", "d $W/d/s",
         "denyRead d; denyWrite d/s; allowWrite .; allowWrite d/s",
         "ro $W/d; rw $W; rw $W/d/s; tmpfs $W/d; rw $W/d/s; ro $W/d/s"},
        {"a write path in a hidden write-denied one", "d $W/d/s/w",
         "denyRead d; denyWrite d/s; allowWrite .; allowWrite d/s/w",
         "ro $W/d; rw $W; rw $W/d/s/w; tmpfs $W/d; rw $W/d/s/w; ro $W/d/s/w"},
        {"a write path in a read path in a write-denied one", "d $W/d/p/w",
         "denyRead d; allowRead d/p; denyWrite d; allowWrite .; allowWrite d/p/w",
         "rw $W; rw $W/d/p/w; tmpfs $W/d; ro $W/d/p; rw $W/d/p/w; ro $W/d/p/w"},
        {"hidden again, read-only", "d $W/d/s/p",
         "denyRead d/s; denyWrite d; allowWrite .; "
         "allowWrite d/s/p",
         "ro $W/d; rw $W; rw $W/d/s/p; tmpfs $W/d/s; rw $W/d/s/p; ro $W/d; tmpfs $W/d/s; "
         "ro $W/d/s/p"},
        {"a missing name in a denied directory", "d $W/d",
         "denyRead d; denyWrite d/x; allowWrite .", "ro $W/d; rw $W; tmpfs $W/d"},
        {"a missing name in what is bound back", "d $W/d/p",
         "denyRead d; denyWrite d/p/x; allowWrite .; allowWrite d/p",
         "ro $W/d; rw $W; rw $W/d/p; tmpfs $W/d; rw $W/d/p; node $W/d/p/x"},
        {"all of it denied and hidden", "d $W/d",
         "denyRead .; denyWrite .; denyWrite d/x; allowWrite .", "rw $W; tmpfs $W; rw $W; ro $W"},
        {"a link in a denied directory", "f $W/d/f; l $W/d/l -> f",
         "denyRead d; denyWrite d/l; allowWrite .", "ro $W/d; rw $W; tmpfs $W/d"},
    };
    (void)state;
    CHECK(rows);
}

static void test_home(void **state)
{
    static const struct mounts_row rows[] = {
        {"denied", "d $H/.npm/_logs; d $H/.claude/debug", "denyRead ~", "tmpfs $H"},
        {"denied by a pattern", "d $H/.npm/_logs; d $H/.claude/debug", "denyRead $T/?/**",
         "tmpfs $H"},
        {"one denied", "d $H/.npm/_logs; d $H/.claude/debug", "denyRead ~/.npm",
         "rw $H/.claude/debug; tmpfs $H/.npm"},
        {"one opened again", "d $H/.npm/_logs; d $H/.claude/debug", "denyRead ~; allowRead ~/.npm",
         "rw $H/.npm/_logs; tmpfs $H; ro $H/.npm; rw $H/.npm/_logs"},
        {"asked for", "d $H/.npm/_logs", "denyRead ~; allowWrite ~/.npm/_logs",
         "rw $H/.npm/_logs; tmpfs $H; rw $H/.npm/_logs"},
        {"a credential", "d $H/.npm/_logs", "credential ~; allowRead ~/.npm", "tmpfs $H"},
    };
    (void)state;
    CHECK(rows);
}

static void test_credentials(void **state)
{
    static const struct mounts_row rows[] = {
        {"a directory", "d $O/s/pub", "credential $O/s; allowRead $O/s/pub", "tmpfs $O/s"},
        {"a file", "f $O/s", "credential $O/s; allowRead $O/s", "null $O/s"},
        {"both denies", "f $O/s", "credential $O/s; denyRead $O/s; allowRead $O/s", "null $O/s"},
        {"a write path in it", "d $O/s/w", "credential $O/s; allowWrite $O/s/w",
         "rw $O/s/w; tmpfs $O/s"},
        {"in a denied directory", "d $O/s/w; d $O/t",
         "denyRead $O; credential $O/s; allowRead $O/s/w; allowRead $O/t", "tmpfs $O; ro $O/t"},
        {"a file of ours in it", "f $O/s/ca", "credential $O/s; readable $O/s/ca",
         "tmpfs $O/s; ro $O/s/ca"},
        {"a file of ours", "f $O/ca", "credential $O/ca; readable $O/ca", ""},
        {"a file of ours that is writable elsewhere", "f $O/s/ca",
         "credential $O/s; readable $O/s/ca; allowWrite $O/s/ca",
         "rw $O/s/ca; tmpfs $O/s; ro $O/s/ca"},
        {"disabled", "d $O/s", "disabled; credential $O/s; denyRead $O; private $H", "writable"},
    };
    (void)state;
    CHECK(rows);
}

static void test_unsearchable(void **state)
{
    static const struct mounts_row rows[] = {
        {"a name in it", "f $O/x/k; m 000 $O/x", "denyRead $O/x/k; allowRead $O/x", "tmpfs $O/x"},
        {"a pattern in it", "f $O/x/k; m 000 $O/x", "denyRead $O/x/*.pem; allowWrite $O/x",
         "rw $O/x; tmpfs $O/x"},
        {"a link into it", "f $O/x/k; l $W/l -> $O/x/k; m 000 $O/x", "denyRead l", "tmpfs $O/x"},
        {"hidden with what is above", "d $O/x; d $O/pub; m 000 $O/x",
         "denyRead $O; denyRead $O/x/*.pem; allowRead $O/pub", "tmpfs $O"},
        {"the same, of several above", "d $O/a/x; d $O/pub; m 000 $O/a/x",
         "denyRead $O; denyRead $O/a; denyRead $O/a/x/*.pem; allowRead $O/pub; allowWrite $O/pub",
         "rw $O/pub; tmpfs $O"},
        {"above that, an allow", "d $O/p/x; d $O/pub; m 000 $O/p/x",
         "denyRead $O; denyRead $O/p/x/*.pem; allowRead $O/pub; allowRead $O/p",
         "tmpfs $O; ro $O/pub; ro $O/p; tmpfs $O/p/x"},
        {"an allow at the mount above", "d $O/x; m 000 $O/x",
         "denyRead $O; denyRead $O/x/*.pem; allowRead $O", "tmpfs $O; ro $O; tmpfs $O/x"},
        {"an allow between two", "d $O/p/a/x; d $O/p/b; m 000 $O/p/a/x",
         "denyRead $O; denyRead $O/p/a; denyRead $O/p/a/x/*; allowRead $O/p; allowRead $O/p/a/y",
         "tmpfs $O; ro $O/p; tmpfs $O/p/a"},
        {"a name in one, hidden with what is above", "f $O/x/k; d $O/pub; m 000 $O/x",
         "denyRead $O; denyRead $O/x/k; allowRead $O/pub", "tmpfs $O; ro $O/pub"},
    };
    (void)state;
    mounts_fixture_as_user(true);
    CHECK(rows);
    mounts_fixture_as_user(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deny),
        cmocka_unit_test(test_bind_back),
        cmocka_unit_test(test_replaceable_links),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_with_write_rules),
        cmocka_unit_test(test_home),
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_unsearchable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
