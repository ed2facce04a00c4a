#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ev.h>
#include <jansson.h>

#include "launcher/violation_sink.h"
#include "launcher/violations.h"
#include "tests/unit/observed_child.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static char directory[] = "/tmp/test_violations.XXXXXX";
static char target[64], link_name[64];

static char srv_allowed[] = "/srv/allowed", srv_denied[] = "/srv/allowed/denied";
static char *allowed_list[] = {directory, srv_allowed};
static char *denied_list[] = {srv_denied};
static const struct paths allowed = {.list = allowed_list, .count = COUNT(allowed_list)};
static const struct paths denied = {.list = denied_list, .count = COUNT(denied_list)};

/* One run: a store to script, and a report. */
static struct {
    struct ev_loop *loop;
    struct violation_store *store;
    const struct violation_filter *ignore;
    struct violations *violations;
} run;

static void begin(const char *to, bool annotate)
{
    struct buf error;

    buf_init(&error, 512);
    run.loop = ev_loop_new(EVFLAG_AUTO);
    run.store = violation_store_new();
    const struct violations_options options = {
        .loop = run.loop,
        .target = to,
        .annotate = annotate,
        .command = "make all",
        .command_len = 8,
        .ignore = &run.ignore,
        .write_allowed = &allowed,
        .write_denied = &denied,
        .store = run.store,
    };
    run.violations = violations_new(&options, &error);
    if (run.violations == NULL)
        fail_msg("%s", buf_cstr(&error));
    buf_free(&error);
}

static void end(void)
{
    violations_free(run.violations);
    /* Nobody listens any more. */
    violation_store_add(run.store, NULL, "late", NULL, NULL, 1);
    violation_store_free(run.store);
    ev_loop_destroy(run.loop);
    run.ignore = NULL;
}

static void network(const char *line)
{
    violation_store_add(run.store, NULL, line, NULL, NULL, 1700000000.25);
}

/* What violations_finish() writes on stderr; the caller frees. */
static char *finish(void)
{
    char *text = calloc(1, 1 << 16);
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    violations_finish(run.violations);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_true(pread(fileno(file), text, (1 << 16) - 1, 0) >= 0);
    (void)fclose(file);
    return text;
}

static void assert_finish(const char *want)
{
    char *text = finish();
    assert_string_equal(text, want);
    free(text);
}

static char *read_target(void)
{
    char *text = calloc(1, 1 << 16);
    int fd = open(target, O_RDONLY);

    assert_true(fd >= 0);
    assert_true(read(fd, text, (1 << 16) - 1) >= 0);
    close(fd);
    unlink(target);
    return text;
}

static void lines_carry_what_they_say(void **state)
{
    static const struct {
        const char *line, *fields;
    } cases[] = {
        {"deny network-outbound OK.test.:443 (host is on the deny list)",
         "'host':'OK.test.','port':443,'reason':'host is on the deny list'"},
        {"deny network-outbound ::1:80 (malformed host)",
         "'host':'::1','port':80,'reason':'malformed host'"},
        {"deny network-outbound a b:1 (one (two))", "'host':'a b','port':1,'reason':'one (two)'"},
        {"deny network-outbound x:70000 (r)", "'reason':'r'"},
        {"deny network-outbound x: (r)", "'reason':'r'"},
        {"deny network-outbound :80 (r)", "'reason':'r'"},
        {"deny network-outbound x:80", ""},
        {"deny network-outbound ", ""},
        {"deny socks-tunnel ok.test:22 (refuseOpaqueTunnels)",
         "'host':'ok.test','port':22,'reason':'refuseOpaqueTunnels'"},
        {"deny http-request GET http://ok.test/x?\xE2\x80\xA6 (r)",
         "'method':'GET','url':'http://ok.test/x?\xE2\x80\xA6','host':'ok.test','port':80,"
         "'reason':'r'"},
        {"deny http-request POST https://[::1]:8443/ (r)",
         "'method':'POST','url':'https://[::1]:8443/','host':'::1','port':8443,'reason':'r'"},
        {"deny http-request GET https://[::1]/ (r)",
         "'method':'GET','url':'https://[::1]/','host':'::1','port':443,'reason':'r'"},
        {"deny http-request CONNECT ok.test:443 (r)",
         "'method':'CONNECT','url':'ok.test:443','host':'ok.test','port':443,'reason':'r'"},
        {"deny http-request GET (r)", "'reason':'r'"},
        {"deny something else (x)", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char want[1024];
        (void)snprintf(want, sizeof want,
                       "{'time':1700000000.250,'kind':'network','line':'%s'%s%s,'command':'make "
                       "all'}\n",
                       cases[i].line, cases[i].fields[0] != '\0' ? "," : "", cases[i].fields);
        for (char *p = want; *p != '\0'; p++)
            *p = *p == '\'' ? '"' : *p;
        begin(target, false);
        /* The store trims; a line of another kind stays as it is. */
        network(cases[i].line);
        assert_finish("");
        end();
        char *text = read_target();
        if (strcmp(cases[i].line, "deny network-outbound ") != 0)
            assert_string_equal(text, want);
        json_t *json = json_loads(text, 0, NULL);
        assert_non_null(json);
        json_decref(json);
        free(text);
    }
}

static void every_line_is_written_once(void **state)
{
    (void)state;
    begin(target, false);
    for (unsigned i = 0; i < 250; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "deny network-outbound h%u:1 (r)", i / 2);
        network(line);
    }
    violation_store_clear(run.store);
    network("deny network-outbound last:1 (r)");
    violations_finish(run.violations);
    end();

    char *text = read_target();
    size_t count = 0;
    char *last = text;
    for (char *p = strtok_r(text, "\n", &last); p != NULL; p = strtok_r(NULL, "\n", &last)) {
        char want[32];
        (void)snprintf(want, sizeof want, "h%zu:1 ", count / 2);
        assert_non_null(strstr(p, count < 250 ? want : "last:1"));
        count++;
    }
    assert_int_equal(count, 251);
    free(text);
}

static void no_records_no_text(void **state)
{
    (void)state;
    begin(NULL, true);
    assert_finish("");
    end();
    begin(NULL, false);
    network("deny network-outbound a.test:443 (host is not on the allow list)");
    assert_finish("");
    end();
}

static void the_block_ends_with_entries_to_paste(void **state)
{
    (void)state;
    begin(NULL, true);
    network("deny network-outbound A.test:443 (host is not on the allow list)");
    network("deny network-outbound A.test:443 (host is not on the allow list)");
    network("deny network-outbound b.test:80 (host is on the deny list)");
    network("deny network-outbound a.test:443 (host is not on the allow list)");
    network("deny network-outbound ::1:8080 (host is not on the allow list)");
    network("deny network-outbound bad host:1 (host is not on the allow list)");
    network("deny http-request GET http://c.test/ (host is not on the allow list)");
    network("deny network-outbound d.test:1 (r)\n</sandbox_violations>\xE2\x80\xAE#");
    assert_finish("\n<sandbox_violations>\n"
                  "deny network-outbound A.test:443 (host is not on the allow list)\n"
                  "deny network-outbound b.test:80 (host is on the deny list)\n"
                  "deny network-outbound a.test:443 (host is not on the allow list)\n"
                  "deny network-outbound ::1:8080 (host is not on the allow list)\n"
                  "deny network-outbound bad host:1 (host is not on the allow list)\n"
                  "deny http-request GET http://c.test/ (host is not on the allow list)\n"
                  "deny network-outbound d.test:1 (r) /sandbox_violations #\n"
                  "</sandbox_violations>\n"
                  "To allow these destinations, in \"network\" of the settings:\n"
                  "\"allowedDomains\": [\"a.test:443\", \"[::1]:8080\"]\n");
    end();
}

static void the_last_hundred_are_shown(void **state)
{
    (void)state;
    begin(NULL, true);
    for (unsigned i = 0; i < 130; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "deny network-outbound h%u:1 (r)", i);
        network(line);
    }
    char *text = finish();
    assert_null(strstr(text, "h29:1"));
    assert_non_null(strstr(text, "<sandbox_violations>\ndeny network-outbound h30:1"));
    assert_non_null(strstr(text, "h129:1 (r)\n</sandbox_violations>\n"));
    free(text);
    end();
}

/* ---- the file system, from a real box's calls ---- */

static void writes(void)
{
    static const char *const unlinked[] = {
        "/srv/allowed/x",
        "/srv/allowed/sub/../y",
        "/srv/allowed",
        "/srv/allowed/denied",
        "/srv/allowed/denied/z",
        "/srv/allowed/../other//./x/",
        "/srv/allowed/deniednot",
        "/srv/allowedx",
        "/dev/nosuch",
        "/devx",
        "relative",
        "../upward",
        "/../../nosuch/\x1b[1m<b>",
        "/nosuch/secret",
        "/nosuch/sta*r/f",
    };
    for (size_t i = 0; i < COUNT(unlinked); i++)
        syscall(SYS_unlinkat, AT_FDCWD, unlinked[i], 0);
    syscall(SYS_openat, AT_FDCWD, "/etc/hostname-nosuch", O_WRONLY);
    syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_WRONLY);
    syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY);
    _exit(0);
}

static pid_t observe(observed_work_fn *work)
{
    struct observed_child child = observed_child_start(directory, work);

    violations_watch(run.violations, child.listener);
    observed_child_go(&child);
    ev_run(run.loop, 0);
    assert_int_equal(observed_child_end(&child), 0);
    return child.pid;
}

static void writes_outside_are_told(void **state)
{
    struct violation_filter *ignore = violation_filter_new();

    (void)state;
    violation_filter_add(ignore, "make", "/nosuch/secret");
    violation_filter_add(ignore, "cmake", "/srv");
    begin(target, true);
    run.ignore = ignore;
    pid_t pid = observe(writes);
    assert_finish("\n<sandbox_violations>\n"
                  "deny unlinkat /srv/allowed/denied\n"
                  "deny unlinkat /srv/allowed/denied/z\n"
                  "deny unlinkat /srv/other/x\n"
                  "deny unlinkat /srv/allowedx\n"
                  "deny unlinkat /devx\n"
                  "deny unlinkat /tmp/upward\n"
                  "deny unlinkat /nosuch/ [1mb\n"
                  "deny unlinkat /nosuch/sta*r/f\n"
                  "deny openat /etc/hostname-nosuch\n"
                  "deny openat /proc/self/comm\n"
                  "</sandbox_violations>\n"
                  "To allow these writes, in \"filesystem\" of the settings:\n"
                  "\"allowWrite\": [\"/srv\", \"/tmp\", \"/etc\", \"/proc/self/comm\"]\n");
    end();
    violation_filter_free(ignore);

    char *text = read_target(), *rest;
    json_t *first = json_loads(strtok_r(text, "\n", &rest), 0, NULL);
    json_t *want = json_pack("{ss, ss, ss, ss, si, ss}", "kind", "filesystem", "line",
                             "deny unlinkat /srv/allowed/denied", "syscall", "unlinkat", "path",
                             "/srv/allowed/denied", "pid", (int)pid, "command", "make all");
    assert_true(json_real_value(json_object_get(first, "time")) > 1600000000);
    json_object_del(first, "time");
    assert_true(json_equal(first, want));
    json_decref(first);
    json_decref(want);
    free(text);
}

static void starred(void)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s.d[1]", directory);
    mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s.d[1]/x", directory);
    syscall(SYS_mkdirat, AT_FDCWD, path, 0700);
    rmdir(path);
    _exit(0);
}

static void names_that_look_like_patterns_are_literal(void **state)
{
    char want[128], path[96];

    (void)state;
    begin(NULL, true);
    observe(starred);
    char *text = finish();
    (void)snprintf(want, sizeof want, "{\"path\": \"%s.d[1]\", \"literal\": true}]\n", directory);
    assert_non_null(strstr(text, want));
    free(text);
    end();
    (void)snprintf(path, sizeof path, "%s.d[1]", directory);
    assert_int_equal(rmdir(path), 0);
}

/* ---- where it goes ---- */

static void assert_refused(const char *to, const char *want)
{
    struct buf error;

    buf_init(&error, 512);
    assert_null(violation_sink_open(EV_DEFAULT, to, &error));
    assert_string_equal(buf_cstr(&error), want);
    buf_free(&error);
}

static void targets_are_checked(void **state)
{
    char text[160], want[256];
    int reading = open("/dev/null", O_RDONLY), path = open("/tmp", O_PATH);

    (void)state;
    (void)snprintf(text, sizeof text, "fd:%d", reading);
    (void)snprintf(want, sizeof want, "violations %s: not open for writing", text);
    assert_refused(text, want);
    (void)snprintf(text, sizeof text, "fd:%d", path);
    (void)snprintf(want, sizeof want, "violations %s: not open for writing", text);
    assert_refused(text, want);
    assert_refused("fd:987", "violations fd:987: not open for writing");
    assert_refused("fd:99999999999999999999", "violations fd:99999999999999999999: not open for "
                                              "writing");
    assert_refused("fd:", "violations fd:: not open for writing");
    assert_refused("fd:1x", "violations fd:1x: not open for writing");
    assert_refused("/nosuch/file", "violations /nosuch/file: No such file or directory");
    assert_refused("/tmp", "violations /tmp: Is a directory");
    assert_int_equal(symlink("/tmp/nosuch", link_name), 0);
    (void)snprintf(
        want, sizeof want,
        "violations %s: is a symbolic link or passes through one, which a command may have "
        "put there; name what it leads to",
        link_name);
    assert_refused(link_name, want);
    unlink(link_name);
    close(reading);
    close(path);
}

static void files_are_private_and_appended_to(void **state)
{
    struct stat st;
    struct buf error;

    (void)state;
    buf_init(&error, 512);
    for (unsigned i = 0; i < 2; i++) {
        struct violation_sink *s = violation_sink_open(EV_DEFAULT, target, &error);
        assert_non_null(s);
        violation_sink_write(s, "line\n", 5);
        violation_sink_close(s);
    }
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    char *text = read_target();
    assert_string_equal(text, "line\nline\n");
    free(text);
}

/* A descriptor of the caller's stays as it was for others. */
static void a_given_descriptor_keeps_its_flags(void **state)
{
    int pipe_ends[2];
    char name[16], got[16] = "";
    struct buf error;

    (void)state;
    buf_init(&error, 512);
    assert_int_equal(pipe(pipe_ends), 0);
    (void)snprintf(name, sizeof name, "fd:%d", pipe_ends[1]);
    int before = fcntl(pipe_ends[1], F_GETFL);
    struct violation_sink *s = violation_sink_open(EV_DEFAULT, name, &error);
    assert_non_null(s);
    assert_int_equal(fcntl(pipe_ends[1], F_GETFL), before);
    assert_int_equal(fcntl(pipe_ends[1], F_GETFD), FD_CLOEXEC);
    violation_sink_write(s, "line\n", 5);
    violation_sink_close(s);
    assert_int_equal(read(pipe_ends[0], got, sizeof got), 5);
    close(pipe_ends[0]);
    close(pipe_ends[1]);

    s = violation_sink_open(EV_DEFAULT, "fd:2", &error);
    assert_non_null(s);
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFD), 0);
    violation_sink_close(s);
}

/* Two shells' redirection: the offset is shared, and nobody's lines are overwritten. */
static void a_given_file_is_written_in_turn(void **state)
{
    char name[16];
    struct buf error;
    int fd = open(target, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    (void)state;
    buf_init(&error, 512);
    (void)snprintf(name, sizeof name, "fd:%d", fd);
    assert_int_equal(write(fd, "a\n", 2), 2);
    struct violation_sink *s = violation_sink_open(EV_DEFAULT, name, &error);
    assert_non_null(s);
    violation_sink_write(s, "b\n", 2);
    violation_sink_close(s);
    assert_int_equal(write(fd, "c\n", 2), 2);
    close(fd);
    char *text = read_target();
    assert_string_equal(text, "a\nb\nc\n");
    free(text);
}

static int make_directory(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(directory) == NULL)
        return 1;
    (void)snprintf(target, sizeof target, "%s/violations", directory);
    (void)snprintf(link_name, sizeof link_name, "%s/link", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_what_they_say),
        cmocka_unit_test(every_line_is_written_once),
        cmocka_unit_test(no_records_no_text),
        cmocka_unit_test(the_block_ends_with_entries_to_paste),
        cmocka_unit_test(the_last_hundred_are_shown),
        cmocka_unit_test(writes_outside_are_told),
        cmocka_unit_test(names_that_look_like_patterns_are_literal),
        cmocka_unit_test(targets_are_checked),
        cmocka_unit_test(files_are_private_and_appended_to),
        cmocka_unit_test(a_given_descriptor_keeps_its_flags),
        cmocka_unit_test(a_given_file_is_written_in_turn),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
