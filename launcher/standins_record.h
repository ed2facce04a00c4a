/*
 * The files of the private directory: those that say which stand-ins a run uses,
 * and the lock. Private to the stand-ins; who may read and write them when is in
 * standins.c.
 */
#ifndef LAUNCHER_STANDINS_RECORD_H
#define LAUNCHER_STANDINS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/standins_node.h"

struct standin_entry {
    enum node_kind kind;           /* NODE_OTHER: says nothing, keeps its place in the file */
    struct node_identity identity; /* inode 0: about to be made, not known yet */
    int64_t begun;                 /* when it was about to be made: seconds, real time */
    char *path;
    size_t run; /* which of several files it was read from; not in the file */
};

struct standin_list {
    struct standin_entry *list;
    size_t count, room;
};

/* Takes over the entry's path. */
void standin_list_add(struct standin_list *l, const struct standin_entry *entry);
/* The entry of this path that speaks of this very node; NULL when there is none. */
const struct standin_entry *standin_list_find(const struct standin_list *l, const char *path,
                                              const struct node *node);
/* Paths beneath others before them. */
void standin_list_sort(struct standin_list *l);
void standin_list_free(struct standin_list *l);

/* True when the node is the one that the entry speaks of. */
bool standin_entry_describes(const struct standin_entry *e, const struct node *node);

/* Adds a file's entries, up to the first that is not whole; those that say nothing are left out. A
 * file of another user's has none. */
void standin_record_read(int fd, size_t run, struct standin_list *out);
/* Replaces a file's entries in one write; never fewer than it has. 0 or the errno. */
int standin_record_write(int fd, const struct standin_list *l);

/* Takes the lock of the private directory, waiting for it no longer than is worth it. Closing the
 * descriptor lets go of it. -1 with errno. */
int standin_lock(int directory);

#endif
