/*
 * A table of names built once and then only asked: exact names, names under a
 * base, and "everything", each for one port or every port. A question looks at
 * a bounded number of slots however many names there are: an exact name is one
 * slot run, a name under a base one run a label. It answers with the smallest
 * index, so that the first entry of a list wins. Pure, no allocation once sealed.
 */
#ifndef POLICY_NAME_TABLE_H
#define POLICY_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum name_kind {
    NAME_EXACT, /* the name itself */
    NAME_UNDER, /* every name that ends in "." and the text */
    NAME_ANY    /* everything; the text is empty */
};

enum {
    NAME_EVERY_PORT = 0,       /* a row that holds for every port */
    NAME_PORT_IGNORED = 65536, /* for rows and questions that leave ports out of account */
};
#define NAME_NONE SIZE_MAX /* larger than every index */

struct name_table;
struct name_table *name_table_new(void);
void name_table_free(struct name_table *t);

/* Before the seal. The text is copied, compared byte by byte; indices ascend from call to call. */
void name_table_add(struct name_table *t, enum name_kind kind, const char *text, size_t len,
                    uint32_t port, size_t index);
void name_table_seal(struct name_table *t);

/* The smallest index of the rows of exactly this kind and text, for the port or for every port;
 * NAME_NONE when there is none. */
size_t name_table_find(const struct name_table *t, enum name_kind kind, const char *text,
                       size_t len, uint32_t port);

/* The same over all NAME_UNDER rows whose base the text lies under. */
size_t name_table_find_under(const struct name_table *t, const char *text, size_t len,
                             uint32_t port);

#endif
