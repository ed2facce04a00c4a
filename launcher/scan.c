#include "launcher/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

enum { ENTRIES_PER_LOOK = 256 };

static const char *const dangerous_files[] = {".gitconfig",    ".gitmodules", ".bashrc",
                                              ".bash_profile", ".zshrc",      ".zprofile",
                                              ".profile",      ".ripgreprc",  ".mcp.json"};
/* Directories of one component, and of two: the second in the first. */
static const char *const dangerous_directories[] = {".vscode", ".idea"};
static const char *const claude_directories[] = {"commands", "agents"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* One directory of the walk; on the stack of the C program, at most depth + 1 of them. */
struct level {
    const struct level *above;
    const char *path, *name;
    int fd;
    unsigned depth;    /* 0: the working directory */
    char *dangerous;   /* the dangerous directory it is or lies in; NULL: none */
    bool *seen;        /* set once a file was found there */
    bool too_deep;     /* the dangerous directory is: nothing is denied for it */
    bool denied_whole; /* not searchable, noted already */
};

struct scan {
    const struct scan_options *options;
    struct paths found;
    struct timespec end;
    bool stopped, cut;
};

static bool same(const char *name, const char *want)
{
    return text_equal_fold(name, strlen(name), want, strlen(want));
}

static bool among(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (same(name, list[i]))
            return true;
    }
    return false;
}

static bool is_over(struct scan *s)
{
    struct timespec now;

    if (s->stopped || s->cut)
        return true;
    if (s->options->stopped != NULL && s->options->stopped(s->options->ctx))
        s->stopped = true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > s->end.tv_sec ||
        (now.tv_sec == s->end.tv_sec && now.tv_nsec >= s->end.tv_nsec))
        s->cut = true;
    return s->stopped || s->cut;
}

/* A repository's hooks and config, and whatever is denied as a directory, may lie one level less
 * deep than a file. */
static bool directory_counts(const struct scan *s, unsigned depth)
{
    return depth + 2 <= s->options->depth;
}

static void take_file(struct scan *s, const struct level *at, const char *name)
{
    if (at->dangerous != NULL) {
        if (!*at->seen && !at->too_deep)
            paths_add(&s->found, mem_dup(at->dangerous));
        *at->seen = true;
        return;
    }
    if (at->above != NULL && same(at->name, ".git") &&
        (same(name, "HEAD") || (same(name, "config") && !s->options->allow_git_config))) {
        if (directory_counts(s, at->above->depth))
            paths_add(&s->found, path_join(at->path, same(name, "HEAD") ? "hooks" : name));
        return;
    }
    if (at->depth + 1 <= s->options->depth && among(name, dangerous_files, COUNT(dangerous_files)))
        paths_add(&s->found, path_join(at->path, name));
}

/* Denies a directory whose content is not known. One of another user's cannot be opened up by the
 * command, and there can be thousands of them. */
static void take_unreadable(struct scan *s, const struct level *parent, const char *name)
{
    struct stat st;

    if (fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == getuid())
        paths_add(&s->found, path_join(parent->path, name));
}

/* The same for a level that is readable but not searchable. */
static void take_unsearchable(struct scan *s, struct level *at)
{
    if (at->above == NULL || at->denied_whole)
        return;
    at->denied_whole = true;
    take_unreadable(s, at->above, at->name);
}

/* Asked once more after a failure that may pass. */
static int open_beneath(int parent, const char *name)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    int fd = openat(parent, name, FLAGS);

    if (fd >= 0 || errno == EACCES || path_is_absence(errno))
        return fd;
    return openat(parent, name, FLAGS);
}

static void walk(struct scan *s, struct level *at);

static void enter(struct scan *s, struct level *parent, const char *name)
{
    struct level child = {.above = parent,
                          .name = name,
                          .depth = parent->depth + 1,
                          .dangerous = parent->dangerous,
                          .seen = parent->seen,
                          .too_deep = parent->too_deep};
    bool seen = false;

    child.fd = open_beneath(parent->fd, name);
    if (child.fd < 0) {
        struct stat st;
        if (errno != EACCES)
            return;
        if (fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == EACCES)
            take_unsearchable(s, parent);
        else
            take_unreadable(s, parent, name);
        return;
    }
    char *path = path_join(parent->path, name);
    child.path = path;
    if (parent->dangerous == NULL) {
        bool one = among(name, dangerous_directories, COUNT(dangerous_directories));
        bool two = parent->above != NULL &&
                   ((same(parent->name, ".claude") &&
                     among(name, claude_directories, COUNT(claude_directories))) ||
                    (same(parent->name, ".git") && same(name, "hooks")));
        if (one || two) {
            child.dangerous = path;
            child.seen = &seen;
            child.too_deep = !directory_counts(s, parent->depth - (two ? 1 : 0));
        }
    }
    walk(s, &child);
    free(path);
}

static bool is_directory(int fd, const struct dirent *entry, bool *file)
{
    struct stat st;

    *file = entry->d_type == DT_REG;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == EACCES; /* opening it tells, and notes what cannot be searched */
    *file = S_ISREG(st.st_mode);
    return S_ISDIR(st.st_mode);
}

/* Lists a directory and all below it; closes its descriptor. */
static void walk(struct scan *s, struct level *at)
{
    DIR *dir = fdopendir(at->fd);
    const struct dirent *entry = NULL;
    bool modules = at->above != NULL && strcmp(at->name, "node_modules") == 0;

    if (dir == NULL) {
        close(at->fd);
        return;
    }
    while (!is_over(s)) {
        unsigned left = ENTRIES_PER_LOOK;
        while (left-- != 0 && (entry = readdir(dir)) != NULL) {
            bool file;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            bool directory = is_directory(at->fd, entry, &file);
            if (file)
                take_file(s, at, entry->d_name);
            else if (directory && !modules && at->depth < s->options->depth)
                enter(s, at, entry->d_name);
            if (s->stopped || s->cut)
                break;
        }
        if (entry == NULL)
            break;
    }
    closedir(dir);
}

/* The names in the working directory itself, whether they exist or not. */
static void add_fixed(const struct scan_options *o, struct paths *out)
{
    struct stat st;

    for (size_t i = 0; i < COUNT(dangerous_files); i++)
        paths_add(out, path_join(o->directory, dangerous_files[i]));
    for (size_t i = 0; i < COUNT(dangerous_directories); i++)
        paths_add(out, path_join(o->directory, dangerous_directories[i]));
    for (size_t i = 0; i < COUNT(claude_directories); i++) {
        char *claude = path_join(o->directory, ".claude");
        paths_add(out, path_join(claude, claude_directories[i]));
        free(claude);
    }
    char *git = path_join(o->directory, ".git");
    int number = path_stat(git, &st);
    if (number == 0 && S_ISDIR(st.st_mode)) {
        paths_add(out, path_join(git, "hooks"));
        if (!o->allow_git_config)
            paths_add(out, path_join(git, "config"));
    } else if (number == 0) {
        paths_add(out, mem_dup(git));
    }
    free(git);
}

bool scan_mandatory(const struct scan_options *o, struct paths *out, bool *cut)
{
    struct scan s = {.options = o};
    struct paths fixed = {.count = 0};
    struct level top = {.path = o->directory, .name = ""};

    clock_gettime(CLOCK_MONOTONIC, &s.end);
    s.end.tv_sec += SCAN_MS / 1000;
    top.fd = open(o->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top.fd >= 0)
        walk(&s, &top);
    add_fixed(o, &fixed);
    paths_sort(&s.found);
    for (size_t i = 0; i < fixed.count; i++)
        paths_add(out, mem_dup(fixed.list[i]));
    for (size_t i = 0; i < s.found.count; i++) {
        if (!paths_has(&fixed, s.found.list[i]))
            paths_add(out, mem_dup(s.found.list[i]));
    }
    paths_free(&fixed);
    paths_free(&s.found);
    if (cut != NULL)
        *cut = s.cut;
    return !s.stopped;
}
