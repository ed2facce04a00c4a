/*
 * The nodes themselves: made, recognised and removed by a descriptor of their
 * directory, so that no link on the way is followed. Private to the stand-ins.
 */
#ifndef LAUNCHER_STANDINS_NODE_H
#define LAUNCHER_STANDINS_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum node_kind {
    NODE_OTHER = 0, /* nothing that a stand-in can be */
    NODE_SOCKET,
    NODE_FILE, /* an empty regular file, where a file system has no sockets */
    NODE_DIRECTORY
};

/* Inode numbers are used again at once by some file systems; the time of birth, where there is
 * one (else 0), tells a later node from ours. */
struct node_identity {
    uint64_t device, inode;
    int64_t birth_s;
    uint32_t birth_ns;
};

struct node {
    enum node_kind kind;
    struct node_identity identity;
    uid_t owner;
    int64_t changed; /* ctime, seconds */
};

bool node_same(const struct node_identity *a, const struct node_identity *b);

/* Opens (O_PATH) the directory that holds an absolute path, following no link; *name is the last
 * component. -1 with errno. */
int node_open_parent(const char *path, const char **name);

/* 0 or the errno. */
int node_look(int parent, const char *name, struct node *out);
int node_make(int parent, const char *name, enum node_kind kind);
/* Never removes a directory that holds something. */
int node_remove(int parent, const char *name, enum node_kind kind);

#endif
