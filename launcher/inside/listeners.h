/* The box's proxy ports: made in its network namespace, served from outside. */
#ifndef LAUNCHER_INSIDE_LISTENERS_H
#define LAUNCHER_INSIDE_LISTENERS_H

#include <stdbool.h>

#include "base/buf.h"

/* Listens on 127.0.0.1 and, where there is IPv6, ::1, and passes the listeners out in one message
 * (orders.h). None stays open here. */
bool listeners_send(int control, struct buf *error);

#endif
