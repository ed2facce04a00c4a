#include "tests/unit/tree_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

enum { USER = 65534 };

char *tree_new(void)
{
    char name[] = "/tmp/tree-XXXXXX";

    assert_non_null(mkdtemp(name));
    assert_int_equal(chmod(name, 0755), 0);
    return path_real(name);
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)where;
    if (type == FTW_D || type == FTW_DNR)
        chmod(path, 0700);
    return 0;
}

static int take_away(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

void tree_remove(char *root)
{
    nftw(root, open_up, 20, FTW_PHYS);
    nftw(root, take_away, 20, FTW_PHYS | FTW_DEPTH);
    free(root);
}

static void make_parents(const char *root, const char *path)
{
    for (const char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        char *parent = mem_dup_n(path, (size_t)(p - path));
        mkdir(parent, 0755);
        free(parent);
    }
}

static void make_node(const char *root, const char *node)
{
    const char *name = node + 2, *target = strchr(name, '=');
    char *plain =
        mem_dup_n(name, target != NULL && node[0] == 'l' ? (size_t)(target - name) : strlen(name));
    char *path = path_join(root, plain);
    int result = -1;

    make_parents(root, path);
    if (node[0] == 'd') {
        result = mkdir(path, 0755);
    } else if (node[0] == '0') {
        result = mkdir(path, 0755) == 0 ? chmod(path, 0) : -1;
    } else if (node[0] == 'r') {
        result = chmod(path, 0400);
    } else if (node[0] == 'p') {
        result = mkfifo(path, 0600);
    } else if (node[0] == 'l' && target != NULL) {
        char *aim = tree_text(root, target + 1);
        result = symlink(aim, path);
        free(aim);
    } else if (node[0] == 'f') {
        FILE *f = fopen(path, "w");
        result = f != NULL ? fclose(f) : -1;
    }
    if (result != 0)
        fail_msg("cannot make %s", node);
    free(plain);
    free(path);
}

void tree_make(const char *root, const char *const *nodes)
{
    for (size_t i = 0; nodes[i] != NULL; i++)
        make_node(root, nodes[i]);
}

static int give(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return lchown(path, USER, USER);
}

void tree_give(const char *root)
{
    if (getuid() == 0)
        assert_int_equal(nftw(root, give, 20, FTW_PHYS), 0);
}

void as_user(void (*test)(const char *root), const char *root)
{
    bool change = getuid() == 0;

    if (change)
        assert_int_equal(setresuid(USER, USER, 0), 0);
    test(root);
    if (change)
        assert_int_equal(setresuid(0, 0, 0), 0);
}

char *tree_text(const char *root, const char *text)
{
    struct buf b;

    buf_init(&b, (strlen(root) + 1) * (strlen(text) + 1));
    for (; *text != '\0'; text++)
        buf_append(&b, *text == '$' ? root : text, *text == '$' ? strlen(root) : 1);
    char *s = mem_dup(buf_cstr(&b));
    buf_free(&b);
    return s;
}

static void add_name(struct paths *p, const char *root, const char *name, size_t n)
{
    char *one = mem_dup_n(name, n);

    if (one[0] == '=')
        paths_add(p, mem_dup(one + 1));
    else if (strcmp(one, ".") == 0)
        paths_add(p, mem_dup(root));
    else
        paths_add(p, path_join(root, one));
    free(one);
}

static char *joined(const struct paths *p)
{
    size_t n = 1;

    for (size_t i = 0; i < p->count; i++)
        n += strlen(p->list[i]) + 1;
    char *s = mem_alloc(n);
    for (size_t i = 0, at = 0; i < p->count; i++) {
        size_t k = strlen(p->list[i]);
        memcpy(s + at, p->list[i], k);
        at += k;
        s[at++] = ' ';
    }
    return s;
}

void assert_paths(const char *what, const struct paths *got, const char *root, const char *names)
{
    struct paths want = {.count = 0}, have = {.count = 0};

    for (const char *p = names; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n != 0)
            add_name(&want, root, p, n);
        p += n + (p[n] == ' ');
    }
    for (size_t i = 0; i < got->count; i++)
        paths_add(&have, mem_dup(got->list[i]));
    paths_sort(&want);
    paths_sort(&have);
    char *wanted = joined(&want), *had = joined(&have);
    if (strcmp(wanted, had) != 0)
        fail_msg("%s: got [%s], not [%s]", what, had, wanted);
    assert_int_equal(have.count, got->count); /* no duplicates */
    free(wanted);
    free(had);
    paths_free(&want);
    paths_free(&have);
}
