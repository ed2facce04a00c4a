/* What listeners are asked for: the texts of options and settings, and socket activation. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "proxy/net/listen.h"

static bool fail(struct buf *error, const char *text, const char *why)
{
    buf_printf(error, "%s %s", text, why);
    return false;
}

/* Decimal digits alone, at most `max`. */
static bool parse_number(const char *s, size_t n, unsigned long max, unsigned long *out)
{
    unsigned long value = 0;

    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (unsigned long)(s[i] - '0');
        if (value > max)
            return false;
    }
    *out = value;
    return true;
}

static bool parse_unix(const char *text, const char *path, struct listen_spec *out,
                       struct buf *error)
{
    size_t n = strlen(path);

    if (n == 0)
        return fail(error, text, "names no path");
    if (n >= sizeof out->path)
        return fail(error, text, "is too long for a socket path");
    out->kind = LISTEN_UNIX;
    memcpy(out->path, path, n);
    return true;
}

/* The host part: an address, brackets around IPv6 only and always, or localhost. */
static bool parse_host(const char *s, size_t n, struct address *out)
{
    static const struct address loopback = {.family = 4, .bytes = {127, 0, 0, 1}};

    if (text_equal_fold(s, n, "localhost", 9)) {
        *out = loopback;
        return true;
    }
    if (n >= 2 && s[0] == '[' && s[n - 1] == ']')
        return memchr(s, ':', n) != NULL && address_parse(s + 1, n - 2, true, out);
    return memchr(s, ':', n) == NULL && address_parse(s, n, false, out);
}

bool listen_parse(const char *text, struct listen_spec *out, struct buf *error)
{
    static const char scheme[] = "unix:";
    unsigned long port;
    size_t n = strlen(text);

    memset(out, 0, sizeof *out);
    out->fd = -1;
    if (n >= sizeof out->text) {
        buf_puts(error, "a listen address is too long");
        return false;
    }
    memcpy(out->text, text, n);
    if (strncmp(text, scheme, sizeof scheme - 1) == 0)
        return parse_unix(text, text + sizeof scheme - 1, out, error);

    const char *colon = strrchr(text, ':');
    if (colon == NULL)
        return fail(error, text, "is not HOST:PORT or unix:PATH");
    if (!parse_number(colon + 1, n - (size_t)(colon + 1 - text), 65535, &port))
        return fail(error, text, "has no valid port");
    if (!parse_host(text, (size_t)(colon - text), &out->address))
        return fail(error, text,
                    "is not a loopback address, nor any address: the host must be an IP address "
                    "(IPv6 in brackets) or localhost");
    out->kind = LISTEN_TCP;
    out->port = (uint16_t)port;
    return true;
}

void listen_inherited(int fd, struct listen_spec *out)
{
    struct buf text;

    memset(out, 0, sizeof *out);
    out->kind = LISTEN_INHERITED;
    out->fd = fd;
    buf_init(&text, sizeof out->text - 1);
    buf_printf(&text, "fd %d", fd);
    memcpy(out->text, buf_data(&text), buf_len(&text));
    buf_free(&text);
}

static bool environment_number(const char *name, unsigned long max, unsigned long *out)
{
    const char *value = getenv(name);

    return value != NULL && parse_number(value, strlen(value), max, out);
}

int listen_activated(void)
{
    unsigned long pid;
    unsigned long count;

    bool ours = environment_number("LISTEN_PID", 0x7fffffff, &pid) && (pid_t)pid == getpid() &&
                environment_number("LISTEN_FDS", LISTEN_FDS_MAX, &count);
    /* A child must not take descriptors for its own that were meant for us. */
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!ours)
        return 0;
    for (int i = 0; i < (int)count; i++)
        if (!fd_cloexec(LISTEN_FDS_FIRST + i, true))
            return i;
    return (int)count;
}
