/*
 * `extract` patterns: ECMAScript syntax and meaning without flags, in UTF-16
 * code units as there. Chapter 40 section 4 of the contract. Parsed here
 * (regex.h) and run by PCRE2 (regex_program.h); what little is refused or told
 * otherwise stands in regex_translate.c. Bounded in steps, time and memory, so
 * that no pattern can hang a run.
 */
#ifndef CREDENTIALS_EXTRACT_PATTERN_H
#define CREDENTIALS_EXTRACT_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct extract_pattern;

/* pattern: UTF-8, any bytes. NULL when it does not compile, the reason in *error ("Unterminated
 * group"). */
struct extract_pattern *extract_pattern_compile(const char *pattern, size_t n, struct buf *error);
void extract_pattern_free(struct extract_pattern *p);

/* Capturing groups, named or not. */
unsigned extract_pattern_groups(const struct extract_pattern *p);

enum extract_result {
    EXTRACT_NONE,
    EXTRACT_MATCH,
    EXTRACT_LIMIT /* given up: too many steps, or too much to remember */
};
#define EXTRACT_UNSET UINT32_MAX
/*
 * The first match in text[0..n) at or after `from`, in UTF-16 code units.
 * slots: room for 2 * (groups + 1); start and end of the match, then of each
 * group, EXTRACT_UNSET both for one that took no part.
 */
enum extract_result extract_pattern_find(const struct extract_pattern *p, const uint16_t *text,
                                         uint32_t n, uint32_t from, uint32_t *slots);

/*
 * The same for several matches in one text, which must outlive the search, as
 * the pattern must. What has to be made of the text is made once, and the bound
 * on time holds for all together; after EXTRACT_LIMIT each call gives it again.
 */
struct extract_search;
struct extract_search *extract_search_new(const struct extract_pattern *p, const uint16_t *text,
                                          uint32_t n);
enum extract_result extract_search_find(struct extract_search *s, uint32_t from, uint32_t *slots);
void extract_search_free(struct extract_search *s);

#endif
