/*
 * The mount plan while it is being made. Private to launcher/mounts*.c, which
 * go through it in this order:
 *   mounts_lists.c  the entries of the settings and the lists in force
 *   mounts_read.c   read rules to mounts
 *   mounts_write.c  write rules to targets
 *   mounts_pins.c   what keeps the parents and links of protected places
 *   mounts_order.c  write rules over read rules, and the order of all
 */
#ifndef LAUNCHER_MOUNTS_INTERNAL_H
#define LAUNCHER_MOUNTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "launcher/entry.h"
#include "launcher/mounts.h"
#include "launcher/mounts_index.h"
#include "launcher/path.h"

struct mount_list {
    struct mount *list;
    size_t count, room;
};
/* Copies the strings. */
void mount_list_add(struct mount_list *l, enum mount_kind kind, enum mount_reason reason,
                    const char *source, const char *place);
void mount_list_free(struct mount_list *l);

/* An entry of denyRead or a credential deny, as read. */
struct read_entry {
    const char *key, *text; /* of the settings */
    bool credential;
    struct readings readings;
};

/* A name of denyWrite, or a mandatory one. */
struct write_name {
    char *name;
    const char *text; /* of the settings; mandatory: NULL */
};

/* A place that is read-denied: a directory with all below, or another node. */
struct read_place {
    char *place;
    bool directory;
    bool unlisted; /* it hides what could not be looked at: nothing is bound back beneath the mount
                      that hides it */
    bool credential; /* only our own files are bound back beneath */
    bool own;        /* no entry's, but ours */
    bool standin;    /* a directory that stands in for a name some run protects */
};

/* An allowed path as it would be bound back into a read-denied directory. */
struct allowance {
    char *location; /* name location */
    char *source;   /* what it resolves to */
    bool writable;
    bool readable; /* an allowRead names it, whatever else does */
    bool own;      /* a file of ours, an exception to credential denies too */
    size_t order;  /* among the lists */
};

/* A write-denied place. */
struct write_target {
    char *place; /* there: real path; missing: the first missing component */
    enum mount_reason reason;
    bool missing;
    bool directory;  /* the node is one, or its stand-in is to be one */
    bool obstacle;   /* a file that a denied name would lie beneath, itself not denied */
    bool linked;     /* some entry reaches it through a link */
    bool optional;   /* missing: only trying tells whether it can be made */
    bool unmakeable; /* missing: nobody can make it, so there is only its parents to pin */
};

struct planner {
    const struct mounts_options *o;
    struct place spelled; /* for entry.h */
    struct mounts *out;
    struct buf *error;

    /* mounts_lists.c */
    struct read_entry *read_entries;
    size_t read_entry_count;
    struct readings *allow_entries; /* of allowRead */
    size_t allow_entry_count;
    struct paths allowed; /* allowed write paths, in order */
    struct path_index allowed_index;
    struct write_name *write_names; /* denyWrite, then the mandatory ones */
    size_t write_name_count, write_name_room;

    char *own_directory; /* the private one, as it is hidden; NULL: none */

    /* mounts_walk.c */
    struct path_index directories; /* seen on the way to a place: no need to look again */
    struct paths links; /* links that the rules go through, where the command could replace
                           them, at their locations */
    struct path_index link_index;

    /* mounts_read.c */
    struct paths read_allowed; /* names of allowRead */
    struct read_place *places;
    size_t place_count, place_room;
    struct path_index place_index;  /* value: index of places */
    struct path_index hidden_index; /* the directories among them */
    struct path_index sealed_index, credential_index;
    struct allowance *allowances; /* by location, a parent before what is beneath */
    size_t allowance_count, allowance_room;
    struct mount_list allows, reads; /* reads: each hiding mount, then what it binds back */
    struct view view;                /* of allows, reads and what comes after */

    /* mounts_write.c */
    struct path_index parents; /* of missing names; value: enum parent_trait bits */
    struct write_target *targets;
    size_t target_count, target_room;
    struct path_index denied_directories; /* those among the targets that exist */
    struct path_index sure;               /* write-denied directories that stay read-only */
    bool root_denied;                     /* "/" is write-denied */

    /* mounts_pins.c */
    struct mount_list pins, covers;

    /* mounts_order.c */
    struct mount_list denies; /* write-denies, and what is mounted again over them */
};

/* /dev is the box's own, and so is /proc: no mount of ours can land there. */
bool plan_is_private_tree(const char *path);
/* lstat's kind of node; a stand-in of some run counts as missing. 0 or the errno. */
int plan_lstat(const struct planner *p, const char *path, mode_t *mode);
/* The same for what is to be hidden: there may be something in a directory that stands in, so it
 * counts. *standin says that it is one. */
int plan_lstat_hidden(const struct planner *p, const char *path, mode_t *mode, bool *standin);
void plan_add_standin(struct planner *p, const char *path, bool directory, bool optional);
/* A line for the user about an entry of the settings. */
void plan_warn(struct planner *p, const char *key, const char *text, const char *what);
/* True with a line in *error when the caller wants to stop. */
bool plan_stopped(struct planner *p);

/* Who follows a path. */
enum walk_as {
    WALK_AS_WRITE, /* a write of the command's: a stand-in of some run is not there */
    WALK_AS_READ,  /* a read: directories that stand in are there; names are any bytes */
    WALK_AS_OPENED /* a read of a path that nobody folds in the text before */
};

/* How a way through links ends. */
enum walk_end {
    WALK_EXISTS,
    WALK_MISSING,
    WALK_UNSEARCHABLE, /* a directory on the way cannot be searched */
    WALK_NOWHERE       /* a cycle, or a link to a name that no mount rule can hold */
};
struct walk {
    enum walk_end end;
    char *place;         /* the real path; missing: of what exists, plus the rest; unsearchable: of
                            the directory; nowhere: NULL */
    mode_t mode;         /* of what exists at the end */
    bool standin;        /* that is a directory which stands in for a name some run protects */
    size_t existing;     /* missing: length of the part of `place` that exists */
    bool through_file;   /* missing: that part is no directory */
    struct paths passed; /* missing names that the way goes up from again */
    struct paths links;  /* links on the way, at their locations */
};
/* Follows an absolute path. Chapter 50 section 7.2. */
void walk_path(struct planner *p, const char *path, enum walk_as as, struct walk *w);
/* The first link of the way that the command could replace, or NULL. */
const char *walk_replaceable_link(const struct planner *p, const struct walk *w);
/* Takes all such links of the way to those that are to be kept as they are. */
void walk_keep_links(struct planner *p, const struct walk *w);
void walk_free(struct walk *w);

/* All of these: false with *error set. */

/* The lists in force, chapter 50 section 6. */
bool lists_collect(struct planner *p);

/* What is read-denied and what is bound back; then the mounts of both and of the allowed write
 * paths, and the view of them. Chapter 50 sections 8.1 to 8.3. */
bool reads_collect(struct planner *p);
void reads_mount(struct planner *p);
/* Adds to `out` the hiding mount p->reads.list[at] and its binds back, these read-only. */
void reads_repeat(const struct planner *p, size_t at, struct mount_list *out);
/* The first of p->allowances at or beneath a place; they follow each other. */
size_t allowances_from(const struct planner *p, const char *place);

/* Where the denied writes land, and which of them need a mount. Chapter 50 sections 7.2, 7.3. */
bool writes_resolve(struct planner *p);
/* True when the path is strictly under a write-denied directory that stays read-only. */
bool writes_is_covered(const struct planner *p, const char *path);

/* Pins and covers of every protected place. */
void pins_collect(struct planner *p);

/* Everything into out->list, and what else *out holds. */
void order_mounts(struct planner *p);

#endif
