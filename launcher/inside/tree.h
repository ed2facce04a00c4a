/*
 * The mounts of the orders, applied by the kernel's mount calls: linear in
 * their number, and with a bounded number of descriptors.
 */
#ifndef LAUNCHER_INSIDE_TREE_H
#define LAUNCHER_INSIDE_TREE_H

#include <stdbool.h>

#include "base/buf.h"
#include "launcher/orders.h"

/* Builds the command's tree, /dev and the covers of /proc and /sys included, and makes it the root
 * of this process and its name space. */
bool tree_build(const struct orders *orders, struct buf *error);

#endif
