/*
 * The box's file system while it is being built. Lookups from the process's own
 * root still see the host's tree as bubblewrap has shown it; the tree that the
 * command gets is stacked on top and is reached by `root` only. Between the two
 * lies one private tmpfs: each hidden directory is an empty directory of it.
 */
#ifndef LAUNCHER_INSIDE_BOX_H
#define LAUNCHER_INSIDE_BOX_H

#include <stdbool.h>
#include <sys/types.h>

struct box {
    int host;              /* the host's tree */
    int root;              /* the command's tree */
    int null;              /* the host's /dev/null */
    int private_mount;     /* the tmpfs; -1: there is none */
    dev_t private_device;  /* its number, by which its directories are known */
    unsigned private_made; /* directories handed out */
};

/* The private tmpfs, attached on top of the host's root. False with errno. */
bool box_make_private(struct box *b);
/* A new empty directory of it, or -1 with errno. */
int box_private_directory(struct box *b, mode_t mode);

/* Opens a place in the command's tree. What is missing beneath a private directory is made there:
 * directories, and in the end a directory or an empty file. -1 with errno. */
int box_open_place(const struct box *b, const char *place, bool directory);

/* The deepest directory or other node on the way to `place` that can be reached in the command's
 * tree. */
int box_open_reachable(const struct box *b, const char *place);

/* True for a descriptor of the private tmpfs, where nothing of the host's is. */
bool box_is_private(const struct box *b, int fd);

#endif
