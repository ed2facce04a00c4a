/* Listeners: what may be asked for, what comes out, what is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/net/listen.h"

static char directory[] = "/tmp/test_listen.XXXXXX";
static char path[64];
static char spec_text[80];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(spec_text, sizeof spec_text, "unix:%s", path);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* Parses and opens; NULL with the message in `message`. */
static char message[1024];
static struct listener *open_text(const char *text, unsigned flags)
{
    struct listen_spec spec;
    struct listener *l = NULL;
    struct buf error;

    buf_init(&error, sizeof message - 1);
    if (listen_parse(text, &spec, &error))
        l = listener_open(&spec, flags, &error);
    snprintf(message, sizeof message, "%s", buf_cstr(&error));
    buf_free(&error);
    return l;
}

static struct listener *open_fd(int fd)
{
    struct listen_spec spec;
    struct buf error;

    buf_init(&error, sizeof message - 1);
    listen_inherited(fd, &spec);
    struct listener *l = listener_open(&spec, 0, &error);
    snprintf(message, sizeof message, "%s", buf_cstr(&error));
    buf_free(&error);
    return l;
}

static void assert_fails(const char *text, unsigned flags, const char *why)
{
    assert_null(open_text(text, flags));
    if (strstr(message, why) == NULL)
        fail_msg("%s: '%s' does not hold '%s'", text, message, why);
}

static int connect_to(const struct listener *l)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof ss;

    assert_int_equal(getsockname(l->fd, (struct sockaddr *)&ss, &len), 0);
    int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), 0);
    return fd;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void test_parse(void **state)
{
    static const struct {
        const char *text;
        unsigned family, first, port;
    } good[] = {
        {"127.0.0.1:3128", 4, 127, 3128},
        {"localhost:0", 4, 127, 0},
        {"[::1]:65535", 6, 0, 65535},
        {"127.1.2.3:00080", 4, 127, 80},
        {"0.0.0.0:1", 4, 0, 1},
        {"[2001:db8::1]:2", 6, 0x20, 2},
        {"[::ffff:127.0.0.1]:2", 4, 127, 2},
    };
    static const char *const bad[] = {
        "",
        "127.0.0.1",
        ":3128",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "::1:3128",
        "[::1]",
        "[127.0.0.1]:80",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1: 1",
        "127.0.0.1:1x",
        "127.1:80",
        "proxy.test:80",
        "LOCALHOST.:80",
        "unix:",
        "127.0.0.1:99999999999999999999",
        " 127.0.0.1:80",
        "*:80",
    };
    struct listen_spec spec;
    struct buf error;

    (void)state;
    buf_init(&error, 4096);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(listen_parse(good[i].text, &spec, &error));
        assert_int_equal(spec.kind, LISTEN_TCP);
        assert_int_equal(spec.address.family, good[i].family);
        assert_int_equal(spec.address.bytes[0], good[i].first);
        assert_int_equal(spec.port, good[i].port);
        assert_string_equal(spec.text, good[i].text);
    }
    assert_int_equal(buf_len(&error), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_clear(&error);
        if (listen_parse(bad[i], &spec, &error))
            fail_msg("'%s' is accepted", bad[i]);
        assert_true(strncmp(buf_cstr(&error), bad[i], strlen(bad[i])) == 0);
    }
    buf_free(&error);
}

static void test_parse_lengths(void **state)
{
    char text[1000];
    struct listen_spec spec;
    struct buf error;

    (void)state;
    buf_init(&error, 4096);
    memset(text, 'x', sizeof text);
    memcpy(text, "unix:", 5);
    text[sizeof text - 1] = 0;
    assert_false(listen_parse(text, &spec, &error));
    text[5 + 108] = 0;
    assert_false(listen_parse(text, &spec, &error));
    text[5 + 107] = 0;
    assert_true(listen_parse(text, &spec, &error));
    assert_int_equal(strlen(spec.path), 107);
    buf_free(&error);
}

static void check_tcp(const char *text, int family, const char *prefix)
{
    struct sockaddr_storage peer;

    struct listener *l = open_text(text, 0);
    if (l == NULL) {
        fail_msg("%s", message);
        return;
    }
    assert_true(l->port != 0);
    char expected[64];
    snprintf(expected, sizeof expected, "%s:%u", prefix, (unsigned)l->port);
    assert_string_equal(l->address, expected);
    assert_true(l->loopback);
    assert_false(l->is_unix);
    assert_true(fcntl(l->fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(l->fd, F_GETFD) & FD_CLOEXEC);

    assert_int_equal(listener_accept(l, &peer), -1);
    assert_int_equal(errno, EAGAIN);
    int client = connect_to(l);
    int fd = listener_accept(l, &peer);
    assert_true(fd >= 0);
    assert_int_equal(peer.ss_family, family);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    close(fd);
    close(client);
    listener_close(&l);
    assert_null(l);
    listener_close(&l);
}

static void test_tcp(void **state)
{
    (void)state;
    check_tcp("127.0.0.1:0", AF_INET, "127.0.0.1");
    check_tcp("localhost:0", AF_INET, "127.0.0.1");
    check_tcp("127.0.0.9:0", AF_INET, "127.0.0.9");
}

static void test_ipv6(void **state)
{
    (void)state;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0)
        close(fd);
    if (!have)
        skip();
    check_tcp("[::1]:0", AF_INET6, "[::1]");
    struct listener *l = open_text("[::]:0", LISTEN_ANY_INTERFACE);
    assert_non_null(l);
    assert_int_equal(option(l->fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    assert_false(l->loopback);
    listener_close(&l);
}

static void test_loopback_only(void **state)
{
    static const char *const others[] = {"0.0.0.0:0",    "[::]:0",   "10.0.0.1:80",
                                         "128.0.0.1:80", "[::2]:80", "[fe80::1]:80"};

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_fails(others[i], LISTEN_REUSE_PORT, " is not a loopback address");
        assert_int_equal(strncmp(message, others[i], strlen(others[i])), 0);
    }
    assert_fails("proxy.test:80", 0, " is not a loopback address");
    struct listener *l = open_text("0.0.0.0:0", LISTEN_ANY_INTERFACE);
    assert_non_null(l);
    assert_false(l->loopback);
    listener_close(&l);
}

static void test_port_in_use(void **state)
{
    (void)state;
    struct listener *l = open_text("127.0.0.1:0", 0);
    assert_non_null(l);
    assert_fails(l->address, 0, "Address already in use");
    assert_fails(l->address, LISTEN_REUSE_PORT, "Address already in use");
    listener_close(&l);
}

static void test_reuse_port(void **state)
{
    (void)state;
    struct listener *one = open_text("127.0.0.1:0", LISTEN_REUSE_PORT);
    assert_non_null(one);
    struct listener *two = open_text(one->address, LISTEN_REUSE_PORT);
    assert_non_null(two);
    assert_string_equal(one->address, two->address);
    listener_close(&one);
    listener_close(&two);
}

static mode_t mode_of_path(void)
{
    struct stat st;

    return lstat(path, &st) == 0 ? st.st_mode : 0;
}

static void test_unix(void **state)
{
    struct sockaddr_storage peer;

    (void)state;
    mode_t old = umask(0);
    struct listener *l = open_text(spec_text, 0);
    umask(old);
    if (l == NULL) {
        fail_msg("%s", message);
        return;
    }
    assert_string_equal(l->address, spec_text);
    assert_true(l->is_unix && l->loopback);
    assert_int_equal(l->port, 0);
    assert_true(S_ISSOCK(mode_of_path()));
    assert_int_equal(mode_of_path() & 07777, 0600);
    int client = connect_to(l);
    int fd = listener_accept(l, &peer);
    assert_true(fd >= 0);
    assert_int_equal(peer.ss_family, AF_UNIX);
    close(fd);
    close(client);
    assert_fails(spec_text, 0, "Address already in use");
    assert_int_equal(mode_of_path() & 07777, 0600);
    listener_close(&l);
    assert_int_equal(mode_of_path(), 0);
}

static void make_stale(void)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};

    snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof sun), 0);
    close(fd);
}

static void test_unix_stale(void **state)
{
    (void)state;
    make_stale();
    struct listener *l = open_text(spec_text, 0);
    assert_non_null(l);
    listener_close(&l);

    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_fails(spec_text, 0, "File exists");
    assert_true(S_ISREG(mode_of_path()));
    unlink(path);

    assert_int_equal(symlink("/nowhere", path), 0);
    assert_fails(spec_text, 0, "File exists");
    assert_true(S_ISLNK(mode_of_path()));
    unlink(path);

    if (geteuid() == 0) {
        make_stale();
        assert_int_equal(lchown(path, 12345, 12345), 0);
        assert_fails(spec_text, 0, "File exists");
        unlink(path);
    }
}

static void test_unix_removes_only_its_own(void **state)
{
    int status = 0;

    (void)state;
    struct listener *l = open_text(spec_text, 0);
    assert_non_null(l);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        listener_close(&l);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(S_ISSOCK(mode_of_path()));

    char moved[80];
    snprintf(moved, sizeof moved, "%s.old", path);
    assert_int_equal(rename(path, moved), 0);
    make_stale();
    listener_close(&l);
    assert_true(S_ISSOCK(mode_of_path()));
    unlink(moved);
    unlink(path);
}

static void test_inherited(void **state)
{
    struct sockaddr_storage peer;

    (void)state;
    struct listener *made = open_text("127.0.0.1:0", 0);
    assert_non_null(made);
    int fd = dup(made->fd);
    assert_true(fd >= 0);
    fcntl(fd, F_SETFL, 0);
    struct listener *l = open_fd(fd);
    if (l == NULL) {
        fail_msg("%s", message);
        return;
    }
    char expected[16];
    snprintf(expected, sizeof expected, "fd %d", fd);
    assert_string_equal(l->address, expected);
    assert_true(l->loopback);
    assert_int_equal(l->port, made->port);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    int client = connect_to(l);
    int got = listener_accept(l, &peer);
    assert_true(got >= 0);
    close(got);
    close(client);
    listener_close(&l);
    listener_close(&made);

    made = open_text(spec_text, 0);
    assert_non_null(made);
    l = open_fd(dup(made->fd));
    assert_non_null(l);
    assert_true(l->is_unix && l->loopback);
    listener_close(&l);
    assert_true(S_ISSOCK(mode_of_path()));
    listener_close(&made);
}

static void assert_not_inheritable(int fd)
{
    assert_null(open_fd(fd));
    if (strstr(message, "is not a listening TCP or Unix stream socket") == NULL)
        fail_msg("%s", message);
}

static void test_not_inheritable(void **state)
{
    int pair[2];

    (void)state;
    assert_not_inheritable(-1);
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    assert_not_inheritable(pair[0]);
    assert_true(fcntl(pair[0], F_GETFD) >= 0);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_not_inheritable(pair[0]);
    close(pair[0]);
    close(pair[1]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_not_inheritable(fd);
    close(fd);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_not_inheritable(fd);
    close(fd);
}

static int activated(const char *pid, const char *count)
{
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", count, 1);
    setenv("LISTEN_FDNAMES", "a:b", 1);
    int n = listen_activated();
    assert_null(getenv("LISTEN_PID"));
    assert_null(getenv("LISTEN_FDS"));
    assert_null(getenv("LISTEN_FDNAMES"));
    return n;
}

/* In a child, whose descriptors 3 and 4 are free to be taken. */
static int activation_child(void)
{
    char pid[32];
    int ends[2];

    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    if (listen_activated() != 0 || pipe(ends) != 0 || dup2(ends[0], 3) != 3 ||
        dup2(ends[1], 4) != 4)
        return 1;
    close(5);
    if (activated(pid, "2") != 2 || !(fcntl(3, F_GETFD) & FD_CLOEXEC) ||
        !(fcntl(4, F_GETFD) & FD_CLOEXEC))
        return 2;
    if (activated("1", "2") != 0 || activated(pid, "0") != 0 || activated(pid, "x") != 0 ||
        activated(pid, "") != 0 || activated("", "1") != 0 || activated(pid, "-1") != 0 ||
        activated(pid, "1000") != 0)
        return 3;
    if (activated(pid, "3") != 2)
        return 4;
    return 0;
}

static void test_activation(void **state)
{
    int status = 0;

    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(activation_child());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),         cmocka_unit_test(test_parse_lengths),
        cmocka_unit_test(test_tcp),           cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_loopback_only), cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_reuse_port),    cmocka_unit_test(test_unix),
        cmocka_unit_test(test_unix_stale),    cmocka_unit_test(test_unix_removes_only_its_own),
        cmocka_unit_test(test_inherited),     cmocka_unit_test(test_not_inheritable),
        cmocka_unit_test(test_activation),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
