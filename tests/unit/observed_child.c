#include "tests/unit/observed_child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "seccomp/filters.h"

/* In the child: the filter, its listener to the parent, and a byte to go on. */
static void be_observed(int sock, const char *directory, observed_work_fn *work)
{
    struct buf program, error;
    char go;

    buf_init(&program, 65536);
    buf_init(&error, 256);
    if (!filters_build_observer(&program, &error))
        _exit(100);
    struct sock_fprog fprog = {
        .len = (unsigned short)(buf_len(&program) / sizeof(struct sock_filter)),
        .filter = (struct sock_filter *)(void *)buf_data(&program),
    };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        _exit(101);
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_NEW_LISTENER, &fprog);
    if (listener < 0 || !fd_send(sock, "F", 1, &listener, 1))
        _exit(102);
    close(listener);
    if (read(sock, &go, 1) != 1 || chdir(directory) != 0)
        _exit(103);
    work();
    _exit(0);
}

struct observed_child observed_child_start(const char *directory, observed_work_fn *work)
{
    struct observed_child c;
    int pair[2];
    char byte;
    size_t count;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0)
        be_observed(pair[1], directory, work);
    close(pair[1]);
    assert_int_equal(fd_receive(pair[0], &byte, 1, &c.listener, 1, &count), 1);
    assert_int_equal(count, 1);
    c.sock = pair[0];
    return c;
}

void observed_child_go(const struct observed_child *c)
{
    assert_int_equal(write(c->sock, "g", 1), 1);
}

int observed_child_end(const struct observed_child *c)
{
    int status;

    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    close(c->sock);
    return status;
}
