#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "tests/unit/mounts_fixture.h"

enum { TEXT_MAX = 1 << 20, ENTRIES_MAX = 64, NOBODY = 65534 };

/* What $T, $W, $O, $H stand for, and what goes into the plan. */
struct view_of {
    char top[64], work[80], other[80], home[80];
    const char *vars[9]; /* name, value, ..., NULL */
    struct sandbox_settings settings;
    struct mounts_options options;
    struct paths standins, keep;
    const char *readable[ENTRIES_MAX + 1];
    size_t readable_count;
    const char *protected[ENTRIES_MAX + 1];
    size_t protected_count;
};

static bool as_user, dropped;

void mounts_fixture_as_user(bool user)
{
    as_user = user;
}

char *mounts_expand(const char *text, const char *const *vars)
{
    struct buf out;
    buf_init(&out, TEXT_MAX);
    while (*text != '\0') {
        bool found = false;
        for (size_t i = 0; vars[i] != NULL && !found; i += 2) {
            size_t n = strlen(vars[i]);
            found = strncmp(text, vars[i], n) == 0;
            if (found) {
                buf_puts(&out, vars[i + 1]);
                text += n;
            }
        }
        if (!found)
            buf_append(&out, text++, 1);
    }
    char *s = mem_dup(buf_cstr(&out));
    buf_free(&out);
    return s;
}

/* The reverse, the longest value first ($W before $T). */
static char *shorten(const char *text, const char *const *vars)
{
    const char *back[9];
    size_t n = 0;
    for (size_t i = 0; vars[i] != NULL; i += 2) {
        back[n++] = vars[i + 1];
        back[n++] = vars[i];
    }
    back[n] = NULL;
    return mounts_expand(text, back);
}

/* Calls `each` with every part of a "; "-separated list. */
static void each_part(const char *list, struct view_of *v, void (*each)(struct view_of *, char *))
{
    char *all = mounts_expand(list, v->vars);
    for (char *part = all, *next; part != NULL && *part != '\0'; part = next) {
        next = strstr(part, "; ");
        if (next != NULL) {
            *next = '\0';
            next += 2;
        }
        each(v, part);
    }
    free(all);
}

static void make_parents(char *path)
{
    for (char *s = path + 1; (s = strchr(s, '/')) != NULL; s++) {
        *s = '\0';
        (void)mkdir(path, 0755);
        *s = '/';
    }
}

static void make_node(struct view_of *v, char *part)
{
    (void)v;
    char *path = part + 2, *arrow = strstr(part, " -> ");
    if (part[0] == 'm') {
        char *space = strchr(path, ' ');
        assert_non_null(space);
        mode_t mode = (mode_t)strtoul(path, NULL, 8);
        assert_int_equal(chmod(space + 1, mode), 0);
        return;
    }
    if (arrow != NULL)
        *arrow = '\0';
    make_parents(path);
    if (part[0] == 'd')
        assert_int_equal(mkdir(path, 0755), 0);
    else if (part[0] == 'l' && arrow != NULL)
        assert_int_equal(symlink(arrow + 4, path), 0);
    else {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fclose(f);
    }
}

static void add_entry(struct view_of *v, struct path_list *list, const char *text, bool literal)
{
    assert_true(list->count < ENTRIES_MAX);
    if (list->entries == NULL)
        list->entries = mem_array(ENTRIES_MAX, sizeof *list->entries);
    char *copy = mem_dup(text);
    paths_add(&v->keep, copy);
    list->entries[list->count++] = (struct path_entry){.text = copy, .literal = literal};
}

static bool take_list(struct view_of *v, const char *part)
{
    const struct {
        const char *key;
        struct path_list *list;
    } lists[] = {{"denyRead", &v->settings.deny_read},
                 {"allowRead", &v->settings.allow_read},
                 {"allowWrite", &v->settings.allow_write},
                 {"denyWrite", &v->settings.deny_write},
                 {"credential", &v->settings.credential_denies}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t n = strlen(lists[i].key);
        bool literal = part[n < strlen(part) ? n : 0] == '=';
        if (strncmp(part, lists[i].key, n) == 0 && (part[n] == ' ' || part[n] == '=')) {
            add_entry(v, lists[i].list, part + n + (literal ? 2 : 1), literal);
            return true;
        }
    }
    return false;
}

static void take_setting(struct view_of *v, char *part)
{
    char *value = strchr(part, ' ');
    if (take_list(v, part))
        return;
    char *copy = mem_dup(value != NULL ? value + 1 : "");
    paths_add(&v->keep, copy);
    if (value != NULL)
        *value = '\0';
    if (strcmp(part, "allowGitConfig") == 0)
        v->settings.allow_git_config = true;
    else if (strcmp(part, "disabled") == 0)
        v->settings.filesystem_disabled = true;
    else if (strcmp(part, "depth") == 0)
        v->settings.search_depth = (unsigned)strtoul(copy, NULL, 10);
    else if (strcmp(part, "home") == 0)
        v->options.home = copy;
    else if (strcmp(part, "private") == 0)
        v->options.private_directory = copy;
    else if (strcmp(part, "temporary") == 0)
        v->options.temporary = copy;
    else if (strcmp(part, "readable") == 0)
        v->readable[v->readable_count++] = copy;
    else if (strcmp(part, "protected") == 0)
        v->protected[v->protected_count++] = copy;
    else if (strcmp(part, "standin") == 0)
        paths_add(&v->standins, mem_dup(copy));
    else
        fail_msg("unknown setting %s", part);
}

static bool is_standin(void *ctx, const char *path)
{
    return paths_has(ctx, path);
}

static void set_up(struct view_of *v, const struct mounts_row *row)
{
    *v = (struct view_of){0};
    snprintf(v->top, sizeof v->top, "/tmp/test-mounts-XXXXXX");
    assert_non_null(mkdtemp(v->top));
    if (as_user && geteuid() == 0) {
        assert_int_equal(chown(v->top, NOBODY, NOBODY), 0);
        /* The saved id stays, for the way back. */
        assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
        dropped = true;
    }
    snprintf(v->work, sizeof v->work, "%s/w", v->top);
    snprintf(v->other, sizeof v->other, "%s/o", v->top);
    snprintf(v->home, sizeof v->home, "%s/h", v->top);
    assert_int_equal(mkdir(v->work, 0755), 0);
    assert_int_equal(mkdir(v->other, 0755), 0);
    assert_int_equal(mkdir(v->home, 0755), 0);
    memcpy(v->vars,
           (const char *[]){"$W", v->work, "$O", v->other, "$H", v->home, "$T", v->top, NULL},
           sizeof v->vars);
    v->settings.search_depth = 3;
    v->options = (struct mounts_options){.settings = &v->settings,
                                         .directory = v->work,
                                         .home = v->home,
                                         .readable = v->readable,
                                         .protected_files = v->protected,
                                         .is_standin = is_standin,
                                         .standin_ctx = &v->standins};
    each_part(row->tree, v, make_node);
    each_part(row->settings, v, take_setting);
}

static int remove_node(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int open_up(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)ftw;
    if (type == FTW_DNR || type == FTW_D)
        (void)chmod(path, 0700);
    return 0;
}

static void tear_down(struct view_of *v)
{
    if (dropped)
        assert_int_equal(setresuid(0, 0, 0), 0);
    dropped = false;
    (void)nftw(v->top, open_up, 16, FTW_PHYS);
    assert_int_equal(nftw(v->top, remove_node, 16, FTW_PHYS | FTW_DEPTH), 0);
    free(v->settings.deny_read.entries);
    free(v->settings.allow_read.entries);
    free(v->settings.allow_write.entries);
    free(v->settings.deny_write.entries);
    free(v->settings.credential_denies.entries);
    paths_free(&v->standins);
    paths_free(&v->keep);
}

static const struct standin *standin_of(const struct mounts *plan, const char *place)
{
    for (size_t i = 0; i < plan->standin_count; i++) {
        if (strcmp(plan->standins[i].path, place) == 0)
            return &plan->standins[i];
    }
    return NULL;
}

/* Left out of every row: absent protected names in the working directory, and the system's. */
static bool is_left_out(const struct view_of *v, const struct mount *m, const struct standin *s)
{
    static const char *const names[] = {".gitconfig", ".gitmodules", ".bashrc",  ".bash_profile",
                                        ".zshrc",     ".zprofile",   ".profile", ".ripgreprc",
                                        ".mcp.json",  ".vscode",     ".idea",    ".claude"};
    size_t n = strlen(v->work);
    if (path_within("/etc/ssh/ssh_config.d", m->place) && strcmp(m->place, "/") != 0)
        return true;
    if (strcmp(m->place, "/tmp/claude") == 0 || strcmp(m->place, "/private/tmp/claude") == 0)
        return true;
    if (s == NULL || m->reason != REASON_MANDATORY || !path_beneath(m->place, v->work))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(m->place + n + 1, names[i]) == 0)
            return true;
    }
    return false;
}

static void render(struct buf *out, const struct view_of *v, const struct mounts *plan)
{
    static const char *const words[] = {[MOUNT_READ_ONLY] = "ro",
                                        [MOUNT_WRITABLE] = "rw",
                                        [MOUNT_HIDE_DIRECTORY] = "tmpfs",
                                        [MOUNT_HIDE_FILE] = "null",
                                        [MOUNT_PIN_LINK] = "pin"};
    if (plan->root_writable)
        buf_puts(out, "writable");
    for (size_t i = 0; i < plan->count; i++) {
        const struct mount *m = &plan->list[i];
        const struct standin *s = m->kind == MOUNT_READ_ONLY ? standin_of(plan, m->place) : NULL;
        bool hides = m->kind == MOUNT_HIDE_DIRECTORY || m->kind == MOUNT_HIDE_FILE;
        assert_int_equal(hides, m->source == NULL);
        if (is_left_out(v, m, s))
            continue;
        if (buf_len(out) > 0)
            buf_puts(out, "; ");
        const char *word = s == NULL ? words[m->kind] : s->directory ? "dir" : "node";
        if (m->source != NULL && strcmp(m->source, m->place) != 0)
            buf_printf(out, "%s %s at %s", word, m->source, m->place);
        else
            buf_printf(out, "%s %s", word, m->place);
    }
}

static void check_row(const struct mounts_row *row)
{
    struct view_of v;
    struct mounts plan;
    struct buf error, got;

    set_up(&v, row);
    buf_init(&error, TEXT_MAX);
    buf_init(&got, TEXT_MAX);
    if (mounts_plan(&v.options, &plan, &error))
        render(&got, &v, &plan);
    else
        buf_printf(&got, "error: %s", buf_cstr(&error));
    char *text = shorten(buf_cstr(&got), v.vars);
    mounts_free(&plan);
    buf_free(&error);
    buf_free(&got);
    tear_down(&v);
    bool same = strncmp(row->expected, "error: ", 7) == 0
                    ? strncmp(text, "error: ", 7) == 0 && strstr(text, row->expected + 7) != NULL
                    : strcmp(text, row->expected) == 0;
    if (!same)
        print_error("%s\n  want: %s\n  got:  %s\n", row->title, row->expected, text);
    free(text);
    assert_true(same);
}

void mounts_check(const struct mounts_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_row(&rows[i]);
}

void mounts_with(const struct mounts_row *row,
                 void (*keep)(const struct mounts *plan, const char *const *vars))
{
    struct view_of v;
    struct mounts plan;
    struct buf error;

    set_up(&v, row);
    buf_init(&error, TEXT_MAX);
    assert_true(mounts_plan(&v.options, &plan, &error));
    keep(&plan, v.vars);
    mounts_free(&plan);
    buf_free(&error);
    tear_down(&v);
}
