/* The URL of a parent proxy, as settings and environment write it. Pure. Chapter 10 section 7.1. */
#ifndef POLICY_PROXY_URL_H
#define POLICY_PROXY_URL_H

#include <stdbool.h>

#include "base/buf.h"
#include "proxy/policy/route.h"

/* False, with nothing to free, when the value is no usable http or https proxy. */
bool proxy_url_parse(const char *value, struct parent_proxy *out);
void proxy_url_clear(struct parent_proxy *p); /* frees what parse made; the credential is wiped */

/* Appends the value made safe to show: whatever may be a credential replaced, cleaned, cut. */
void proxy_url_redact(struct buf *out, const char *value);

#endif
