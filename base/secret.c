#include "base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* Line ends behind a token that are tolerated, beyond its greatest length. */
enum { LINE_ENDS_MAX = 16 };

static struct secret *secret_alloc(size_t room)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct secret *s = mem_alloc(sizeof *s);

    s->mapped = (room / page + 1) * page; /* at least one byte more than asked: the NUL */
    s->bytes = mmap(NULL, s->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->bytes == MAP_FAILED)
        abort();
    /* Both are hardening on top: a low RLIMIT_MEMLOCK must not keep the program from running. */
    (void)mlock(s->bytes, s->mapped);
    (void)madvise(s->bytes, s->mapped, MADV_DONTDUMP);
    return s;
}

struct secret *secret_new(const void *p, size_t n)
{
    struct secret *s = secret_alloc(n);

    if (n != 0)
        memcpy(s->bytes, p, n);
    s->len = n;
    return s;
}

void secret_free(struct secret *s)
{
    if (s == NULL)
        return;
    explicit_bzero(s->bytes, s->mapped);
    munmap(s->bytes, s->mapped);
    free(s);
}

bool secret_equal(const void *a, size_t na, const void *b, size_t nb)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    size_t shorter = na < nb ? na : nb;
    unsigned difference = na != nb;

    for (size_t i = 0; i < shorter; i++)
        difference |= (unsigned)(x[i] ^ y[i]);
    return difference == 0;
}

static const char *file_fault(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "is not a regular file";
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "belongs to another user";
    if ((st->st_mode & 077) != 0)
        return "is accessible to group or others (chmod 600 it)";
    return NULL;
}

/* Reads at most room bytes; false with errno. */
static bool read_whole(int fd, uint8_t *to, size_t room, size_t *len)
{
    *len = 0;
    while (*len < room) {
        ssize_t n = read(fd, to + *len, room - *len);
        if (n == 0)
            return true;
        if (n > 0)
            *len += (size_t)n;
        else if (errno != EINTR)
            return false;
    }
    return true;
}

static const char *token_fault(struct secret *s, size_t max)
{
    while (s->len != 0 && (s->bytes[s->len - 1] == '\n' || s->bytes[s->len - 1] == '\r'))
        s->bytes[--s->len] = 0;
    if (s->len == 0)
        return "is empty";
    if (s->len > max)
        return "is too long for a token";
    for (size_t i = 0; i < s->len; i++)
        if (s->bytes[i] <= 0x20 || s->bytes[i] >= 0x7f)
            return "holds something other than printable ASCII without spaces";
    return NULL;
}

struct secret *secret_read_file(const char *path, size_t max, struct buf *error)
{
    struct secret *s = NULL;
    const char *fault = NULL;
    struct stat st;

    if (max > SECRET_TOKEN_MAX)
        max = SECRET_TOKEN_MAX;
    /* O_NONBLOCK: opening a FIFO must not hang before it can be refused. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        fault = strerror(errno);
        goto out;
    }
    fault = file_fault(&st);
    if (fault != NULL)
        goto out;
    s = secret_alloc(max + LINE_ENDS_MAX);
    if (!read_whole(fd, s->bytes, max + LINE_ENDS_MAX, &s->len))
        fault = strerror(errno);
    else
        fault = token_fault(s, max);
out:
    if (fd >= 0)
        close(fd);
    if (fault == NULL)
        return s;
    secret_free(s);
    buf_printf(error, "%s: %s", path, fault);
    return NULL;
}

bool process_no_core_dumps(void)
{
    struct rlimit limit;

    /* The hard limit stays: programs that this one starts may want theirs back. */
    bool no_core = getrlimit(RLIMIT_CORE, &limit) == 0;
    limit.rlim_cur = 0;
    no_core = no_core && setrlimit(RLIMIT_CORE, &limit) == 0;
    bool undumpable = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
    return no_core && undumpable;
}
