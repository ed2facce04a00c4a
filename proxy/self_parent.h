/*
 * A gateway whose parent proxy is itself passes each request to itself until
 * descriptors run out. HTTP_PROXY in the shell that starts it is enough for
 * that, so it is looked for at the start.
 */
#ifndef PROXY_SELF_PARENT_H
#define PROXY_SELF_PARENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proxy/net/interfaces.h"
#include "proxy/net/listen.h"
#include "proxy/policy/route.h"

/* False, with a message, when a parent of the routes is one of these listeners. A parent given by
 * a name other than localhost is not looked up. */
bool self_parent_absent(const struct routes *routes, struct listener *const *listeners,
                        size_t count, struct interfaces *interfaces, struct buf *error);

#endif
