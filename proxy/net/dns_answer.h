/*
 * The addresses in a DNS answer (RFC 1035 section 4). Only records that belong
 * to the name asked, or to the end of the chain of aliases that starts there,
 * count. Pure; the bytes are hostile.
 */
#ifndef NET_DNS_ANSWER_H
#define NET_DNS_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "proxy/policy/address.h"

/* How a query for one name and type ended. */
enum dns_status {
    DNS_ADDRESSES,     /* one address at least */
    DNS_EMPTY,         /* records, but no address among them: an alias that leads nowhere */
    DNS_NO_DATA,       /* the name exists without such records */
    DNS_NO_NAME,       /* the name does not exist */
    DNS_SERVER_FAILED, /* every server answered with a failure or refused the connection */
    DNS_TIMEOUT,       /* no answer in time */
    DNS_FAILED /* anything else: an answer that makes no sense, a name that cannot be asked */
};

enum { DNS_TYPE_A = 1, DNS_TYPE_CNAME = 5, DNS_TYPE_AAAA = 28 };

/* name: dotted, as it was asked. At most max addresses go to out. */
enum dns_status dns_answer_read(const uint8_t *message, size_t n, const char *name, unsigned type,
                                struct address *out, size_t max, size_t *count);

#endif
