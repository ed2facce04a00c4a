#include "proxy/settings/load.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/text.h"
#include "proxy/settings/notes.h"
#include "proxy/settings/schema.h"

enum {
    READ_CHUNK = 65536,
    NUMBER_PLAIN = 18, /* characters that every 64-bit integer has room for */
    NUMBER_MAX = 4096  /* longer ones are syntax errors of ours: nobody means them */
};

static const char defaults[] = "{\"network\":{\"allowedDomains\":[],\"deniedDomains\":[]},"
                               "\"filesystem\":{\"denyRead\":[],\"allowRead\":[],"
                               "\"allowWrite\":[],\"denyWrite\":[]}}";

static size_t count_digits(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* RFC 8259 section 6. *integer: without fraction and exponent. */
static bool is_number(const char *s, size_t n, bool *integer)
{
    size_t i = n != 0 && s[0] == '-' ? 1 : 0;
    size_t digits = count_digits(s + i, n - i);
    if (digits == 0 || (digits > 1 && s[i] == '0'))
        return false;
    i += digits;
    *integer = i == n;
    if (i < n && s[i] == '.') {
        digits = count_digits(s + i + 1, n - i - 1);
        if (digits == 0)
            return false;
        i += digits + 1;
    }
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < n && (s[i] == '+' || s[i] == '-'))
            i++;
        digits = count_digits(s + i, n - i);
        if (digits == 0)
            return false;
        i += digits;
    }
    return i == n;
}

/*
 * Appends a number so that the parser takes it: it knows 64-bit integers and
 * finite doubles only. What is larger becomes a double as large as need be for
 * the schema to say that it is too large.
 */
static void append_number(struct buf *out, const char *s, size_t n)
{
    char text[NUMBER_MAX + 1];
    bool integer = false;
    if (n <= NUMBER_PLAIN && memchr(s, 'e', n) == NULL && memchr(s, 'E', n) == NULL) {
        buf_append(out, s, n);
        return;
    }
    if (n > NUMBER_MAX || !is_number(s, n, &integer)) {
        buf_append(out, s, n);
        return;
    }
    memcpy(text, s, n);
    text[n] = '\0';
    if (isinf(strtod(text, NULL))) {
        buf_puts(out, text[0] == '-' ? "-1e308" : "1e308");
        return;
    }
    buf_append(out, s, n);
    if (integer)
        buf_puts(out, "e0");
}

static size_t string_length(const char *s, size_t n)
{
    size_t i = 1;
    while (i < n && s[i] != '"')
        i += s[i] == '\\' && i + 1 < n ? 2 : 1;
    return i < n ? i + 1 : n;
}

static size_t number_length(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] != '\0' && strchr("+-.0123456789eE", s[i]) != NULL)
        i++;
    return i;
}

/* The document with its numbers rewritten. */
static void rewrite_numbers(struct buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = 1;
        if (text[i] == '"') {
            length = string_length(text + i, n - i);
            buf_append(out, text + i, length);
        } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
            length = number_length(text + i, n - i);
            append_number(out, text + i, length);
        } else {
            buf_append(out, text + i, 1);
        }
        i += length;
    }
}

json_t *settings_parse(const char *text, size_t n, struct buf *error)
{
    struct buf rewritten;
    json_error_t why;
    /* jansson passes over one that follows a number. */
    if (n != 0 && memchr(text, '\0', n) != NULL) {
        buf_puts(error, "a NUL byte");
        return NULL;
    }
    buf_init(&rewritten, 2 * n + 1);
    rewrite_numbers(&rewritten, text, n);
    json_t *document = json_loadb(buf_cstr(&rewritten), buf_len(&rewritten),
                                  JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (document == NULL) {
        for (char *c = why.text; *c != '\0'; c++) /* it quotes the document */
            if ((unsigned char)*c < 0x20)
                *c = ' ';
        buf_printf(error, "%s (line %d, column %d)", why.text, why.line, why.column);
    }
    buf_free(&rewritten);
    return document;
}

/* White space as a script engine's trim() sees it: Unicode White_Space, and U+FEFF. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000 || c == 0xfeff;
}

bool settings_blank(const char *text, size_t n)
{
    const uint8_t *p = (const uint8_t *)text;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = text_utf8_decode(p + i, n - i, &code);
        if (length == 0 || !is_space(code))
            return false;
        i += length;
    }
    return true;
}

/* The whole file, or an errno. Opened once: what is read is what was found. */
static int read_all(const char *path, struct buf *content)
{
    int number = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return errno;
    for (;;) {
        size_t room = buf_room(content) < READ_CHUNK ? buf_room(content) : READ_CHUNK;
        ssize_t got = room == 0 ? 0 : read(fd, buf_reserve(content, room), room);
        if (got > 0)
            buf_commit(content, (size_t)got);
        else if (got == 0 || errno != EINTR) {
            number = got < 0 ? errno : 0;
            break;
        }
    }
    close(fd);
    if (number == 0 && buf_len(content) > SETTINGS_FILE_MAX)
        number = EFBIG;
    return number;
}

enum load_result settings_read(const char *path, json_t **document, struct buf *error)
{
    struct buf content, why;
    enum load_result result = LOAD_FAILED;
    *document = NULL;
    buf_init(&content, SETTINGS_FILE_MAX + 1);
    buf_init(&why, 4096);

    int number = read_all(path, &content);
    if (number == ENOENT) {
        buf_printf(error, "Error: %s does not exist.", path);
        result = LOAD_ABSENT;
    } else if (number != 0) {
        const char *name = strerrorname_np(number);
        buf_printf(error, "Error: %s could not be read (%s).", path, name != NULL ? name : "EIO");
    } else if (settings_blank(buf_chars(&content), buf_len(&content))) {
        buf_printf(error, "Error: %s is empty. Delete it, or put a config in it.", path);
    } else {
        *document = settings_parse(buf_chars(&content), buf_len(&content), &why);
        if (*document == NULL)
            buf_printf(error, "Error: %s is not valid JSON: %s", path, buf_cstr(&why));
        else
            result = LOAD_OK;
    }
    buf_free(&content);
    buf_free(&why);
    return result;
}

/* The default settings file. An empty HOME counts as none: the path must not become another. */
static void default_path(struct buf *path)
{
    const char *home = getenv("HOME");
    if (home == NULL || home[0] == '\0') {
        const struct passwd *user = getpwuid(getuid());
        home = user != NULL && user->pw_dir != NULL ? user->pw_dir : "";
    }
    buf_printf(path, "%s/.srt-settings.json", home);
}

static bool is_valid(const char *path, const json_t *document, enum settings_use use,
                     struct buf *error)
{
    struct issues issues;
    bool valid = schema_validate(document, use, &issues);
    if (!valid)
        buf_printf(error, "Error: %s does not hold a valid config — ", path);
    for (size_t i = 0; i < issues.count; i++) {
        const struct issue *issue = &issues.list[i];
        buf_printf(error, "%s%s: %s", i != 0 ? "; " : "",
                   issue->path[0] != '\0' ? issue->path : "(root)", issue->message);
    }
    if (issues.dropped != 0)
        buf_printf(error, "; and %zu more", issues.dropped);
    issues_free(&issues);
    return valid;
}

static void append_error(struct buf *error, const struct buf *first, bool absent)
{
    settings_line(error, buf_chars(first), buf_len(first));
    buf_puts(error, absent ? "Refusing to run with the built-in defaults, which would drop the "
                             "rules --settings asked for.\n"
                           : "Refusing to run with the built-in defaults, which would drop this "
                             "file's rules (its denyRead, allowRead and credential entries "
                             "included).\n");
}

json_t *settings_load(const char *path, enum settings_use use, struct buf *error)
{
    struct buf home, line;
    json_t *document;
    bool explicit = path != NULL;
    buf_init(&home, 4096);
    buf_init(&line, SIZE_MAX / 2);
    if (!explicit) {
        default_path(&home);
        path = buf_cstr(&home);
    }

    enum load_result result = settings_read(path, &document, &line);
    if (result == LOAD_ABSENT && !explicit) {
        buf_clear(&line);
        document = settings_parse(defaults, sizeof defaults - 1, &line);
        result = LOAD_OK;
    }
    if (result != LOAD_OK || !is_valid(path, document, use, &line)) {
        append_error(error, &line, result == LOAD_ABSENT);
        json_decref(document);
        document = NULL;
    }
    buf_free(&home);
    buf_free(&line);
    return document;
}
