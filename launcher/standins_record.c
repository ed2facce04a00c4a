#include "launcher/standins_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/*
 * How far the clock of a file system may be from ours for a node to count as made when an entry
 * without identity says so: the maker was killed between the two steps.
 */
enum { CLOCK_SLACK_S = 2 };

enum {
    RECORD_MAX = 16 << 20, /* bytes of a file */
    TAKE_MS = 10000,       /* that the lock may be in other runs' hands */
    RETRY_NS = 1000000     /* between two tries for it */
};

/* The layout is part of it: a file begins with this, one entry after the other follows. Entries
 * keep their place when they are written again, so one that is torn by the death of its writer is
 * still read right. Never leaves the machine. */
static const char magic[8] = "srt-run1";

/* What an entry begins with; the path follows. */
struct fields {
    uint64_t device, inode;
    int64_t birth_s, begun;
    uint32_t birth_ns, kind;
    uint64_t path_len;
};

void standin_list_add(struct standin_list *l, const struct standin_entry *entry)
{
    if (l->count == l->room) {
        l->room = 2 * l->room + 16;
        l->list = mem_resize(l->list, l->room, sizeof *l->list);
    }
    l->list[l->count++] = *entry;
}

const struct standin_entry *standin_list_find(const struct standin_list *l, const char *path,
                                              const struct node *node)
{
    for (size_t i = 0; i < l->count; i++)
        if (standin_entry_describes(&l->list[i], node) && strcmp(l->list[i].path, path) == 0)
            return &l->list[i];
    return NULL;
}

static int longest_first(const void *a, const void *b)
{
    const struct standin_entry *x = a, *y = b;
    const size_t m = strlen(x->path), n = strlen(y->path);
    return (m < n) - (m > n);
}

void standin_list_sort(struct standin_list *l)
{
    if (l->count != 0)
        qsort(l->list, l->count, sizeof *l->list, longest_first);
}

void standin_list_free(struct standin_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->list[i].path);
    free(l->list);
    *l = (struct standin_list){0};
}

bool standin_entry_describes(const struct standin_entry *e, const struct node *node)
{
    if (node->kind == NODE_OTHER || node->kind != e->kind)
        return false;
    if (e->identity.inode != 0)
        return node_same(&node->identity, &e->identity);
    return node->owner == geteuid() && node->changed >= e->begun - CLOCK_SLACK_S &&
           node->changed <= e->begun + CLOCK_SLACK_S;
}

/* One entry of the n bytes at `p`; the bytes it takes, 0 when it is not whole. */
static size_t read_entry(const uint8_t *p, size_t n, struct standin_entry *out)
{
    struct fields f;

    if (n < sizeof f)
        return 0;
    memcpy(&f, p, sizeof f);
    if (f.path_len == 0 || f.path_len >= PATH_MAX || f.path_len > n - sizeof f ||
        f.kind > NODE_DIRECTORY || memchr(p + sizeof f, '\0', f.path_len) != NULL)
        return 0;
    *out = (struct standin_entry){
        .kind = (enum node_kind)f.kind,
        .identity = {.device = f.device,
                     .inode = f.inode,
                     .birth_s = f.birth_s,
                     .birth_ns = f.birth_ns},
        .begun = f.begun,
        .path = mem_dup_n((const char *)p + sizeof f, f.path_len),
    };
    return sizeof f + f.path_len;
}

void standin_record_read(int fd, size_t run, struct standin_list *out)
{
    struct stat st;
    struct standin_entry entry;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_size < (off_t)sizeof magic || st.st_size > RECORD_MAX)
        return;
    uint8_t *bytes = mem_alloc((size_t)st.st_size);
    ssize_t n = pread(fd, bytes, (size_t)st.st_size, 0);
    if (n >= (ssize_t)sizeof magic && memcmp(bytes, magic, sizeof magic) == 0) {
        size_t at = sizeof magic, taken;
        while ((taken = read_entry(bytes + at, (size_t)n - at, &entry)) != 0) {
            at += taken;
            entry.run = run;
            if (entry.kind != NODE_OTHER)
                standin_list_add(out, &entry);
            else
                free(entry.path);
        }
    }
    free(bytes);
}

static bool append_entry(struct buf *b, const struct standin_entry *e)
{
    const size_t len = strlen(e->path);
    const struct fields f = {
        .device = e->identity.device,
        .inode = e->identity.inode,
        .birth_s = e->identity.birth_s,
        .begun = e->begun,
        .birth_ns = e->identity.birth_ns,
        .kind = (uint32_t)e->kind,
        .path_len = len,
    };
    return len < PATH_MAX && buf_append(b, &f, sizeof f) && buf_append(b, e->path, len);
}

int standin_record_write(int fd, const struct standin_list *l)
{
    struct buf b;
    int number = 0;

    buf_init(&b, RECORD_MAX);
    buf_append(&b, magic, sizeof magic);
    for (size_t i = 0; i < l->count && number == 0; i++)
        number = append_entry(&b, &l->list[i]) ? 0 : E2BIG;
    if (number == 0) {
        ssize_t n = pwrite(fd, buf_data(&b), buf_len(&b), 0);
        if (n < 0)
            number = errno;
        else if ((size_t)n != buf_len(&b))
            number = ENOSPC;
    }
    buf_free(&b);
    return number;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* 0 or the errno. */
static int wait_for_lock(int fd, int64_t deadline)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};

    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return errno;
        if (now_ms() >= deadline)
            return ETIMEDOUT;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

int standin_lock(int directory)
{
    const int64_t deadline = now_ms() + TAKE_MS;
    struct stat st;

    for (;;) {
        int fd = openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        int number = wait_for_lock(fd, deadline);
        if (number == 0 && fstat(fd, &st) != 0)
            number = errno;
        if (number == 0 && st.st_nlink != 0)
            return fd;
        close(fd); /* one that somebody cleaned away locks nothing */
        if (number != 0) {
            errno = number;
            return -1;
        }
    }
}
