#include "tests/unit/scripted_decider.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_ROOM = 1048576 };

static const char hello_1[] =
    "{\"t\":\"hello\",\"proto\":1,\"allowedDomains\":[\"ok.test\"],\"deniedDomains\":[]}";
static const char hello_2[] = "{\"t\":\"hello\",\"proto\":2,\"asks\":[\"connection\"],"
                              "\"allowedDomains\":[],\"deniedDomains\":[]}";

static bool read_all(char *p, size_t n)
{
    while (n != 0) {
        ssize_t got = read(STDIN_FILENO, p, n);
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static bool read_frame(char *frame)
{
    uint8_t head[4];

    if (!read_all((char *)head, sizeof head))
        return false;
    size_t n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    if (n >= FRAME_ROOM || !read_all(frame, n))
        return false;
    frame[n] = 0;
    return true;
}

/* The first `part` bytes of the frame that holds this text. */
static void write_part(const char *text, size_t part)
{
    size_t n = strlen(text);
    char frame[8192];

    frame[0] = frame[1] = 0;
    frame[2] = (char)(n >> 8);
    frame[3] = (char)n;
    memcpy(frame + 4, text, n);
    if (write(STDOUT_FILENO, frame, part) != (ssize_t)part)
        _exit(3);
}

static void write_frame(const char *text)
{
    write_part(text, strlen(text) + 4);
}

static long id_of(const char *frame)
{
    const char *id = strstr(frame, "\"id\":");

    return id != NULL ? strtol(id + 5, NULL, 10) : 0;
}

__attribute__((format(printf, 3, 4))) static void add(char *to, size_t room, const char *fmt, ...)
{
    size_t n = strlen(to);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(to + n, room - n, fmt, ap);
    va_end(ap);
}

static bool is_ignored(int number)
{
    struct sigaction now;

    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* What the process was given, as a line. */
static void describe(char *to, size_t room)
{
    DIR *list = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct rlimit files;
    sigset_t mask;
    int death = 0, changed = 0, more = 0;

    if (list == NULL)
        _exit(4);
    *to = 0;
    add(to, room, "pid %d parent %d session %d group %d descriptors", getpid(), getppid(),
        getsid(0) == getpid(), getpgrp() == getpid());
    for (int fd = 0; fd < 3; fd++)
        add(to, room, " %d", fcntl(fd, F_GETFD) >= 0);
    while ((entry = readdir(list)) != NULL) {
        long fd = strtol(entry->d_name, NULL, 10);
        more += fd > 2 && fd != dirfd(list);
    }
    closedir(list);
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 32; i++)
        changed += sigismember(&mask, i) == 1 || is_ignored(i);
    getrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0);
    add(to, room, " more %d signals %d files %lu death %d blocking %d", more, changed,
        (unsigned long)files.rlim_cur, death == SIGTERM,
        (fcntl(STDIN_FILENO, F_GETFL) & O_NONBLOCK) == 0);
}

static int answer_all(char *frame, const char *rest)
{
    char verdict[2048];

    while (read_frame(frame)) {
        snprintf(verdict, sizeof verdict, "{\"t\":\"verdict\",\"id\":%ld,%s}", id_of(frame), rest);
        write_frame(verdict);
    }
    return 0;
}

static int tell(char *frame)
{
    char line[1024], rest[1200];

    describe(line, sizeof line);
    snprintf(rest, sizeof rest, "\"action\":\"deny\",\"status\":418,\"reason\":\"%s\"", line);
    return answer_all(frame, rest);
}

/* Proof against everything but SIGKILL. */
__attribute__((noreturn)) static void live_on(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    write_frame("{}");
    for (;;)
        pause();
}

static int half(char *frame)
{
    if (read_frame(frame))
        write_part("{\"t\":\"verdict\",\"id\":1,\"action\":\"allow\"}", 20);
    return 0;
}

int scripted_decider(int argc, char **argv)
{
    const char *what = argc > 0 ? argv[0] : "";
    char *frame = malloc(FRAME_ROOM);
    int status = 0;

    if (frame == NULL || strcmp(what, "early") == 0)
        goto out;
    if (strcmp(what, "mute") != 0 && read_frame(frame))
        write_frame(strcmp(what, "own") == 0 ? hello_2 : hello_1);
    if (strcmp(what, "allow") == 0 || strcmp(what, "own") == 0)
        status = answer_all(frame, "\"action\":\"allow\"");
    else if (strcmp(what, "tell") == 0)
        status = tell(frame);
    else if (strcmp(what, "half") == 0)
        status = half(frame);
    else if (strcmp(what, "stubborn") == 0)
        live_on();
    else if (strcmp(what, "late") != 0)
        while (read_frame(frame)) {
        }
out:
    free(frame);
    return status;
}
