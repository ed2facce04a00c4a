/*
 * A socket for OpenSSL of which some bytes have been read already: they come
 * first, then the rest.
 */
#ifndef TLS_PREFIX_BIO_H
#define TLS_PREFIX_BIO_H

#include <openssl/bio.h>

#include "base/buf.h"

/* Takes over *first; the descriptor stays the caller's. NULL when none can be made. */
BIO *prefix_bio_new(int fd, struct buf *first);

#endif
