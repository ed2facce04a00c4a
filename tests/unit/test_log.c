/* Lines on stderr: prefixes, one write a line, nothing forged. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

static char captured[65536];
static int saved_stderr;
static int capture[2];

/* A datagram socket shows where one write ends. */
static void begin(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, capture), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_int_equal(dup2(capture[1], STDERR_FILENO), STDERR_FILENO);
}

/* The one write since begin(), "" when there was none. */
static const char *end(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(capture[1]);
    ssize_t n = recv(capture[0], captured, sizeof captured - 1, 0);
    assert_true(n >= 0);
    captured[n] = 0;
    if (n != 0)
        assert_int_equal(recv(capture[0], captured + n, sizeof captured - 1 - (size_t)n, 0), 0);
    close(capture[0]);
    return captured;
}

static int evaluated;
static int evaluate(void)
{
    return ++evaluated;
}

static void test_debug_off(void **state)
{
    (void)state;
    assert_false(log_debug_enabled);
    begin();
    log_debug("%d", evaluate());
    assert_string_equal(end(), "");
    assert_int_equal(evaluated, 0);
}

static void test_debug_on(void **state)
{
    (void)state;
    log_debug_enable();
    begin();
    log_debug("%d of %s", evaluate(), "x");
    assert_string_equal(end(), "[SandboxDebug] 1 of x\n");
    begin();
    log_debug("plain");
    assert_string_equal(end(), "[SandboxDebug] plain\n");
}

static void test_prefixes(void **state)
{
    (void)state;
    begin();
    log_warning("w %d", 1);
    assert_string_equal(end(), "srt: warning: w 1\n");
    begin();
    log_error("e");
    assert_string_equal(end(), "srt: e\n");
    log_set_program("srt proxy");
    begin();
    log_error("e");
    assert_string_equal(end(), "srt proxy: e\n");
    log_set_program("srt");
}

static void test_hostile_bytes(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\nsrt: forged", "srt: a\\x0asrt: forged\n"},
        {"\r\x1b[2J\x7f", "srt: \\x0d\\x1b[2J\\x7f\n"},
        {"t\tt", "srt: t\\x09t\n"},
        {"csi \xc2\x9b", "srt: csi \\xc2\\x9b\n"},
        {"raw \x9b \xff", "srt: raw \\x9b \\xff\n"},
        {"\xc3\xbc", "srt: \xc3\xbc\n"},
        {"no\xe2\x80\xaegnp", "srt: no\\xe2\\x80\\xaegnp\n"},
        {"\xe2\x80\x8a|\xe2\x80\x8b|\xe2\x80\x8f|\xe2\x80\x90",
         "srt: \xe2\x80\x8a|\\xe2\\x80\\x8b|\\xe2\\x80\\x8f|\xe2\x80\x90\n"},
        {"\xe2\x81\x9f|\xe2\x81\xa0|\xe2\x81\xa5|\xe2\x81\xa9",
         "srt: \xe2\x81\x9f|\\xe2\\x81\\xa0|\\xe2\\x81\\xa5|\\xe2\\x81\\xa9\n"},
        {"\xef\xbb\xbf\xef\xbb\xbe", "srt: \\xef\\xbb\\xbf\xef\xbb\xbe\n"},
        {"\xf0\x9f\x98\x80 \xd7\x90", "srt: \xf0\x9f\x98\x80 \xd7\x90\n"},
        {"back\\slash", "srt: back\\slash\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        log_error("%s", cases[i].in);
        assert_string_equal(end(), cases[i].out);
    }
}

static void test_long_message(void **state)
{
    char text[20000];

    (void)state;
    memset(text, '\n', sizeof text);
    text[sizeof text - 1] = 0;
    begin();
    log_error("%s", text);
    const char *line = end();
    size_t n = strlen(line);
    assert_in_range(n, 1000, 10000);
    assert_string_equal(line + n - 4, "\xe2\x80\xa6\n");
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    int saved = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = ENOENT;
    log_error("lost");
    int number = errno;
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(number, ENOENT);
}

static void test_held(void **state)
{
    (void)state;
    begin();
    log_hold(true);
    log_warning("one");
    assert_string_equal(end(), "");
    begin();
    log_hold(false);
    assert_string_equal(end(), "srt: warning: one\n");
    begin();
    log_hold(false);
    assert_string_equal(end(), "");
    /* What there is no room for is lost, and nothing else. */
    log_hold(true);
    for (int i = 0; i < 10000; i++)
        log_warning("%d", i);
    begin();
    log_hold(false);
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(capture[1]);
    int lines = 0;
    while (recv(capture[0], captured, sizeof captured, 0) > 0)
        lines++;
    close(capture[0]);
    assert_in_range(lines, 1, 9999);
    begin();
    log_warning("two");
    assert_string_equal(end(), "srt: warning: two\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held),          cmocka_unit_test(test_debug_off),
        cmocka_unit_test(test_debug_on),      cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_hostile_bytes), cmocka_unit_test(test_long_message),
        cmocka_unit_test(test_errno_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
