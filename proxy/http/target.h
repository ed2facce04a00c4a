/*
 * Destinations and request targets. Pure. Chapter 20 sections 4, 6.2, 6.4, 9
 * and 10; RFC 9112 section 3.2, RFC 3986.
 */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proxy/http/head.h"
#include "proxy/policy/host.h"

/* A destination as the client wrote it; the host span points into the target given. */
struct authority {
    const char *host; /* without brackets */
    size_t host_len;
    uint16_t port;
    bool bracketed;
    bool https;  /* absolute form: the scheme */
    bool user;   /* absolute form: there was something before an "@" */
    size_t path; /* absolute form: offset of the first byte after the authority */
};

/* CONNECT target, section 4. False: 400. The host may still be malformed for the policy. */
bool authority_parse_connect(const char *s, size_t n, struct authority *out);

/* Absolute form, section 6.2 (http and https alone, scheme in any case). False: 400. */
bool authority_parse_absolute(const char *s, size_t n, struct authority *out);

/* An IP literal (IPv6 bracketed), or non-empty labels of letters, digits and "-" with at most one
 * dot behind them, and no user: section 12. */
bool authority_is_plain(const struct authority *a);

/* Host as a violation line shows it for an absolute-form request: what a URL parser makes of it
 * (lower-cased, numbers and IPv6 normalised); as spelled when it is malformed. */
void authority_spelling(struct buf *out, const struct authority *a, bool connect);

/* "host" or "host:port", IPv6 bracketed, the port left out when it is default_port (0: always
 * written). host canonical. */
void authority_format(struct buf *out, const struct host *host, uint16_t port,
                      uint16_t default_port);

/* The target forwarded when there is no filter: normalised path and query, a run of leading
 * slashes kept, fragment dropped (6.4). `rest` is what follows the authority; may be empty.
 * `*` for OPTIONS with an empty path (RFC 9112 section 3.2.4) stays as the rule of the chapter
 * says: "/" . False, with nothing appended, when out's maximum would be passed (3 * n + 1 bytes are
 * always enough). */
bool target_forwarded(struct buf *out, const char *rest, size_t n);

/* Section 10. `target` origin or absolute form. */
enum target_refusal { TARGET_OK, TARGET_MALFORMED, TARGET_AMBIGUOUS };
enum target_mode { TARGET_REFUSE, TARGET_AS_SPELLED, TARGET_NORMALIZE };
struct target_forms {
    struct buf spelled, normalized;
    bool ambiguous;
};
/* max: of each form; 3 * n + 1 bytes are always enough, a form that is longer is malformed. */
void target_forms_init(struct target_forms *f, size_t max);
void target_forms_free(struct target_forms *f);
/* False: malformed (spelled and normalized are then meaningless). */
bool target_forms_parse(struct target_forms *f, const char *target, size_t n, const char *method,
                        size_t method_len);
/* What is forwarded under a mode; *out points into f. */
enum target_refusal target_choose(const struct target_forms *f, enum target_mode mode,
                                  const struct buf **out);
/* Exact mode: false is 400. absolute: the plain path. out needs room for n + 1 bytes. */
bool target_exact(struct buf *out, const char *target, size_t n, bool absolute);

extern const char target_malformed_text[]; /* "malformed request-target" */
extern const char target_ambiguous_text[]; /* AMBIGUOUS of section 10 */

/* Section 9. Each string may be NULL (absent). NULL result: they agree. */
struct host_match {
    const char *const *host_headers; /* values of Host fields */
    const size_t *host_header_lens;
    size_t host_header_count;
    const char *hostname; /* canonical target, IPv6 without brackets */
    uint16_t port, default_port;
    bool server_name_unreadable;
    const char *server_name; /* NULL: none sent, or no tunnel */
    const char *authority;   /* of an absolute-form target in a tunnel, or NULL */
};
const char *host_mismatch(const struct host_match *m);

#endif
