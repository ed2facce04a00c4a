/* Directories for stand-ins and their records, and plans of one stand-in. */
#ifndef TESTS_STANDINS_FIXTURE_H
#define TESTS_STANDINS_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "launcher/standins.h"

/* One test's directory, with the records and a project in it. */
struct scene {
    char *top, *records, *project;
    struct buf error;
};

int scene_set_up(void **state);
int scene_tear_down(void **state);
#define SCENE(test) cmocka_unit_test_setup_teardown(test, scene_set_up, scene_tear_down)

/* "directory/name"; malloc'ed. */
char *scene_path(const char *directory, const char *name);
/* What is in a directory. */
size_t scene_entries(const char *directory);
/* Run files in a directory. */
size_t scene_runs(const char *directory);
/* The type of the node, 0 when there is none. */
mode_t type_of(const char *path);

/* A plan of one stand-in and its mount. */
struct small_plan {
    struct mounts mounts;
    struct standin standin;
    struct mount mount;
};

void small_plan_make(struct small_plan *p, const char *path, bool directory, bool optional);
void small_plan_free(struct small_plan *p);

/* Makes one stand-in; the caller closes. */
bool make_standin(struct standins *s, const char *path, bool directory, struct buf *error);

#endif
