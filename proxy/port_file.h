/* --port-file: the addresses the gateway is bound to, one a line, for scripts. */
#ifndef PROXY_PORT_FILE_H
#define PROXY_PORT_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proxy/net/listen.h"

/* Appears whole or not at all: written beside its name and renamed. False with a message. */
bool port_file_write(const char *path, struct listener *const *listeners, size_t count,
                     struct buf *error);

#endif
