/*
 * Entries, one a line, then a line with a host: the compiled list answers as a
 * plain reading of the rules does, entry by entry.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/policy/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES_MAX = 32 };

/* Chapter 10 section 4.3 for one valid entry, without any table. */
static bool matches(const char *entry, const struct host *host, unsigned port)
{
    struct buf text;
    struct host same;
    buf_init(&text, 1 << 20);
    unsigned only = pattern_split(entry, strlen(entry), &text);
    const char *s = buf_cstr(&text);
    size_t n = buf_len(&text);
    bool match;

    if (n == 1 && s[0] == '*')
        match = true;
    else if (n > 2 && s[0] == '*' && s[1] == '.')
        match = !host->is_address && host->len > n - 1 &&
                text_equal_fold(host->text + host->len - (n - 1), n - 1, s + 1, n - 1);
    else if (host_canonicalise(s, n, &same) == HOST_OK && same.is_address)
        match = host->is_address && address_equal(&same.address, &host->address);
    else
        match = text_equal_fold(host->text, host->len, s, n);
    buf_free(&text);
    return match && (only == 0 || only == port);
}

static void check_list(const struct pattern_list *list, const struct host *host)
{
    static const uint16_t ports[] = {22, 80, 443, 65535};

    for (size_t p = 0; p < sizeof ports / sizeof ports[0]; p++) {
        long want = -1;
        for (size_t i = 0; want < 0 && i < pattern_list_count(list); i++) {
            if (matches(pattern_list_entry(list, i), host, ports[p]))
                want = (long)i;
        }
        long got = pattern_list_match(list, host, ports[p]);
        assert(got == want);
        if (got >= 0) {
            const char *entry = pattern_list_entry(list, (size_t)got);
            assert(pattern_list_covers(list, host->text, host->len));
            assert(!pattern_matches_nothing(PATTERN_DENIED, entry, strlen(entry)));
        }
    }
}

static void check_validity(const char *s, size_t n)
{
    bool denied = pattern_valid(PATTERN_DENIED, s, n);
    bool allowed = pattern_valid(PATTERN_ALLOWED, s, n);
    pattern_valid(PATTERN_PLAIN, s, n);
    pattern_matches_nothing(PATTERN_PLAIN, s, n);
    pattern_matches_nothing(PATTERN_DENIED, s, n);
    assert(!allowed || denied);
    assert(!denied || allowed || s[0] == '*');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pattern_list *list = pattern_list_new(PATTERN_DENIED);
    const char *s = (const char *)data;
    struct host host;

    while (pattern_list_count(list) < ENTRIES_MAX) {
        const char *newline = size != 0 ? memchr(s, '\n', size) : NULL;
        if (newline == NULL)
            break;
        size_t n = (size_t)(newline - s);
        check_validity(s, n);
        if (pattern_valid(PATTERN_DENIED, s, n) && (n == 0 || memchr(s, 0, n) == NULL)) {
            char *entry = mem_dup_n(s, n);
            pattern_list_add(list, entry);
            free(entry);
        }
        s += n + 1;
        size -= n + 1;
    }
    pattern_list_seal(list);
    if (host_canonicalise(s, size, &host) == HOST_OK)
        check_list(list, &host);
    pattern_list_free(list);
    return 0;
}
