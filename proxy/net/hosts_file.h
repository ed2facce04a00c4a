/*
 * The hosts file: names and addresses written down by the administrator. Held
 * as a sorted table and read again when the file changed (one stat a question).
 * Every line that names a host counts, in file order, both families.
 */
#ifndef NET_HOSTS_FILE_H
#define NET_HOSTS_FILE_H

#include <stddef.h>

#include "proxy/policy/address.h"

/* The content, parsed. Lines that do not parse are skipped. Pure. */
struct hosts_table;
struct hosts_table *hosts_table_new(const char *text, size_t n);
void hosts_table_free(struct hosts_table *t);
/* Addresses of a canonical name, at most max of them into out; returns how many. */
size_t hosts_table_find(const struct hosts_table *t, const char *name, size_t n,
                        struct address *out, size_t max);

struct hosts_file;
struct hosts_file *hosts_file_new(const char *path);
void hosts_file_free(struct hosts_file *h);
/* The same, of the file as it is now. */
size_t hosts_file_find(struct hosts_file *h, const char *name, size_t n, struct address *out,
                       size_t max);

#endif
