/*
 * Violation lines, suppression, the store of the last hundred, and attribution
 * keys. No I/O. Chapter 10 sections 8 and 9.
 */
#ifndef POLICY_VIOLATION_H
#define POLICY_VIOLATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* "deny network-outbound <host>:<port> (<reason>)"; host as the client spelled it, brackets off. */
void violation_network(struct buf *out, const char *host, size_t n, uint16_t port,
                       const char *reason);
/* "deny http-request <METHOD> <url> (<reason>)"; url already built and cut by violation_url(). */
void violation_request(struct buf *out, const char *method, size_t n, const char *url,
                       const char *reason);
/* "http://<authority><target>" with the target cut after its first ? or # and U+2026 appended. */
void violation_url(struct buf *out, const char *scheme, const char *authority, const char *target,
                   size_t n);
/* "deny socks-tunnel <host>:<port> (refuseOpaqueTunnels)" */
void violation_socks(struct buf *out, const char *host, size_t n, uint16_t port);

/* Section 9. Appends standard base64 of the key cut to 100 UTF-16 units; and the user name
 * `srt.<base64>`, or `srt` when empty or too long. */
void attribution_encode(struct buf *encoded, struct buf *user, const char *command, size_t n);
/* The encoded suffix a user name presents (a span of `user`), or NULL when it presents none. */
const char *attribution_encoded(const char *user, size_t n, size_t *len);
/* The key that suffix decodes to, uncleaned; decoding never fails (it is lenient, invalid UTF-8
 * becomes U+FFFD). */
void attribution_decode(struct buf *key, const char *encoded, size_t n);

/* ignoreViolations, compiled: command pattern to texts. */
struct violation_filter;
struct violation_filter *violation_filter_new(void);
void violation_filter_add(struct violation_filter *f, const char *command, const char *text);
void violation_filter_free(struct violation_filter *f);
/* command NULL: only `*` applies. f NULL: nothing is suppressed. */
bool violation_suppressed(const struct violation_filter *f, const char *line, const char *command);

/* The store of section 8.2: last 100 records, running total, subscribers called with the list at
 * once and after each change. */
struct violation {
    char *line;            /* cleaned */
    char *encoded_command; /* as presented, or NULL */
    char *command;         /* or NULL */
    double time;           /* Unix seconds */
};
struct violation_store;
typedef void violation_subscriber(void *ctx, const struct violation *const *list, size_t count);
struct violation_store *violation_store_new(void);
void violation_store_free(struct violation_store *s);
void violation_store_add(struct violation_store *s, const struct violation_filter *f,
                         const char *line, const char *encoded_command, const char *command,
                         double time);
void violation_store_clear(struct violation_store *s); /* the total stays */
uint64_t violation_store_total(const struct violation_store *s);
void violation_store_subscribe(struct violation_store *s, violation_subscriber *fn, void *ctx);
void violation_store_unsubscribe(struct violation_store *s, violation_subscriber *fn, void *ctx);

#endif
