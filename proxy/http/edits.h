/*
 * What a decider's allow changes of a request's header section: removals, then
 * sets. Names are compared folded (lower case, '_' and '.' as '-'). Pure.
 * Chapter 20 section 11.3, chapter 35 section 3.
 */
#ifndef HTTP_EDITS_H
#define HTTP_EDITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct edits;
struct edits *edits_new(void);
/* Wipes the values (they may be credentials) and frees; NULL is fine. */
void edits_free(struct edits *e);

/* Framing and hop-by-hop names of section 11.3 are never touched: such a call changes nothing.
 * Everything is copied; names in any spelling that is a token. */
void edits_remove(struct edits *e, const char *name);
/* Adds a value to a name. Sets of one folded name go out together, under the first spelling given,
 * lower-cased, in the order of the calls; what the client sent of it is gone. */
void edits_set(struct edits *e, const char *name, const char *value);
/* A credential: authorization, proxy-authorization, cookie and x-api-key are removed, sets of them
 * included, and authorization becomes `value`. */
void edits_set_credential(struct edits *e, const char *value);

/* Whether any header is set (a credential is one). */
bool edits_sets_any(const struct edits *e);

/* Whether a field of the client's goes: removed or set by these edits. */
bool edits_drop(const struct edits *e, const char *name, size_t n);
/* Upper bound of what edits_write() appends; it appends the set fields, each a line with CRLF. */
size_t edits_size(const struct edits *e);
void edits_write(const struct edits *e, struct buf *out);

#endif
