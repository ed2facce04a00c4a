/*
 * This host's own interface addresses as a set, cached and refreshed when the
 * kernel says they changed (an rtnetlink socket on Linux; elsewhere read afresh
 * at each question). Chapter 10 section 6.1, priority 9.
 */
#ifndef NET_INTERFACES_H
#define NET_INTERFACES_H

#include <ev.h>

#include "proxy/policy/address.h"

struct interfaces;
struct interfaces *interfaces_new(struct ev_loop *loop);
void interfaces_free(struct interfaces *i);
/* Never NULL; empty when the enumeration fails. Valid until the next call or loop turn. */
const struct address_set *interfaces_addresses(struct interfaces *i);

#endif
