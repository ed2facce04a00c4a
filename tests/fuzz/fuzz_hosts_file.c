/*
 * The hosts file: the table finds exactly what a plain scan of the lines finds.
 * The input is a name, a newline, and a file.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "proxy/net/hosts_file.h"
#include "proxy/policy/host.h"

enum { MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t word_length(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && strchr(" \t\r\v\f", s[i] == '\0' ? 'x' : s[i]) == NULL)
        i++;
    return i;
}

static size_t blank_length(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && s[i] != '\0' && strchr(" \t\r\v\f", s[i]) != NULL)
        i++;
    return i;
}

static bool names_it(const char *word, size_t n, const char *name, size_t name_n)
{
    if (n > 0 && word[n - 1] == '.')
        n--;
    return n > 0 && n <= HOST_MAX && text_equal_fold(word, n, name, name_n);
}

static size_t scan_line(const char *line, size_t n, const char *name, size_t name_n,
                        struct address *out, size_t max)
{
    const char *comment = n == 0 ? NULL : memchr(line, '#', n);
    struct address a;
    size_t count = 0, at;

    if (comment != NULL)
        n = (size_t)(comment - line);
    at = blank_length(line, n);
    size_t length = word_length(line + at, n - at);
    if (length == 0 || !address_parse(line + at, length, true, &a))
        return 0;
    for (at += length; at < n && count < max; at += length) {
        at += blank_length(line + at, n - at);
        length = word_length(line + at, n - at);
        if (names_it(line + at, length, name, name_n))
            out[count++] = a;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *newline = size == 0 ? NULL : memchr(text, '\n', size);
    char name[HOST_MAX];
    size_t name_n = newline == NULL ? 0 : (size_t)(newline - text), n, expected = 0, at = 0;
    struct address found[MAX], scanned[MAX];

    if (newline == NULL || name_n > sizeof(name))
        return 0;
    for (size_t i = 0; i < name_n; i++)
        name[i] = (char)text_lower((unsigned char)text[i]);
    text = newline + 1;
    n = size - name_n - 1;
    struct hosts_table *t = hosts_table_new(text, n);
    size_t count = hosts_table_find(t, name, name_n, found, MAX);
    while (at < n) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length = end == NULL ? n - at : (size_t)(end - (text + at));
        expected += scan_line(text + at, length, name, name_n, scanned + expected, MAX - expected);
        at += length + 1;
    }
    assert(count == expected);
    for (size_t i = 0; i < count; i++)
        assert(address_equal(&found[i], &scanned[i]));
    hosts_table_free(t);
    return 0;
}
