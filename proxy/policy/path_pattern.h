/*
 * Patterns of request paths, and the one form in which targets are compared
 * with them. Pure. RFC 3986 sections 2.3, 3.3 and 5.2.4.
 *
 * A pattern is a path. A whole segment of it may be one star: any one segment
 * that is not empty; once it may be two stars: any segments, also none, so that
 * "/a" and two stars are /a and everything below it. Without a "?" it says
 * nothing about the query. With one, the query is what follows it, to the byte
 * (nothing: no query), and stars in it are stars.
 */
#ifndef POLICY_PATH_PATTERN_H
#define POLICY_PATH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

enum { PATH_PATTERN_MAX = 1024 };

/*
 * A target in the form that patterns are compared with: escapes of the path
 * decoded (of the query: those of unreserved characters), dot segments resolved,
 * runs of slashes made one, the fragment dropped.
 */
struct request_path {
    char *path; /* starts with '/'; "*" is the target of OPTIONS that names no path */
    size_t path_len;
    const char *query; /* inside the same memory */
    size_t query_len;
    /* Servers disagree about which path this is: an escaped slash, backslash, NUL or dot segment, a
     * dot segment with parameters or one that takes back an empty segment, a plain backslash or
     * NUL, an escape that is none. The path is not to be compared then. */
    bool ambiguous;
    bool query_ambiguous; /* an escape that is none, or of a NUL, in the query */
};

/* target: path and query as the client spelled them, any bytes; empty is "/". Takes time and memory
 * in proportion to n. */
void request_path_init(struct request_path *p, const char *target, size_t n);
void request_path_free(struct request_path *p);

/* At most PATH_PATTERN_MAX bytes; starts with '/', without control characters, fragment, empty or
 * dot segments, nor anything that would be ambiguous in a target. */
bool path_pattern_valid(const char *s, size_t n);

struct path_pattern;
struct path_pattern *path_pattern_new(const char *s, size_t n); /* NULL: not valid */
void path_pattern_free(struct path_pattern *pattern);
bool path_pattern_has_query(const struct path_pattern *pattern);
/* Every path, whatever its query. */
bool path_pattern_is_any(const struct path_pattern *pattern);
/* One pass over the path, which must not be ambiguous, nor the query when the pattern has one. */
bool path_pattern_match(const struct path_pattern *pattern, const struct request_path *path);

#endif
