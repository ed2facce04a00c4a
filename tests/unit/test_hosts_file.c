#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "proxy/net/hosts_file.h"

enum { MAX = 8 };

/* The addresses joined by spaces. */
static void join(const struct address *addresses, size_t count, char *out, size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_TEXT_MAX];
        address_format(&addresses[i], text);
        n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? " " : "", text);
    }
}

static void check(const char *text, size_t n, const char *name, const char *expected)
{
    struct hosts_table *t = hosts_table_new(text, n);
    struct address found[MAX];
    char got[512];

    join(found, hosts_table_find(t, name, strlen(name), found, MAX), got, sizeof(got));
    if (strcmp(got, expected) != 0)
        fail_msg("\"%s\", %s: got \"%s\", not \"%s\"", text, name, got, expected);
    hosts_table_free(t);
}

static void test_lines(void **state)
{
    static const struct {
        const char *text, *name, *expected;
    } cases[] = {
        {"", "a", ""},
        {"10.0.0.1 a", "a", "10.0.0.1"},
        {"10.0.0.1 a\n", "a", "10.0.0.1"},
        {"10.0.0.1\ta b\tc\n", "c", "10.0.0.1"},
        {"  10.0.0.1   a  \n", "a", "10.0.0.1"},
        {"10.0.0.1 a\r\n10.0.0.2 b\r\n", "a", "10.0.0.1"},
        {"10.0.0.1 A.Example\n", "a.example", "10.0.0.1"},
        {"10.0.0.1 a.example.\n", "a.example", "10.0.0.1"},
        {"10.0.0.1 ab\n", "a", ""},
        {"10.0.0.1 a\n", "ab", ""},
        {"10.0.0.1 .\n", "", ""},
        {"10.0.0.1\n", "10.0.0.1", ""},
        {"# 10.0.0.1 a\n", "a", ""},
        {"10.0.0.1 a # b\n", "b", ""},
        {"10.0.0.1 a#b\n", "a", "10.0.0.1"},
        {"10.0.0.1 #a\n", "a", ""},
        {"#\n#\n\n\n10.0.0.1 a\n\n", "a", "10.0.0.1"},
        {"10.0.0.1 a\n10.0.0.2 b\n10.0.0.3 a\n", "a", "10.0.0.1 10.0.0.3"},
        {"10.0.0.1 a\nfd00::1 a\n10.0.0.2 a\n", "a", "10.0.0.1 fd00::1 10.0.0.2"},
        {"::ffff:10.0.0.1 a\n", "a", "10.0.0.1"},
        {"fe80::1%lo a\n", "a", "fe80::1"},
        {"010.0.0.1 a\n", "a", ""},
        {"10.1 a\n", "a", ""},
        {"a 10.0.0.1\n", "a", ""},
        {"10.0.0.1,a\n", "a", ""},
        {"x\n10.0.0.1 a\n", "a", "10.0.0.1"},
        {"10.0.0.1 a a\n", "a", "10.0.0.1 10.0.0.1"},
        {"10.0.0.1 a_b-c.d\n", "a_b-c.d", "10.0.0.1"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        check(cases[i].text, strlen(cases[i].text), cases[i].name, cases[i].expected);
}

static void test_bytes_that_are_no_text(void **state)
{
    static const char text[] = "\0\n10.0.0.1 a\0b\n10.0.0.2 \xff\xfe b\n";
    (void)state;

    check(text, sizeof(text) - 1, "a", "");
    check(text, sizeof(text) - 1, "b", "10.0.0.2");
}

static void test_more_than_asked_for(void **state)
{
    static const char text[] = "10.0.0.1 a\n10.0.0.2 a\n10.0.0.3 a\n";
    struct hosts_table *t = hosts_table_new(text, sizeof(text) - 1);
    struct address found[2];
    (void)state;

    assert_int_equal(hosts_table_find(t, "a", 1, found, 2), 2);
    assert_int_equal(found[1].bytes[3], 2);
    hosts_table_free(t);
}

static void test_many_names(void **state)
{
    enum { NAMES = 20000 };
    char *text = mem_alloc(NAMES * 40);
    size_t n = 0;
    (void)state;

    for (unsigned i = 0; i < NAMES; i++)
        n += (size_t)snprintf(text + n, NAMES * 40 - n, "10.%u.%u.%u n%u.example\n", i >> 16,
                              i >> 8 & 255, i & 255, i);
    struct hosts_table *t = hosts_table_new(text, n);
    for (unsigned i = 0; i < NAMES; i++) {
        char name[32];
        struct address found[MAX];
        snprintf(name, sizeof(name), "n%u.example", i);
        assert_int_equal(hosts_table_find(t, name, strlen(name), found, MAX), 1);
        assert_int_equal(found[0].bytes[2] << 8 | found[0].bytes[3], i);
    }
    hosts_table_free(t);
    free(text);
}

static char directory[64], path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/hosts.XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/hosts", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    rmdir(path);
    return rmdir(directory);
}

static void write_file(const char *at, const char *text)
{
    FILE *f = fopen(at, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void check_file(struct hosts_file *h, const char *expected)
{
    struct address found[MAX];
    char got[512];

    join(found, hosts_file_find(h, "a", 1, found, MAX), got, sizeof(got));
    assert_string_equal(got, expected);
}

static void test_changes_are_seen(void **state)
{
    struct hosts_file *h = hosts_file_new(path);
    char other[112];
    (void)state;

    check_file(h, "");
    write_file(path, "10.0.0.1 a\n");
    check_file(h, "10.0.0.1");
    /* Same size, at once. */
    write_file(path, "10.0.0.2 a\n");
    check_file(h, "10.0.0.2");
    usleep(120000);
    check_file(h, "10.0.0.2");
    write_file(path, "10.0.0.3 a\n");
    check_file(h, "10.0.0.3");
    /* Another file in its place. */
    snprintf(other, sizeof(other), "%s.new", path);
    write_file(other, "10.0.0.4 a\n");
    assert_int_equal(rename(other, path), 0);
    check_file(h, "10.0.0.4");
    unlink(path);
    check_file(h, "");
    hosts_file_free(h);
}

static void test_not_a_regular_file(void **state)
{
    struct hosts_file *h = hosts_file_new(path);
    (void)state;

    assert_int_equal(mkfifo(path, 0600), 0);
    check_file(h, "");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    check_file(h, "");
    rmdir(path);
    write_file(path, "10.0.0.1 a\n");
    check_file(h, "10.0.0.1");
    hosts_file_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_more_than_asked_for),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test_setup_teardown(test_changes_are_seen, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(test_not_a_regular_file, make_directory, remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
