/* Logs that a command may have been at before. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "base/log_file.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char top[] = "/tmp/test_log_file.XXXXXX";

/* In the working directory: here/, its link away, target.txt, its link planted, hung (a link to
 * nothing), a FIFO, a socket. */
static int set_up(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int bound = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_non_null(mkdtemp(top));
    assert_int_equal(chdir(top), 0);
    assert_int_equal(mkdir("here", 0755), 0);
    assert_int_equal(mkdir("here/deep", 0755), 0);
    assert_int_equal(symlink("here", "away"), 0);
    assert_int_equal(symlink("target.txt", "planted"), 0);
    assert_int_equal(symlink("nothing", "hung"), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(bind(bound, (struct sockaddr *)&name, sizeof name), 0);
    close(bound);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"here/deep/log", "here/deep", "here/log",  "here",
                                        "away",          "planted",   "hung",      "fifo",
                                        "socket",        "log",       "target.txt"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        remove(names[i]);
    assert_int_equal(chdir("/"), 0);
    return rmdir(top);
}

static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Opens it and closes it; what was said, "" when it opened. A % is the directory. */
static const char *tried(const char *pattern, bool may_be_planted)
{
    static char said[512];
    char path[256];
    struct buf error;

    buf_init(&error, sizeof said - 1);
    snprintf(path, sizeof path, "%s%s", pattern[0] == '%' ? top : "",
             pattern + (pattern[0] == '%'));
    int fd = log_file_open("log", path, may_be_planted, &error);
    assert_int_equal(fd >= 0, buf_len(&error) == 0);
    if (fd >= 0) {
        int flags = fcntl(fd, F_GETFL);
        assert_int_equal(flags & (O_ACCMODE | O_APPEND), O_WRONLY | O_APPEND);
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
        close(fd);
    }
    snprintf(said, sizeof said, "%s", buf_cstr(&error));
    buf_free(&error);
    return said;
}

static void a_log_is_made_for_its_owner_and_appended_to(void **state)
{
    char content[8] = "";
    struct stat st;

    (void)state;
    mode_t old = umask(0);
    for (int i = 0; i < 2; i++) {
        int fd = log_file_open("log", "log", true, NULL);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, "a\n", 2), 2);
        close(fd);
    }
    umask(old);
    assert_int_equal(stat("log", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    int fd = open("log", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, content, sizeof content), 4);
    close(fd);
}

#define LINK "is a symbolic link or passes through one"

static const struct {
    const char *path;
    bool may_be_planted;
    const char *why; /* NULL: it opens */
} places[] = {
    {"log", true, NULL},
    {"./here/../here//log", true, NULL},
    {"here/deep/log", true, NULL},
    {"%/here/log", true, NULL},
    {"planted", true, LINK},
    {"%/planted", true, LINK},
    {"./planted", true, LINK},
    {"hung", true, LINK},
    {"away/log", true, LINK},
    {"away/deep/log", true, LINK},
    {"here/../away/log", true, LINK},
    {"%/away/log", true, NULL}, /* links on the way to an absolute name are the system's */
    {"planted", false, NULL},
    {"away/log", false, NULL},
    {"here", true, "Is a directory"},
    {"here/", true, "Is a directory"},
    {"%/here", false, "Is a directory"},
    {"log/log", true, "Not a directory"},
    {"missing/log", true, "No such file or directory"},
    {"", true, "No such file or directory"},
    {"fifo", true, "No such device or address"}, /* nobody reads */
    {"socket", true, "No such device or address"},
    {"/dev/null", true, NULL},
    {"/proc/self/cwd/planted", true, LINK},
    {"/proc/self/cwd/log", true, NULL},
};

static void check_places(void)
{
    for (size_t i = 0; i < COUNT(places); i++) {
        const char *said = tried(places[i].path, places[i].may_be_planted);
        if (places[i].why == NULL ? said[0] != '\0' : strstr(said, places[i].why) == NULL)
            fail_msg("%s: %s", places[i].path, said);
    }
    assert_false(is_there("nothing"));
    assert_string_equal(tried("planted", true),
                        "log planted: " LINK ", which a command may have put there; name what it "
                        "leads to");
}

static void planted_links_are_not_followed(void **state)
{
    (void)state;
    check_places();
}

/* The kernel's openat2 is taken away. */
static bool without_openat2(int answer)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {.len = COUNT(program), .filter = program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

/* Status 0 when every row is as with openat2 and no descriptor is left open. */
static int check_without(int answer)
{
    int before = dup(STDERR_FILENO);
    if (!without_openat2(answer) || syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) != -1 ||
        errno != answer)
        return 200;
    for (size_t i = 0; i < COUNT(places); i++) {
        const char *said = tried(places[i].path, places[i].may_be_planted);
        if (places[i].why == NULL ? said[0] != '\0' : strstr(said, places[i].why) == NULL) {
            print_error("%s: %s\n", places[i].path, said);
            return (int)i + 1;
        }
    }
    return dup(STDERR_FILENO) == before + 1 ? 0 : 201;
}

static void nor_where_openat2_is_missing(void **state)
{
    static const int answers[] = {ENOSYS, EPERM};

    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(check_without(answers[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* Such names are links whatever happens. */
static void descriptors_can_be_named(void **state)
{
    static const char *const directories[] = {"/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"};
    char path[64];
    int ends[2];

    (void)state;
    int file = open("log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (size_t i = 0; i < COUNT(directories); i++) {
        snprintf(path, sizeof path, "%s/%d", directories[i], file);
        assert_string_equal(tried(path, true), "");
        snprintf(path, sizeof path, "%s/%d", directories[i], ends[1]);
        assert_string_equal(tried(path, true), "");
    }
    close(ends[0]);
    close(ends[1]);
    int saved = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    char *said = strdup(tried("/dev/stderr", true));
    dup2(saved, STDERR_FILENO);
    assert_string_equal(said, "");
    free(said);
    close(saved);
    close(file);
}

static void a_reader_makes_a_fifo_a_log(void **state)
{
    (void)state;
    int reader = open("fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_string_equal(tried("fifo", true), "");
    close(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_made_for_its_owner_and_appended_to),
        cmocka_unit_test(planted_links_are_not_followed),
        cmocka_unit_test(nor_where_openat2_is_missing),
        cmocka_unit_test(descriptors_can_be_named),
        cmocka_unit_test(a_reader_makes_a_fifo_a_log),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
