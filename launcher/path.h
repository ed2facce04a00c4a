/*
 * Paths as text and on the disk: spelling, canonical form, name location,
 * containment. Chapter 50, notation and section 5.1. All paths are byte strings
 * without NUL; results are malloc'ed and the caller's to free.
 */
#ifndef LAUNCHER_PATH_H
#define LAUNCHER_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum { PATH_LINKS_MAX = 40 };

/* ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG: nothing is there. */
bool path_is_absence(int number);

/* At or under `root`, by whole components; both absolute and without trailing slashes. */
bool path_within(const char *path, const char *root);
/* The same, but not equal. */
bool path_beneath(const char *path, const char *root);

/* The user's home directory: HOME as it is set, else of the account; "" when there is none. */
const char *path_home(void);

/* "dir/name", with one slash between; name may hold several components. */
char *path_join(const char *directory, const char *name);
/* The parent of an absolute path; "/" for one component and for "/". */
char *path_parent(const char *path);
/* Components of an absolute path; 0 for "/". */
size_t path_depth(const char *path);

/* An absolute path with empty components, `.` and `..` folded in the text. */
char *path_fold(const char *path);
/*
 * Section 5.1 up to, not including, the real path: slashes stripped, home expanded, made absolute
 * with `directory`, folded in the text. NULL when the entry names nothing ("~" with an empty home).
 * An absolute name that does not exist keeps its `..` as written.
 */
char *path_spell(const char *entry, const char *directory, const char *home);
/* The whole of section 5.1: path_spell(), then the real path where that is the same or beneath. */
char *path_resolve(const char *entry, const char *directory, const char *home);

/*
 * Every link resolved, `.` and `..` of `path` itself folded in the text first (`link/..` is the
 * directory that holds the link). NULL with errno: absence, or ELOOP past PATH_LINKS_MAX, EILSEQ
 * for a component that is not UTF-8, EACCES. Transient errors are asked for once more.
 */
char *path_real(const char *path);
/* path_real(), else a copy of the spelling. */
char *path_canonical(const char *path);
/* The canonical form of the parent plus the last component as written. */
char *path_name_location(const char *path);

/* lstat and stat with one more try after a transient errno; 0 or the errno. */
int path_lstat(const char *path, struct stat *st);
int path_stat(const char *path, struct stat *st);

/* A growing list of paths; owns its strings. */
struct paths {
    char **list;
    size_t count, room;
};
/* Takes over `path`; NULL is ignored. */
void paths_add(struct paths *p, char *path);
bool paths_has(const struct paths *p, const char *path);
/* True when one of the list is at or above `path`. */
bool paths_cover(const struct paths *p, const char *path);
/* Sorts by bytes, so that a directory comes before what is beneath it, and drops duplicates. */
void paths_sort(struct paths *p);
void paths_free(struct paths *p); /* the list stays usable and empty */

#endif
