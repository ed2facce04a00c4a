/* Listeners that another process made and passed on. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "proxy/net/listen.h"

static struct listener *open_text(const char *text)
{
    struct listen_spec spec;
    struct buf error;

    buf_init(&error, 1024);
    assert_true(listen_parse(text, &spec, &error));
    struct listener *l = listener_open(&spec, LISTEN_ANY_INTERFACE, &error);
    buf_free(&error);
    return l;
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

static void test_adopted(void **state)
{
    static const char *const texts[] = {"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"};
    struct sockaddr_storage peer;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct listener *made = open_text(texts[i]);
        assert_non_null(made);
        int fd = dup(made->fd);
        fcntl(fd, F_SETFL, 0);
        struct listener *l = listener_adopt(fd);
        assert_non_null(l);
        assert_int_equal(l->fd, fd);
        assert_string_equal(l->address, made->address);
        assert_true(l->loopback && !l->is_unix);
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
    }
}

static void test_not_adoptable(void **state)
{
    int fd;

    (void)state;
    assert_null(listener_adopt(-1));
    struct listener *made = open_text("unix:/tmp/test_listen_adopt");
    assert_non_null(made);
    assert_null(listener_adopt(made->fd));
    assert_int_equal(errno, EINVAL);
    assert_true(fcntl(made->fd, F_GETFD) >= 0);
    listener_close(&made);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_null(listener_adopt(fd));
    assert_int_equal(close(fd), 0);
}

/* In a network namespace of its own, whose loopback is up: makes a listener, passes it on, connects
 * to it, and waits for what comes. */
static int box_child(int sock)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(3128)};
    char got = 0;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return 77;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) != 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(fd, 16) != 0 || !fd_send(sock, "L", 1, &fd, 1))
        return 1;
    close(fd);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(client, (struct sockaddr *)&at, sizeof at) != 0 || read(client, &got, 1) != 1)
        return 2;
    return got == '!' ? 0 : 3;
}

/* The socket works where its namespace is not: its address is of the box, its clients too. */
static void test_adopted_from_another_namespace(void **state)
{
    struct sockaddr_storage peer;
    int pair[2], fd = -1, status = 0;
    size_t count = 0;
    char message_kind;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(box_child(pair[1]));
    close(pair[1]);
    if (fd_receive(pair[0], &message_kind, 1, &fd, 1, &count) == 1) {
        assert_int_equal(count, 1);
        struct listener *l = listener_adopt(fd);
        assert_non_null(l);
        assert_string_equal(l->address, "127.0.0.1:3128");
        assert_true(l->loopback);
        struct pollfd ready = {.fd = l->fd, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 10000), 1);
        int got = listener_accept(l, &peer);
        assert_true(got >= 0);
        assert_int_equal(((struct sockaddr_in *)&peer)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        assert_int_equal(write(got, "!", 1), 1);
        close(got);
        listener_close(&l);
    }
    close(pair[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* no user namespaces here */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adopted),
        cmocka_unit_test(test_not_adoptable),
        cmocka_unit_test(test_adopted_from_another_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
