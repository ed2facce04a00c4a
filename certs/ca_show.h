/* What `srt ca show` says of a certificate file. */
#ifndef CERTS_CA_SHOW_H
#define CERTS_CA_SHOW_H

#include <stdbool.h>

#include "base/buf.h"

/* Appends lines on the first certificate of a file; every byte of them is printable ASCII or a line
 * end. False with a line, without its end, in *error. */
bool ca_show(const char *path, struct buf *out, struct buf *error);

#endif
