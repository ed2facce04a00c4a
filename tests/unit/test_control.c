/* Settings updates from a descriptor: lines, every kind of descriptor, errors. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "launcher/control.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define DOCUMENT(name)                                                       \
    "{\"network\":{\"allowedDomains\":[\"" name "\"],\"deniedDomains\":[]}," \
    "\"filesystem\":{\"denyRead\":[],\"allowWrite\":[],\"denyWrite\":[]}}"

enum { SHOWN = 7 };

static const char invalid_line[] =
    "Invalid config on control fd 7: ignored, previous config still in force\n";

/* What the channel told us: the first allowed domain of each document, with a space after it. */
struct heard {
    struct ev_loop *loop;
    struct control *control;
    struct buf documents, message;
    bool before_any, failed;
    bool let_go; /* at the first document */
    int errors;  /* takes the place of stderr */
    int saved_stderr;
};

static void on_document(void *ctx, const json_t *document)
{
    struct heard *h = ctx;
    const json_t *domains = json_object_get(json_object_get(document, "network"), "allowedDomains");
    assert_true(buf_printf(&h->documents, "%s ", json_string_value(json_array_get(domains, 0))));
    if (h->let_go) {
        control_free(h->control);
        h->control = NULL;
    }
}

static void on_failed(void *ctx, bool before_any, const char *message)
{
    struct heard *h = ctx;
    h->failed = true;
    h->before_any = before_any;
    assert_true(buf_puts(&h->message, message));
}

static void start(struct heard *h, int fd)
{
    char name[] = "/tmp/srt-control-XXXXXX";
    *h = (struct heard){.loop = ev_loop_new(EVFLAG_AUTO)};
    assert_non_null(h->loop);
    buf_init(&h->documents, 65536);
    buf_init(&h->message, 4096);
    h->errors = mkstemp(name);
    assert_true(h->errors >= 0);
    unlink(name);
    fflush(stderr);
    h->saved_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_true(dup2(h->errors, STDERR_FILENO) == STDERR_FILENO);
    const struct control_events events = {.document = on_document, .failed = on_failed, .ctx = h};
    h->control = control_new(h->loop, fd, SHOWN, &events);
}

/* Turns of the loop that find nothing to wait for. */
static void turn(struct heard *h)
{
    for (int i = 0; i < 50; i++)
        ev_run(h->loop, EVRUN_NOWAIT);
}

/* Ends it; checks what was heard, and that so many lines were called invalid. */
static void finish(struct heard *h, const char *documents, unsigned invalid)
{
    char text[8192];
    control_free(h->control);
    assert_int_equal(dup2(h->saved_stderr, STDERR_FILENO), STDERR_FILENO);
    close(h->saved_stderr);
    ssize_t n = pread(h->errors, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    close(h->errors);
    assert_int_equal((size_t)n, invalid * (sizeof invalid_line - 1));
    for (unsigned i = 0; i < invalid; i++)
        assert_memory_equal(text + i * (sizeof invalid_line - 1), invalid_line,
                            sizeof invalid_line - 1);
    assert_string_equal(buf_cstr(&h->documents), documents);
    buf_free(&h->documents);
    buf_free(&h->message);
    ev_loop_destroy(h->loop);
}

static void send_text(int fd, const char *text)
{
    assert_true(fd_write_all(fd, text, strlen(text)));
}

/* --- lines --------------------------------------------------------------------------------- */

static void test_lines(void **state)
{
    static const struct {
        const char *sent, *documents;
        unsigned invalid;
    } cases[] = {
        {"", "", 0},
        {DOCUMENT("a.test") "\n", "a.test ", 0},
        {DOCUMENT("a.test"), "a.test ", 0},
        {DOCUMENT("a.test") "\r" DOCUMENT("b.test") "\r\n" DOCUMENT("c.test") "\n", //
         "a.test b.test c.test ", 0},
        {"\n\r\n\r \t\n\v\xc2\xa0\xef\xbb\xbf\n" DOCUMENT("a.test") "\n\n", "a.test ", 0},
        {"  " DOCUMENT("a.test") " \t\r\n", "a.test ", 0},
        {"nonsense\n" DOCUMENT("a.test") "\n{}\n", "a.test ", 2},
        {"{\"network\":\n{}}\n", "", 2},
        {"{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[]}}\n", "", 1},
        {DOCUMENT("a.test") DOCUMENT("b.test") "\n", "", 1},
        {DOCUMENT("a.test") "\nhalf", "a.test ", 1},
        {"\xff\xfe\n", "", 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int slowly = 0; slowly < 2; slowly++) {
            struct heard h;
            int ends[2];
            assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
            start(&h, ends[0]);
            for (const char *p = cases[i].sent; *p != '\0' && slowly; p++) {
                assert_true(fd_write_all(ends[1], p, 1));
                ev_run(h.loop, EVRUN_NOWAIT);
            }
            if (!slowly)
                send_text(ends[1], cases[i].sent);
            turn(&h);
            close(ends[1]);
            turn(&h);
            assert_false(h.failed);
            finish(&h, cases[i].documents, cases[i].invalid);
        }
    }
}

/* A line counts as soon as its \r is there; a \n that follows later is part of it. */
static void test_a_return_ends_a_line(void **state)
{
    struct heard h;
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start(&h, ends[0]);
    send_text(ends[1], DOCUMENT("a.test") "\r");
    turn(&h);
    assert_string_equal(buf_cstr(&h.documents), "a.test ");
    send_text(ends[1], "\n" DOCUMENT("b.test") "\n");
    turn(&h);
    finish(&h, "a.test b.test ", 0);
    close(ends[1]);
}

static void test_a_nul_byte(void **state)
{
    static const char sent[] = "\0\n" DOCUMENT("a.test") "\n";
    struct heard h;
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start(&h, ends[0]);
    assert_true(fd_write_all(ends[1], sent, sizeof sent - 1));
    turn(&h);
    finish(&h, "a.test ", 1);
    close(ends[1]);
}

/* The longest line is good, one byte more is not; what follows is not touched by it. */
static void test_long_lines(void **state)
{
    static const char document[] = DOCUMENT("a.test");
    static const char last[] = DOCUMENT("b.test") "\n";
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct heard h;
        char name[] = "/tmp/srt-control-XXXXXX";
        size_t n = SETTINGS_FILE_MAX + more;
        char *line = mem_alloc(n);
        memset(line, ' ', n);
        memcpy(line, document, sizeof document - 1);
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        unlink(name);
        assert_true(fd_write_all(fd, line, n));
        send_text(fd, "\n");
        send_text(fd, last);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        start(&h, fd);
        control_poll(h.control);
        finish(&h, more == 0 ? "a.test b.test " : "b.test ", (unsigned)more);
        free(line);
    }
}

/* --- descriptors --------------------------------------------------------------------------- */

static void test_sockets(void **state)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        struct heard h;
        int pair[2];
        /* Longer than one read, so that a message cut at its end would not parse. */
        size_t n = 100000;
        char *padded = mem_alloc(n);
        memset(padded, ' ', n);
        memcpy(padded, DOCUMENT("big.test"), sizeof DOCUMENT("big.test") - 1);
        padded[n - 1] = '\n';

        assert_int_equal(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair), 0);
        assert_true(control_usable(pair[0], &(struct buf){.max = 100}));
        start(&h, pair[0]);
        send_text(pair[1], DOCUMENT("a.test") "\n");
        turn(&h);
        assert_int_equal(send(pair[1], "", 0, 0), 0);
        send_text(pair[1], "{\"network\":{\"allowedDomains\":[\"b.test\"],");
        send_text(pair[1], "\"deniedDomains\":[]},\"filesystem\":{\"denyRead\":[],"
                           "\"allowWrite\":[],\"denyWrite\":[]}}\n");
        turn(&h);
        assert_int_equal(send(pair[1], padded, n, 0), n);
        turn(&h);
        /* A reader of datagrams does not hear of a writer that goes: its own side has to end. */
        send_text(pair[1], DOCUMENT("c.test"));
        if (types[i] == SOCK_DGRAM)
            assert_int_equal(shutdown(pair[0], SHUT_RD), 0);
        else
            assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
        turn(&h);
        assert_false(h.failed);
        assert_int_equal(fcntl(pair[0], F_GETFD), -1); /* closed at the end */
        finish(&h, "a.test b.test big.test c.test ", 0);
        close(pair[1]);
        free(padded);
    }
}

static void test_regular_file(void **state)
{
    (void)state;
    for (int by_poll = 0; by_poll < 2; by_poll++) {
        struct heard h;
        char name[] = "/tmp/srt-control-XXXXXX";
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        unlink(name);
        send_text(fd, DOCUMENT("a.test") "\n" DOCUMENT("b.test"));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        start(&h, fd);
        if (by_poll)
            control_poll(h.control);
        else
            ev_run(h.loop, 0); /* returns when nothing is watched any more */
        finish(&h, "a.test b.test ", 0);
    }
}

static void test_terminal(void **state)
{
    struct heard h;
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    assert_true(control_usable(slave, &(struct buf){.max = 100}));
    start(&h, slave);
    send_text(master, DOCUMENT("a.test") "\r" DOCUMENT("b.test") "\n");
    turn(&h);
    assert_string_equal(buf_cstr(&h.documents), "a.test b.test ");
    close(master);
    turn(&h);
    assert_false(h.failed);
    finish(&h, "a.test b.test ", 0);
}

/* What waits in the channel is taken in without the loop, and without waiting for more. */
static void test_poll(void **state)
{
    struct heard h;
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start(&h, ends[0]);
    control_poll(h.control);
    send_text(ends[1], DOCUMENT("a.test") "\n" DOCUMENT("b.test"));
    control_poll(h.control);
    assert_string_equal(buf_cstr(&h.documents), "a.test ");
    send_text(ends[1], "\n");
    control_poll(h.control);
    assert_string_equal(buf_cstr(&h.documents), "a.test b.test ");
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    close(ends[1]);
    control_poll(h.control);
    control_poll(h.control);
    assert_false(h.failed);
    finish(&h, "a.test b.test ", 0);
}

/* A writer that never ends a line, and never ends. */
static void test_endless(void **state)
{
    struct heard h;
    (void)state;
    start(&h, open("/dev/zero", O_RDONLY | O_CLOEXEC));
    control_poll(h.control);
    turn(&h);
    finish(&h, "", 1);
}

static void test_let_go_in_a_callback(void **state)
{
    struct heard h;
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start(&h, ends[0]);
    h.let_go = true;
    send_text(ends[1], DOCUMENT("a.test") "\n" DOCUMENT("b.test") "\n");
    turn(&h);
    assert_null(h.control);
    assert_int_equal(fcntl(ends[0], F_GETFD), -1);
    finish(&h, "a.test ", 0);
    close(ends[1]);
}

/* --- errors -------------------------------------------------------------------------------- */

/* Reading the master of a terminal that nobody has open any more is EIO. */
static int failing(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    return master;
}

static void test_error_before_a_line(void **state)
{
    struct heard h;
    (void)state;
    int master = failing();
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    start(&h, master);
    send_text(slave, "\n \n");
    turn(&h);
    close(slave);
    turn(&h);
    assert_true(h.failed);
    assert_true(h.before_any);
    assert_string_equal(buf_cstr(&h.message),
                        "Error: control fd 7 failed before delivering an update: Input/output "
                        "error. Refusing to run the command without the control channel it asks "
                        "for.");
    finish(&h, "", 0);
}

static void test_error_after_a_line(void **state)
{
    struct heard h;
    (void)state;
    int master = failing();
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    start(&h, master);
    send_text(slave, DOCUMENT("a.test") "\n" DOCUMENT("b.test"));
    turn(&h);
    close(slave);
    turn(&h);
    assert_true(h.failed);
    assert_false(h.before_any);
    assert_string_equal(buf_cstr(&h.message),
                        "Error reading control fd 7: Input/output error. The control channel is "
                        "closed; no further updates will be applied.");
    finish(&h, "a.test ", 0);
}

static void test_usable(void **state)
{
    char expected[256];
    struct buf error;
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    buf_init(&error, 1024);
    assert_true(control_usable(ends[0], &error));
    assert_int_equal(buf_len(&error), 0);

    const struct {
        int fd;
        const char *why;
    } bad[] = {
        {ends[1], "Bad file descriptor"},
        {12345, "Bad file descriptor"},
        {open("/dev/null", O_WRONLY | O_CLOEXEC), "Bad file descriptor"},
        {open("/", O_RDONLY | O_CLOEXEC), "Is a directory"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        buf_clear(&error);
        assert_false(control_usable(bad[i].fd, &error));
        snprintf(expected, sizeof expected,
                 "Error: --control-fd %d is not usable: %s. Refusing to run the command without "
                 "the control channel it asks for.",
                 bad[i].fd, bad[i].why);
        assert_string_equal(buf_cstr(&error), expected);
        close(bad[i].fd);
    }
    close(ends[0]);
    buf_free(&error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_a_return_ends_a_line),
        cmocka_unit_test(test_a_nul_byte),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_regular_file),
        cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_poll),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_let_go_in_a_callback),
        cmocka_unit_test(test_error_before_a_line),
        cmocka_unit_test(test_error_after_a_line),
        cmocka_unit_test(test_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
