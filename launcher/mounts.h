/*
 * From the file-system rules to mounts: chapter 50 sections 4 and 6 to 8, with
 * what section 18 changes. The result is data; it is executed by the helper in
 * the box or by bubblewrap, and nothing here needs a privilege. Reads the disk,
 * changes nothing.
 */
#ifndef LAUNCHER_MOUNTS_H
#define LAUNCHER_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launcher/path.h"
#include "launcher/sandbox_settings.h"

enum mount_kind {
    MOUNT_READ_ONLY = 1,  /* source, as the host has it, at place; read-only */
    MOUNT_WRITABLE,       /* the same, writable */
    MOUNT_HIDE_DIRECTORY, /* an empty private tmpfs */
    MOUNT_HIDE_FILE,      /* /dev/null, which cannot be opened there (nodev) */
    MOUNT_PIN_LINK        /* a symbolic link bound on itself */
};

/* Why a mount is there, for --print-plan. */
enum mount_reason {
    REASON_ALLOW_WRITE = 1,
    REASON_DENY_WRITE,
    REASON_MANDATORY, /* section 6.3 */
    REASON_PIN,       /* keeps a protected path's parent from being renamed */
    REASON_DENY_READ,
    REASON_CREDENTIAL,
    REASON_ALLOW_READ,
    REASON_OWN /* our own files and the system's (section 8.1, ssh_config.d) */
};

struct mount {
    enum mount_kind kind;
    enum mount_reason reason;
    char *source; /* NULL for HIDE_*; often equal to place */
    char *place;
};

/* A missing protected name, stood in for on the host while the box lives. Among the mounts it has a
 * MOUNT_READ_ONLY on itself, or a MOUNT_HIDE_DIRECTORY where it is another run's and read-denied:
 * the node must not go while something is mounted there. */
struct standin {
    char *path;
    bool directory; /* else a socket node */
    bool optional;  /* the parent may refuse (9p): then nothing is mounted and the run goes on */
};

struct mounts {
    bool root_writable; /* "/" writable from the start (filesystem.disabled); else read-only */
    struct mount *list;
    size_t count, room;
    struct standin *standins;
    size_t standin_count, standin_room;
    struct paths write_allowed; /* allowed write paths */
    struct paths write_denied;  /* what a violation is judged by: denied and mandatory, no scan */
    struct paths read_hidden;   /* places behind HIDE_DIRECTORY, nothing bound back around them */
    struct paths warnings;      /* lines for the user, without newline */
};

struct mounts_options {
    const struct sandbox_settings *settings;
    const char *directory;         /* srt's working directory */
    const char *home;              /* "" when there is none */
    const char *private_directory; /* of our own records, hidden in every box; NULL: none */
    const char *temporary;         /* /tmp/claude where it is another user's: a private tmpfs goes
                                      there, writable; else NULL */
    const char *const *readable;   /* our own files for the box (section 6.2); NULL-terminated or
                                      NULL */
    /* Files that say what srt does, absolute or relative to `directory`: write-denied with the
     * links that they are reached through. Missing ones are left out. NULL-terminated or NULL. */
    const char *const *protected_files;
    /* Is the node at this path a stand-in of some run (standins.h)? The name counts as missing
     * then, but a directory is hidden by a read deny like any other. NULL: none is. */
    bool (*is_standin)(void *ctx, const char *path);
    void *standin_ctx;
    bool (*stopped)(void *ctx); /* see scan.h */
    void *ctx;
};

/* What every box may write, as entries of allowWrite, without what is in /dev; NULL-terminated. */
extern const char *const mounts_default_writes[];

/* False with one line in *error (no newline): an entry that cannot be enforced, or *stopped. */
bool mounts_plan(const struct mounts_options *o, struct mounts *out, struct buf *error);
void mounts_free(struct mounts *m);

/* True when the box shows the host's file at `path` (canonical): no hiding mount is on top. */
bool mounts_visible(const struct mounts *m, const char *path);

#endif
