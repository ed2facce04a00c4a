#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/unit/standins_fixture.h"

char *scene_path(const char *directory, const char *name)
{
    size_t n = strlen(directory) + strlen(name) + 2;
    char *path = mem_alloc(n);
    snprintf(path, n, "%s/%s", directory, name);
    return path;
}

int scene_set_up(void **state)
{
    struct scene *scene = mem_alloc(sizeof *scene);
    char name[] = "/tmp/srt-standins-XXXXXX";
    assert_non_null(mkdtemp(name));
    scene->top = mem_dup(name);
    scene->records = scene_path(name, "records");
    scene->project = scene_path(name, "project");
    assert_int_equal(mkdir(scene->records, 0700), 0);
    assert_int_equal(mkdir(scene->project, 0700), 0);
    buf_init(&scene->error, 4096);
    *state = scene;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;
    assert_int_equal(nftw(scene->top, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    buf_free(&scene->error);
    free(scene->top);
    free(scene->records);
    free(scene->project);
    free(scene);
    return 0;
}

size_t scene_entries(const char *directory)
{
    DIR *list = opendir(directory);
    size_t count = 0;
    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count - 2; /* "." and ".." */
}

size_t scene_runs(const char *directory)
{
    DIR *list = opendir(directory);
    const struct dirent *entry;
    size_t count = 0;
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL)
        count += strncmp(entry->d_name, "run-", 4) == 0;
    closedir(list);
    return count;
}

mode_t type_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

void small_plan_make(struct small_plan *p, const char *path, bool directory, bool optional)
{
    *p = (struct small_plan){0};
    p->standin =
        (struct standin){.path = mem_dup(path), .directory = directory, .optional = optional};
    p->mount = (struct mount){.kind = MOUNT_READ_ONLY,
                              .reason = REASON_MANDATORY,
                              .source = mem_dup(path),
                              .place = mem_dup(path)};
    p->mounts.list = &p->mount;
    p->mounts.count = 1;
    p->mounts.standins = &p->standin;
    p->mounts.standin_count = 1;
}

void small_plan_free(struct small_plan *p)
{
    free(p->standin.path);
    if (p->mounts.count != 0) {
        free(p->mount.source);
        free(p->mount.place);
    }
}

bool make_standin(struct standins *s, const char *path, bool directory, struct buf *error)
{
    struct small_plan plan;
    small_plan_make(&plan, path, directory, false);
    bool made = standins_make(s, &plan.mounts, error);
    small_plan_free(&plan);
    return made;
}
