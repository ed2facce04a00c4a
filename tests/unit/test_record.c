/* The decision log: the lines, and a log that may fail without harm. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/egress/record.h"

static char directory[] = "/tmp/test_record.XXXXXX";
static char path[64];

static int make_directory(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/log", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void assert_line(const struct record *r, double now, const char *expected)
{
    struct buf out;

    buf_init(&out, 65536);
    record_format(&out, r, now);
    assert_string_equal(buf_cstr(&out), expected);
    buf_free(&out);
}

static void from_ipv4(struct record *r)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(5555)};

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&peer, &v4, sizeof v4);
    record_set_client(r, &peer);
}

static void test_empty(void **state)
{
    struct record r;

    (void)state;
    record_init(&r, 1000);
    assert_line(&r, 1000,
                "{\"time\":\"1970-01-01T00:16:40.000Z\",\"client\":\"local\",\"via\":null,"
                "\"host\":null,\"port\":0,\"verdict\":null,\"rule\":null,\"bytesUp\":0,"
                "\"bytesDown\":0,\"durationMs\":0,\"close\":\"done\"}\n");
    record_free(&r);
}

static void test_denial(void **state)
{
    const struct decision d = {.verdict = VERDICT_DENY,
                               .list = "network.deniedDomains",
                               .index = 3,
                               .entry = "*.evil.test",
                               .reason = "no \"evil\"\nhere"};
    struct record r;

    (void)state;
    record_init(&r, 1767323045.0);
    from_ipv4(&r);
    record_set_user(&r, "srt.bHMgLWwK", 12);
    record_set_host(&r, "a.evil.test", 11);
    record_set_decision(&r, &d);
    r.via = VIA_CONNECT;
    r.port = 443;
    r.status = 403;
    r.close = ERR_POLICY;
    assert_line(&r, 1767323045.678,
                "{\"time\":\"2026-01-02T03:04:05.678Z\",\"client\":\"127.0.0.1:5555\","
                "\"user\":\"ls -l\",\"via\":\"connect\",\"host\":\"a.evil.test\",\"port\":443,"
                "\"verdict\":\"deny\",\"rule\":\"network.deniedDomains[3]\","
                "\"entry\":\"*.evil.test\",\"reason\":\"no \\\"evil\\\" here\",\"status\":403,"
                "\"bytesUp\":0,\"bytesDown\":0,\"durationMs\":678,\"close\":\"policy\"}\n");
    record_free(&r);
}

static void test_allowed_with_upstream_failure(void **state)
{
    const struct decision d = {.verdict = VERDICT_ALLOW,
                               .list = "network.allowedDomains",
                               .index = 0,
                               .entry = "ok.test",
                               .reason = "not a denial"};
    struct sockaddr_storage peer = {0};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(1), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct record r;

    (void)state;
    record_init(&r, 10);
    memcpy(&peer, &v6, sizeof v6);
    record_set_client(&r, &peer);
    record_set_host(&r, "ok.test", 7);
    record_set_method(&r, "GET", 3);
    record_set_decision(&r, &d);
    r.via = VIA_HTTP;
    r.port = 80;
    r.status = 502;
    r.error = ERR_UPSTREAM_REFUSED;
    r.bytes_up = 12;
    r.bytes_down = UINT64_MAX;
    r.close = ERR_IDLE_TIMEOUT;
    assert_line(&r, 11,
                "{\"time\":\"1970-01-01T00:00:11.000Z\",\"client\":\"[::1]:1\",\"via\":\"http\","
                "\"method\":\"GET\",\"host\":\"ok.test\",\"port\":80,\"verdict\":\"allow\","
                "\"rule\":\"network.allowedDomains[0]\",\"entry\":\"ok.test\",\"status\":502,"
                "\"error\":\"upstream-refused\",\"bytesUp\":12,"
                "\"bytesDown\":18446744073709551615,\"durationMs\":1000,\"close\":\"idle\"}\n");
    record_free(&r);
}

static json_t *parsed(const struct record *r)
{
    struct buf out;
    json_error_t error;

    buf_init(&out, 65536);
    record_format(&out, r, 1);
    const char *line = buf_cstr(&out);
    assert_int_equal(line[buf_len(&out) - 1], '\n');
    assert_ptr_equal(memchr(line, '\n', buf_len(&out)), line + buf_len(&out) - 1);
    json_t *document = json_loadb(line, buf_len(&out), JSON_REJECT_DUPLICATES, &error);
    if (document == NULL)
        fail_msg("%s: %s", error.text, line);
    buf_free(&out);
    return document;
}

static void assert_field(const struct record *r, const char *name, const char *value)
{
    json_t *document = parsed(r);
    const char *found = json_string_value(json_object_get(document, name));

    assert_non_null(found);
    assert_string_equal(found, value);
    json_decref(document);
}

static void test_socks_status_and_classes(void **state)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNIX};
    struct record r;

    (void)state;
    record_init(&r, 0);
    record_set_client(&r, &peer);
    r.via = VIA_SOCKS5;
    r.status = 0;
    r.address_classes = 1U << ADDRESS_LOOPBACK | 1U << ADDRESS_METADATA | 1U << ADDRESS_KEPT;
    assert_field(&r, "client", "unix");
    assert_field(&r, "via", "socks5");
    assert_field(&r, "addressClass", "loopback,metadata");
    json_t *document = parsed(&r);
    assert_true(json_is_integer(json_object_get(document, "status")));
    json_decref(document);
    for (unsigned c = 1; c < ADDRESS_CLASSES; c++) {
        r.address_classes = 1U << c;
        document = parsed(&r);
        assert_non_null(json_object_get(document, "addressClass"));
        json_decref(document);
    }
    record_free(&r);
}

static void test_hostile_bytes(void **state)
{
    static const char prefix[4] = {'s', 'r', 't', '.'};
    char long_host[5000];
    struct record r;

    (void)state;
    record_init(&r, 0);
    record_set_host(&r, "a\"\\\n\0\xff<b>", 9);
    assert_field(&r, "host",
                 "a\"\\ \xef\xbf\xbd"
                 "b");
    record_set_method(&r, "G\"T\x1b", 4);
    assert_field(&r, "method", "G\"T");
    memset(long_host, '"', sizeof long_host);
    record_set_host(&r, long_host, sizeof long_host);
    record_set_method(&r, long_host, sizeof long_host);
    assert_int_equal(strlen(r.host), 255);
    assert_int_equal(strlen(r.method), 32);
    long_host[sizeof long_host - 1] = 0;
    const struct decision d = {
        .verdict = VERDICT_ASK, .list = "x", .entry = long_host, .reason = long_host};
    record_set_decision(&r, &d);
    assert_field(&r, "verdict", "deny");
    assert_int_equal(strlen(r.reason), 500);
    /* srt. and 251 bytes of base64: the longest key there can be */
    char user[255];
    memset(user, 'A', sizeof user);
    memcpy(user, prefix, sizeof prefix);
    record_set_user(&r, user, sizeof user);
    json_decref(parsed(&r));
    record_free(&r);
}

static void test_users_without_key(void **state)
{
    static const char *const users[] = {"", "srt", "srt.", "bob", "SRT.bHM="};
    struct record r;

    (void)state;
    record_init(&r, 0);
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        record_set_user(&r, "srt.bHM=", 8);
        assert_string_equal(r.user, "ls");
        record_set_user(&r, users[i], strlen(users[i]));
        assert_null(r.user);
    }
    record_free(&r);
}

static void test_next_request(void **state)
{
    struct record r;

    (void)state;
    record_init(&r, 0);
    from_ipv4(&r);
    record_set_user(&r, "srt.bHM=", 8);
    record_set_host(&r, "ok.test", 7);
    record_set_method(&r, "GET", 3);
    r.bytes_up = 5;
    r.status = 200;
    record_next(&r, 7);
    assert_string_equal(r.user, "ls");
    assert_int_equal(r.client, CLIENT_ADDRESS);
    assert_int_equal(r.client_port, 5555);
    assert_null(r.host);
    assert_null(r.method);
    assert_int_equal(r.bytes_up, 0);
    assert_int_equal(r.status, RECORD_NO_STATUS);
    assert_true(r.started == 7);
    record_free(&r);
    assert_null(r.user);
}

static struct line_log *open_log(const char *name)
{
    struct buf error;

    buf_init(&error, 1024);
    struct line_log *log = line_log_open("decision log", name, STDOUT_FILENO, false, &error);
    if (log == NULL)
        fail_msg("%s", buf_cstr(&error));
    buf_free(&error);
    return log;
}

/* The file's content, at most size - 1 bytes. */
static size_t read_file(const char *name, char *to, size_t size)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = 0;

    assert_true(fd >= 0);
    while (len < size - 1 && (n = read(fd, to + len, size - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    to[len] = 0;
    return len;
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;

    for (; *text != 0; text++)
        lines += *text == '\n';
    return lines;
}

static void test_file(void **state)
{
    char content[4096];
    struct record r;
    struct stat st;

    (void)state;
    record_init(&r, 0);
    mode_t old = umask(0);
    struct line_log *log = open_log(path);
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    record_log(log, &r, 1);
    record_log(log, &r, 2);
    assert_int_equal(read_file(path, content, sizeof content), 0);
    assert_false(line_log_flush(log));
    read_file(path, content, sizeof content);
    assert_int_equal(count_lines(content), 2);
    record_log(log, &r, 3);
    line_log_close(log);
    log = open_log(path);
    record_log(log, &r, 4);
    line_log_close(log);
    read_file(path, content, sizeof content);
    assert_int_equal(count_lines(content), 4);
    unlink(path);
}

static void test_reopen(void **state)
{
    char content[4096];
    char old_path[80];
    struct record r;
    struct buf error;

    (void)state;
    record_init(&r, 0);
    buf_init(&error, 1024);
    snprintf(old_path, sizeof old_path, "%s.1", path);
    struct line_log *log = open_log(path);
    record_log(log, &r, 1);
    assert_int_equal(rename(path, old_path), 0);
    assert_true(line_log_reopen(log, &error));
    record_log(log, &r, 2);
    line_log_flush(log);
    read_file(old_path, content, sizeof content);
    assert_int_equal(count_lines(content), 1);
    read_file(path, content, sizeof content);
    assert_int_equal(count_lines(content), 1);

    /* A path that cannot be opened: the old file goes on. */
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(line_log_reopen(log, &error));
    assert_non_null(strstr(buf_cstr(&error), path));
    record_log(log, &r, 3);
    assert_false(line_log_flush(log));
    line_log_close(log);
    rmdir(path);
    unlink(old_path);
    buf_free(&error);
}

static void test_cannot_open(void **state)
{
    struct buf error;

    (void)state;
    buf_init(&error, 1024);
    assert_null(line_log_open("decision log", "/nonexistent/log", STDOUT_FILENO, false, &error));
    assert_non_null(strstr(buf_cstr(&error), "/nonexistent/log"));
    buf_clear(&error);
    assert_int_equal(symlink("/nonexistent/log", path), 0);
    assert_null(line_log_open("decision log", path, STDOUT_FILENO, true, &error));
    assert_non_null(strstr(buf_cstr(&error), "is a symbolic link"));
    unlink(path);
    buf_free(&error);
}

static void test_no_log(void **state)
{
    struct record r;

    (void)state;
    record_init(&r, 0);
    record_log(NULL, &r, 0);
    assert_false(line_log_flush(NULL));
    assert_true(line_log_reopen(NULL, NULL));
    assert_int_equal(line_log_dropped(NULL), 0);
    line_log_close(NULL);
}

/* stderr goes to a file while `body` runs; its content is returned. */
static char warnings[8192];
static int begin_warnings(void)
{
    char name[80];
    int saved = dup(STDERR_FILENO);

    snprintf(name, sizeof name, "%s.err", path);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return saved;
}

static void end_warnings(int saved)
{
    char name[80];

    snprintf(name, sizeof name, "%s.err", path);
    dup2(saved, STDERR_FILENO);
    close(saved);
    read_file(name, warnings, sizeof warnings);
    unlink(name);
}

/* A disk that is full: nothing blocks, lines are dropped, counted, and reported once. */
static void test_full_disk(void **state)
{
    struct record r;

    (void)state;
    record_init(&r, 0);
    int saved = begin_warnings();
    struct line_log *log = open_log("/dev/full");
    for (int i = 0; i < 1000; i++) {
        record_log(log, &r, 1);
        assert_true(line_log_flush(log));
    }
    uint64_t dropped = line_log_dropped(log);
    line_log_close(log);
    end_warnings(saved);
    assert_in_range(dropped, 300, 900);
    assert_int_equal(count_lines(warnings), 1);
    assert_non_null(strstr(warnings, "No space left on device"));
}

/* A reader that stops and comes back: no line is torn, the loss is told. */
static void test_slow_reader(void **state)
{
    static char content[1 << 20];
    struct record r;
    size_t len = 0;

    (void)state;
    record_init(&r, 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    int saved = begin_warnings();
    struct line_log *log = open_log(path);
    for (int i = 0; i < 3000; i++)
        record_log(log, &r, 1);
    assert_true(line_log_flush(log));
    uint64_t dropped = line_log_dropped(log);
    assert_true(dropped > 0);
    bool left;
    do {
        left = line_log_flush(log);
        ssize_t n = read(reader, content + len, sizeof content - 1 - len);
        if (n > 0)
            len += (size_t)n;
    } while (left);
    record_log(log, &r, 1);
    line_log_close(log);
    ssize_t n;
    while ((n = read(reader, content + len, sizeof content - 1 - len)) > 0)
        len += (size_t)n;
    end_warnings(saved);
    close(reader);
    unlink(path);

    content[len] = 0;
    assert_int_equal(count_lines(content), 3001 - dropped);
    for (const char *line = content; *line != 0; line = strchr(line, '\n') + 1)
        assert_int_equal(strncmp(line, "{\"time\":", 8), 0);
    assert_int_equal(count_lines(warnings), 2);
    assert_non_null(strstr(warnings, "lines were dropped"));
}

/* A line cut by a full disk does not continue in the file that follows a rotation. */
static void test_reopen_after_a_torn_line(void **state)
{
    char content[4096];
    struct record r;
    int status = 0;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 100, .rlim_max = RLIM_INFINITY};
        struct buf error;
        buf_init(&error, 1024);
        record_init(&r, 0);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        struct line_log *log = line_log_open("decision log", path, STDOUT_FILENO, false, &error);
        record_log(log, &r, 1);
        record_log(log, &r, 2);
        bool left = line_log_flush(log);
        limit.rlim_cur = RLIM_INFINITY;
        setrlimit(RLIMIT_FSIZE, &limit);
        unlink(path);
        /* The old file is full for good: it is gone. */
        limit.rlim_cur = 100;
        setrlimit(RLIMIT_FSIZE, &limit);
        bool reopened = line_log_reopen(log, &error);
        limit.rlim_cur = RLIM_INFINITY;
        setrlimit(RLIMIT_FSIZE, &limit);
        uint64_t dropped = line_log_dropped(log);
        line_log_close(log);
        _exit(left && reopened && dropped == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    read_file(path, content, sizeof content);
    assert_int_equal(count_lines(content), 1);
    assert_int_equal(strncmp(content, "{\"time\":\"1970-01-01T00:00:02", 27), 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_denial),
        cmocka_unit_test(test_allowed_with_upstream_failure),
        cmocka_unit_test(test_socks_status_and_classes),
        cmocka_unit_test(test_hostile_bytes),
        cmocka_unit_test(test_users_without_key),
        cmocka_unit_test(test_next_request),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_cannot_open),
        cmocka_unit_test(test_no_log),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_reopen_after_a_torn_line),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
