#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* A longer message is cut: a log line is no place for a whole request. */
enum {
    MESSAGE_MAX = 1000,
    PREFIX_MAX = 64,
    LINE_MAX_BYTES = PREFIX_MAX + 4 * MESSAGE_MAX + 8,
    HELD_MAX = 32768
};

bool log_debug_enabled;
static struct {
    bool on;
    size_t len;
    char lines[HELD_MAX];
} held;
static const char *program = "srt";

void log_set_program(const char *name)
{
    program = name;
}

void log_debug_enable(void)
{
    log_debug_enabled = true;
}

static size_t escape(char *to, const uint8_t *p, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        to[4 * i] = '\\';
        to[4 * i + 1] = 'x';
        to[4 * i + 2] = digits[p[i] >> 4];
        to[4 * i + 3] = digits[p[i] & 15];
    }
    return 4 * n;
}

/* Escapes unsafe characters and bytes that are not UTF-8; at most four bytes for one. */
static size_t clean(char *to, const char *message, size_t n)
{
    const uint8_t *p = (const uint8_t *)message;
    size_t len = 0;

    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t bytes = text_utf8_decode(p + i, n - i, &code);
        if (bytes == 0 || text_is_unsafe(code)) {
            bytes = bytes == 0 ? 1 : bytes;
            len += escape(to + len, p + i, bytes);
        } else {
            memcpy(to + len, p + i, bytes);
            len += bytes;
        }
        i += bytes;
    }
    return len;
}

/* A full or closed stderr loses the line and nothing else: whoever reads it must not be able to
 * stop the loop. Up to PIPE_BUF bytes go into a pipe that has room without blocking. */
static void give(const char *line, size_t len)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)
        return;
    while (write(STDERR_FILENO, line, len) < 0 && errno == EINTR)
        continue;
}

__attribute__((format(printf, 2, 0))) static void put_line(const char *prefix, const char *fmt,
                                                           va_list ap)
{
    static const char cut[] = "\xe2\x80\xa6";
    char message[MESSAGE_MAX];
    char line[LINE_MAX_BYTES];
    int saved = errno;

    int wanted = vsnprintf(message, sizeof message, fmt, ap);
    if (wanted < 0)
        goto out;
    size_t len = strnlen(prefix, PREFIX_MAX);
    memcpy(line, prefix, len);
    len += clean(line + len, message, strlen(message));
    if ((size_t)wanted >= sizeof message) {
        memcpy(line + len, cut, sizeof cut - 1);
        len += sizeof cut - 1;
    }
    line[len++] = '\n';
    if (!held.on) {
        give(line, len);
    } else if (len <= sizeof held.lines - held.len) {
        memcpy(held.lines + held.len, line, len);
        held.len += len;
    }
out:
    errno = saved;
}

void log_hold(bool hold)
{
    held.on = hold;
    if (hold)
        return;
    for (size_t at = 0; at < held.len;) {
        const char *line = held.lines + at;
        size_t len = (size_t)((const char *)memchr(line, '\n', held.len - at) - line) + 1;
        give(line, len);
        at += len;
    }
    held.len = 0;
}

void log_debug_line(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_line("[SandboxDebug] ", fmt, ap);
    va_end(ap);
}

void log_warning(const char *fmt, ...)
{
    char prefix[PREFIX_MAX];
    va_list ap;

    va_start(ap, fmt);
    snprintf(prefix, sizeof prefix, "%s: warning: ", program);
    put_line(prefix, fmt, ap);
    va_end(ap);
}

void log_error(const char *fmt, ...)
{
    char prefix[PREFIX_MAX];
    va_list ap;

    va_start(ap, fmt);
    snprintf(prefix, sizeof prefix, "%s: ", program);
    put_line(prefix, fmt, ap);
    va_end(ap);
}
