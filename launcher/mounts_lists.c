#include "launcher/mounts_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/glob.h"
#include "launcher/scan.h"

/* Chapter 50 section 6.1. */
const char *const mounts_default_writes[] = {"/tmp/claude", "/private/tmp/claude", "~/.npm/_logs",
                                             "~/.claude/debug", NULL};

static bool list_refused(struct planner *p, const struct path_list *list, const char *key,
                         bool read)
{
    for (size_t i = 0; i < list->count; i++) {
        if (entry_refused(&list->entries[i], key, read, &p->spelled, p->error))
            return true;
    }
    return false;
}

static void read_list(struct planner *p, const struct path_list *list, const char *key,
                      bool credential)
{
    for (size_t i = 0; i < list->count; i++) {
        struct read_entry *e = &p->read_entries[p->read_entry_count++];
        *e = (struct read_entry){
            .key = key, .text = list->entries[i].text, .credential = credential};
        entry_read(&list->entries[i], ENTRY_DENY, &p->spelled, &e->readings);
    }
}

static void collect_reads(struct planner *p)
{
    const struct sandbox_settings *s = p->o->settings;
    size_t count = s->deny_read.count + s->credential_denies.count;

    p->read_entries = mem_array(count + 1, sizeof *p->read_entries);
    read_list(p, &s->deny_read, "filesystem.denyRead", false);
    read_list(p, &s->credential_denies, "credentials.files", true);

    p->allow_entries = mem_array(s->allow_read.count + 1, sizeof *p->allow_entries);
    p->allow_entry_count = s->allow_read.count;
    for (size_t i = 0; i < p->allow_entry_count; i++) {
        struct readings *r = &p->allow_entries[i];
        entry_read(&s->allow_read.entries[i], ENTRY_ALLOW, &p->spelled, r);
    }
}

/* True when the pattern matches the path or a directory above it. P slash-star-star counts as P. */
static bool pattern_covers(const struct pattern_reading *pattern, const char *path)
{
    size_t n = strlen(pattern->text);
    if (n > 3 && n - 3 >= pattern->anchor && strcmp(pattern->text + n - 3, "/**") == 0)
        n -= 3;
    char *text = mem_dup_n(pattern->text, n);
    struct glob *glob = glob_new(text, pattern->anchor);
    bool covers = false;
    for (size_t end = strlen(path); end > 1 && !covers;) {
        covers = glob_match(glob, path, end);
        do
            end--;
        while (end > 0 && path[end] != '/');
    }
    glob_free(glob);
    free(text);
    return covers;
}

static bool name_covers(const char *name, const char *path)
{
    char *real = path_canonical(name);
    bool covers = path_within(path, name) || path_within(path, real);
    free(real);
    return covers;
}

/* One reading of an entry: a name, or else a pattern. */
struct cover {
    const char *name;
    const struct pattern_reading *pattern;
};

static bool covers(const struct cover *c, const char *path)
{
    return c->name != NULL ? name_covers(c->name, path) : pattern_covers(c->pattern, path);
}

/* True when an allowRead name lies at or beneath what covers `path`, and at or above `path`. */
static bool reopened(const struct planner *p, const struct cover *c, const char *path)
{
    for (size_t i = 0; i < p->allow_entry_count; i++) {
        const struct paths *names = &p->allow_entries[i].names;
        for (size_t n = 0; n < names->count; n++) {
            if (path_within(path, names->list[n]) && covers(c, names->list[n]))
                return true;
        }
    }
    return false;
}

static bool entry_covers(const struct planner *p, const struct read_entry *e, const char *path)
{
    size_t names = e->readings.names.count;
    for (size_t i = 0; i < names + e->readings.pattern_count; i++) {
        struct cover c = {.name = i < names ? e->readings.names.list[i] : NULL,
                          .pattern = i < names ? NULL : &e->readings.patterns[i - names]};
        if (covers(&c, path) && (e->credential || !reopened(p, &c, path)))
            return true;
    }
    return false;
}

static bool read_denied(const struct planner *p, const char *path)
{
    for (size_t i = 0; i < p->read_entry_count; i++) {
        if (entry_covers(p, &p->read_entries[i], path))
            return true;
    }
    return false;
}

/* Why a name of allowWrite has no effect; NULL when it has. */
static const char *allow_write(struct planner *p, const char *name)
{
    mode_t mode;
    if (plan_is_private_tree(name))
        return NULL;
    if (p->o->temporary != NULL && strcmp(name, p->o->temporary) == 0)
        return NULL;
    char *real = path_real(name);
    const char *why = NULL;
    if (real == NULL || plan_lstat(p, real, &mode) != 0)
        why = "is not there, so nothing is opened for writing";
    else if (strcmp(real, name) != 0)
        why = "is or passes through a symbolic link and is not followed; name what it leads to";
    else if (path_index_get(&p->allowed_index, name) == PATH_INDEX_NONE) {
        paths_add(&p->allowed, mem_dup(name));
        path_index_set(&p->allowed_index, name, (long)p->allowed.count - 1);
    }
    free(real);
    return why;
}

/* Those in /tmp are our own; one in the home is kept only where no read-deny covers it. */
static void allow_default(struct planner *p, const char *text)
{
    bool home = text[0] == '~';
    char *name =
        home && p->o->home[0] == '\0' ? NULL : path_resolve(text, p->o->directory, p->o->home);
    if (name != NULL && !(home && read_denied(p, name)))
        (void)allow_write(p, name);
    free(name);
}

static void allow_entry(struct planner *p, const struct path_entry *entry)
{
    static const char key[] = "filesystem.allowWrite";
    struct paths names = {0};
    bool skipped = false;
    entry_write_names(entry, ENTRY_ALLOW, &p->spelled, &names, &skipped);
    for (size_t i = 0; i < names.count; i++) {
        const char *why = allow_write(p, names.list[i]);
        if (why != NULL)
            plan_warn(p, key, entry->text, why);
    }
    if (skipped && names.count == 0)
        plan_warn(p, key, entry->text,
                  "is a pattern, which opens nothing for writing here; name a directory");
    paths_free(&names);
}

static void collect_allowed(struct planner *p)
{
    const struct path_list *list = &p->o->settings->allow_write;
    for (const char *const *text = mounts_default_writes; *text != NULL; text++)
        allow_default(p, *text);
    for (int literal = 0; literal <= 1; literal++) {
        for (size_t i = 0; i < list->count; i++) {
            if (list->entries[i].literal == (literal == 1))
                allow_entry(p, &list->entries[i]);
        }
    }
}

static void add_write_name(struct planner *p, char *name, const char *text)
{
    if (p->write_name_count == p->write_name_room) {
        p->write_name_room = p->write_name_room == 0 ? 64 : p->write_name_room * 2;
        p->write_names = mem_resize(p->write_names, p->write_name_room, sizeof *p->write_names);
    }
    p->write_names[p->write_name_count++] = (struct write_name){.name = name, .text = text};
}

static void deny_entry(struct planner *p, const struct path_entry *entry)
{
    struct paths names = {0};
    bool skipped = false;
    entry_write_names(entry, ENTRY_DENY, &p->spelled, &names, &skipped);
    for (size_t i = 0; i < names.count; i++)
        add_write_name(p, mem_dup(names.list[i]), entry->text);
    if (skipped && names.count == 0)
        plan_warn(p, "filesystem.denyWrite", entry->text,
                  "is a pattern, which denies no writing here; name each path");
    paths_free(&names);
}

static bool directory_is_writable(const struct planner *p)
{
    return path_index_covers(&p->allowed_index, p->o->directory) ||
           path_index_beneath(&p->allowed_index, p->o->directory);
}

static bool collect_mandatory(struct planner *p)
{
    const struct mounts_options *o = p->o;
    /* Where nothing can be written only a link could need protection: no walk for that. */
    struct scan_options scan = {.directory = o->directory,
                                .depth = directory_is_writable(p) ? o->settings->search_depth : 1,
                                .allow_git_config = o->settings->allow_git_config,
                                .stopped = o->stopped,
                                .ctx = o->ctx};
    struct paths names = {0};
    bool cut = false;

    if (p->allowed.count == 0)
        return true;
    bool done = scan_mandatory(&scan, &names, &cut);
    for (size_t i = 0; i < names.count; i++)
        add_write_name(p, mem_dup(names.list[i]), NULL);
    paths_free(&names);
    if (!done)
        buf_puts(p->error, "interrupted");
    if (cut)
        paths_add(&p->out->warnings,
                  mem_dup("the search for protected names below the working directory took too "
                          "long; names not yet found are not protected"));
    return done;
}

bool lists_collect(struct planner *p)
{
    const struct sandbox_settings *s = p->o->settings;

    if (list_refused(p, &s->deny_read, "filesystem.denyRead", true) ||
        list_refused(p, &s->credential_denies, "credentials.files", true) ||
        list_refused(p, &s->deny_write, "filesystem.denyWrite", false))
        return false;
    collect_reads(p);
    collect_allowed(p);
    for (int literal = 0; literal <= 1; literal++) {
        for (size_t i = 0; i < s->deny_write.count; i++) {
            if (s->deny_write.entries[i].literal == (literal == 1))
                deny_entry(p, &s->deny_write.entries[i]);
        }
    }
    return !plan_stopped(p) && collect_mandatory(p);
}
