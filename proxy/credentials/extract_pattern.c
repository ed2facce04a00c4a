#include "proxy/credentials/extract_pattern.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "proxy/credentials/regex_program.h"

struct extract_pattern {
    struct regex_programs programs;
};
struct extract_search {
    struct regex_search *search;
};

/* UTF-8 to UTF-16; NULL when it is not UTF-8. The result is never longer than the source. */
static uint16_t *to_units(const char *s, size_t n, size_t *count)
{
    uint16_t *units = mem_array(n, sizeof *units);
    size_t used = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        size_t length = text_utf8_decode((const uint8_t *)s + at, n - at, &code);
        if (length == 0) {
            free(units);
            return NULL;
        }
        if (code >= 0x10000) {
            units[used++] = (uint16_t)(0xd800 + ((code - 0x10000) >> 10));
            units[used++] = (uint16_t)(0xdc00 + ((code - 0x10000) & 0x3ff));
        } else {
            units[used++] = (uint16_t)code;
        }
        at += length;
    }
    *count = used;
    return units;
}

struct extract_pattern *extract_pattern_compile(const char *pattern, size_t n, struct buf *error)
{
    size_t count;
    uint16_t *units = to_units(pattern, n, &count);
    if (units == NULL) {
        buf_puts(error, "Not UTF-8");
        return NULL;
    }
    struct extract_pattern *p = NULL;
    struct regex_tree tree;
    const char *why = regex_parse(units, count, &tree);
    if (why != NULL) {
        buf_puts(error, why);
    } else {
        p = mem_alloc(sizeof *p);
        if (!regex_translate(&tree, &p->programs, error)) {
            extract_pattern_free(p);
            p = NULL;
        }
    }
    regex_tree_free(&tree);
    free(units);
    return p;
}

void extract_pattern_free(struct extract_pattern *p)
{
    if (p == NULL)
        return;
    regex_programs_free(&p->programs);
    free(p);
}

unsigned extract_pattern_groups(const struct extract_pattern *p)
{
    return p->programs.groups;
}

struct extract_search *extract_search_new(const struct extract_pattern *p, const uint16_t *text,
                                          uint32_t n)
{
    struct extract_search *s = mem_alloc(sizeof *s);
    s->search = regex_search_new(&p->programs, text, n);
    return s;
}

enum extract_result extract_search_find(struct extract_search *s, uint32_t from, uint32_t *slots)
{
    switch (regex_search_find(s->search, from, slots)) {
    case REGEX_MATCHED:
        return EXTRACT_MATCH;
    case REGEX_LIMIT:
        return EXTRACT_LIMIT;
    case REGEX_NO_MATCH:
        break;
    }
    return EXTRACT_NONE;
}

void extract_search_free(struct extract_search *s)
{
    if (s == NULL)
        return;
    regex_search_free(s->search);
    free(s);
}

enum extract_result extract_pattern_find(const struct extract_pattern *p, const uint16_t *text,
                                         uint32_t n, uint32_t from, uint32_t *slots)
{
    struct extract_search *s = extract_search_new(p, text, n);
    enum extract_result result = extract_search_find(s, from, slots);
    extract_search_free(s);
    return result;
}
