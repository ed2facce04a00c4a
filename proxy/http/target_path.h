/*
 * The one normalisation of a path and query. Private to proxy/http. Pure.
 * Chapter 20 sections 6.4 and 10; what a URL parser makes of an http path.
 */
#ifndef HTTP_TARGET_PATH_H
#define HTTP_TARGET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/*
 * Appends s[0..n), which starts with '/' and holds no fragment, in normal form: '\' read as '/',
 * dot segments resolved, escapes written, an empty query dropped. The result never holds a byte
 * outside 0x21-0x7E. one_slash: a run of slashes at its start becomes one. False, with nothing
 * appended, when out's maximum would be passed.
 */
bool target_path_normalise(struct buf *out, const char *s, size_t n, bool one_slash);

/* Appends s[0..n) with each byte that `chosen` names percent-escaped, in capitals. False as above.
 */
bool target_escape(struct buf *out, const char *s, size_t n, const char *chosen);

#endif
