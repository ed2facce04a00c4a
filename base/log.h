/*
 * Lines for people on stderr: warnings, errors, and the debug log. Each line is
 * one write. Bytes from outside may be among the arguments: control, bidi and
 * zero-width characters come out as \xNN, so that nobody can forge a line,
 * reorder one or steer a terminal.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/* "srt proxy" instead of "srt" at the start of warnings and errors; a string that stays. */
void log_set_program(const char *name);

/* "srt: warning: ..." and "srt: ..."; no newline in the format. */
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* While held, lines are kept, as many as there is room for. */
void log_hold(bool hold);

void log_debug_enable(void);
extern bool log_debug_enabled; /* read only */
void log_debug_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "[SandboxDebug] ..."; the arguments are not evaluated while the debug log is off. */
#define log_debug(...)                                  \
    do {                                                \
        if (__builtin_expect(log_debug_enabled, false)) \
            log_debug_line(__VA_ARGS__);                \
    } while (0)

#endif
