#include "launcher/entry.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/glob.h"

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);

    return n >= k && memcmp(s + n - k, end, k) == 0;
}

static bool has_wildcard(const char *s)
{
    return glob_has_wildcard(s, strlen(s));
}

/* The entry without a trailing slash-star-star. */
static char *without_tail(const char *text, bool *tail)
{
    size_t n = strlen(text);

    *tail = ends_with(text, n, "/**");
    if (*tail)
        n -= 3;
    return n != 0 ? mem_dup_n(text, n) : mem_dup("/");
}

/* As path_spell(), with the slash at the end of an absolute pattern kept: it makes it match
 * nothing. NULL when the entry names nothing. */
static char *spell_pattern(const char *text, const struct place *place)
{
    char *spelled = path_spell(text, place->directory, place->home);
    size_t n = strlen(text);

    bool absolute = text[0] == '/' || (text[0] == '~' && text[1] == '/');
    if (spelled == NULL || !absolute || text[n - 1] != '/' || strcmp(spelled, "/") == 0)
        return spelled;
    char *slashed = path_join(spelled, "");
    free(spelled);
    return slashed;
}

static void add_pattern(struct readings *out, char *text, size_t anchor)
{
    out->patterns = mem_resize(out->patterns, out->pattern_count + 1, sizeof *out->patterns);
    out->patterns[out->pattern_count++] = (struct pattern_reading){.text = text, .anchor = anchor};
}

/* The pattern as its characters spell it, its literal leading directory resolved like a name. */
static void read_pattern(const char *text, const struct place *place, struct readings *out)
{
    char *spelled = spell_pattern(text, place);

    if (spelled == NULL)
        return;
    size_t base = strcspn(spelled, "*?[]");
    if (spelled[base] == '\0') { /* "a-star/../b": folded away, and now a name */
        paths_add(&out->names, path_resolve(spelled, place->directory, place->home));
        free(spelled);
        return;
    }
    while (base > 0 && spelled[base] != '/')
        base--;
    if (base != 0) {
        char *directory = mem_dup_n(spelled, base);
        char *resolved = path_resolve(directory, place->directory, place->home);
        char *joined = path_join(resolved, spelled + base + 1);
        free(directory);
        free(resolved);
        free(spelled);
        spelled = joined;
    }
    add_pattern(out, spelled, 0);
}

/* The components of a spelling that holds wildcards. */
struct components {
    const char *text;
    size_t *ends;              /* where each ends in the text */
    bool *wild;                /* whether it holds a wildcard */
    size_t count, first, last; /* of those that do */
};

static bool components_of(const char *text, struct components *c)
{
    size_t room = 1;

    for (const char *p = text; *p != '\0'; p++)
        room += *p == '/';
    *c = (struct components){.text = text, .first = SIZE_MAX};
    c->ends = mem_array(room, sizeof *c->ends);
    c->wild = mem_array(room, sizeof *c->wild);
    const char *p = text + 1;
    for (;;) {
        size_t n = strcspn(p, "/");
        c->wild[c->count] = glob_has_wildcard(p, n);
        if (c->wild[c->count]) {
            c->first = c->first == SIZE_MAX ? c->count : c->first;
            c->last = c->count;
        }
        c->ends[c->count++] = (size_t)(p + n - text);
        if (p[n] == '\0')
            break;
        p += n + 1;
    }
    return c->first != SIZE_MAX;
}

static void components_free(struct components *c)
{
    free(c->ends);
    free(c->wild);
}

static int inspect(const struct components *c, size_t i, bool follow, struct stat *st)
{
    char *path = mem_dup_n(c->text, c->ends[i]);
    int number = follow ? path_stat(path, st) : path_lstat(path, st);

    free(path);
    return number;
}

/* A deny also counts what cannot be looked at: a command could switch it off by a mode. An allow
 * counts no link: whoever can write the directory could aim it anywhere. */
static bool is_there(const struct components *c, size_t i, enum entry_use use)
{
    struct stat st;
    int number = inspect(c, i, false, &st);

    if (use == ENTRY_DENY)
        return number == 0 || !path_is_absence(number);
    return number == 0 && !S_ISLNK(st.st_mode);
}

static bool is_directory(const struct components *c, size_t i, enum entry_use use)
{
    struct stat st;
    int number = inspect(c, i, use == ENTRY_DENY, &st);

    if (number == 0)
        return S_ISDIR(st.st_mode);
    return use == ENTRY_DENY && !path_is_absence(number);
}

/* True when no component of from..to is a link or cannot be looked at; missing ones are neither. */
static bool no_links(const struct components *c, size_t from, size_t to)
{
    for (size_t i = from; i <= to && i < c->count; i++) {
        struct stat st;
        int number = inspect(c, i, false, &st);
        if (number != 0)
            return path_is_absence(number);
        if (S_ISLNK(st.st_mode))
            return false;
    }
    return true;
}

/* How many components are there, from the first; counted to the last with a wildcard. */
static size_t reach_of(const struct components *c, enum entry_use use)
{
    size_t reach = c->first;

    while (reach <= c->last && is_there(c, reach, use))
        reach++;
    return reach;
}

static bool is_name(const struct components *c, size_t reach, enum entry_use use)
{
    return reach > c->last && (use == ENTRY_DENY || no_links(c, c->last + 1, c->count - 1));
}

/* The pattern beneath the directory that component `at` belongs to, if it is one. */
static void read_beneath(const struct components *c, size_t at, size_t reach, enum entry_use use,
                         bool tail, const struct place *place, struct readings *out)
{
    size_t next = at + 1;

    while (!c->wild[next])
        next++;
    size_t end = (next < reach ? next : reach) - 1;
    while (end >= at && !is_directory(c, end, use)) {
        if (end-- == at)
            return;
    }
    if (use == ENTRY_ALLOW && !no_links(c, end + 1, next - 1))
        return;

    char *directory = mem_dup_n(c->text, c->ends[end]);
    char *anchor = path_resolve(directory, place->directory, place->home);
    const char *rest = c->text + c->ends[end];
    size_t n = strlen(anchor);
    struct buf text;
    buf_init(&text, n + strlen(rest) + sizeof "/**");
    buf_printf(&text, "%s%s%s", anchor, rest, tail ? "/**" : "");
    add_pattern(out, mem_dup(buf_cstr(&text)), n);
    buf_free(&text);
    free(directory);
    free(anchor);
}

/* What a pattern also is where the part of it with wildcards exists. `stripped` has no tail. */
static void read_names(const char *stripped, bool tail, enum entry_use use,
                       const struct place *place, struct readings *out)
{
    struct components c;
    char *spelled = spell_pattern(stripped, place);

    if (spelled == NULL)
        return;
    if (components_of(spelled, &c)) {
        size_t reach = reach_of(&c, use);
        if (is_name(&c, reach, use))
            paths_add(&out->names, path_resolve(stripped, place->directory, place->home));
        for (size_t at = c.last; at-- > c.first;) {
            if (at < reach && c.wild[at])
                read_beneath(&c, at, reach, use, tail, place, out);
        }
    }
    components_free(&c);
    free(spelled);
}

void entry_read(const struct path_entry *entry, enum entry_use use, const struct place *place,
                struct readings *out)
{
    bool tail;

    *out = (struct readings){.pattern_count = 0};
    if (entry->literal) {
        paths_add(&out->names, path_resolve(entry->text, place->directory, place->home));
        return;
    }
    char *stripped = without_tail(entry->text, &tail);
    if (has_wildcard(stripped)) {
        read_pattern(entry->text, place, out);
        read_names(stripped, tail, use, place, out);
    } else {
        paths_add(&out->names, path_resolve(stripped, place->directory, place->home));
    }
    free(stripped);
}

void readings_free(struct readings *r)
{
    paths_free(&r->names);
    for (size_t i = 0; i < r->pattern_count; i++)
        free(r->patterns[i].text);
    MEM_FREE(r->patterns);
    r->pattern_count = 0;
}

void entry_write_names(const struct path_entry *entry, enum entry_use use,
                       const struct place *place, struct paths *out, bool *skipped)
{
    struct readings r = {.pattern_count = 0};
    bool tail;
    char *stripped = without_tail(entry->text, &tail);
    bool pattern = !entry->literal && has_wildcard(stripped);

    if (pattern)
        read_names(stripped, tail, use, place, &r);
    else
        paths_add(&r.names, path_resolve(entry->literal ? entry->text : stripped, place->directory,
                                         place->home));
    if (skipped != NULL)
        *skipped = pattern && r.names.count == 0;
    for (size_t i = 0; i < r.names.count; i++) {
        paths_add(out, r.names.list[i]);
        r.names.list[i] = NULL;
    }
    readings_free(&r);
    free(stripped);
}
