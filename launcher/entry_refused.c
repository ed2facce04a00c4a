#include "launcher/entry.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/glob.h"

static bool ends_in_separator(const char *text, const char *key, struct buf *error)
{
    size_t n = strlen(text), kept = n;

    while (kept != 0 && text[kept - 1] == '/')
        kept--;
    if (kept == n || (text[0] != '/' && text[0] != '~') || !glob_has_wildcard(text, n))
        return false;
    buf_printf(error,
               "%s: Deny glob \"%s\" ends in a separator, so as a pattern it can match no path. "
               "Write \"%.*s\", which is also read as the path of that name where it exists, "
               "or add a \"**\" segment to match at any depth.",
               key, text, (int)kept, text);
    return true;
}

/* How much of a spelling is the working directory or the home, whose names are taken as they are.
 */
static size_t given_length(const char *spelled, const char *text, const struct place *place)
{
    bool home = text[0] == '~' && (text[1] == '/' || text[1] == '\0');
    const char *front = home ? place->home : place->directory;
    size_t n = 0;

    if (text[0] == '/' || front[0] != '/')
        return 0;
    char *folded = path_fold(front);
    if (strcmp(folded, "/") != 0 && path_beneath(spelled, folded))
        n = strlen(folded);
    free(folded);
    return n;
}

/* The first name in the root, by bytes, that the start "/component" matches; NULL: none. */
static char *first_top(const char *start)
{
    char *first = NULL;
    struct glob *glob = glob_new(start, 0);
    DIR *root = opendir("/");
    const struct dirent *entry;

    while (root != NULL && (entry = readdir(root)) != NULL) {
        if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
            continue;
        char *top = path_join("/", entry->d_name);
        bool better = first == NULL || strcmp(top, first) < 0;
        if (!better || !glob_match(glob, top, strlen(top))) {
            free(top);
            continue;
        }
        free(first);
        first = top;
    }
    if (root != NULL)
        closedir(root);
    glob_free(glob);
    return first;
}

/* One entry that can be enforced, in the place of `spelled`. */
static char *example_of(const char *spelled)
{
    size_t n = 1 + strcspn(spelled + 1, "/");

    if (n == 3 && memcmp(spelled, "/**", 3) == 0)
        return path_join("/home", spelled + 1);
    char *start = mem_dup_n(spelled, n);
    char *top = spelled[n] != '\0' ? first_top(start) : NULL;
    char *example = top != NULL          ? path_join(top, spelled + n + 1)
                    : spelled[n] != '\0' ? path_join("/home", spelled + n + 1)
                                         : path_join("/home", spelled + 1);
    free(start);
    free(top);
    return example;
}

static bool starts_at_root(const char *text, const char *key, const struct place *place,
                           struct buf *error)
{
    size_t n = strlen(text);
    size_t kept = n >= 3 && strcmp(text + n - 3, "/**") == 0 ? n - 3 : n;
    bool refused = false;

    if (!glob_has_wildcard(text, kept))
        return false;
    char *spelled = path_spell(text, place->directory, place->home);
    if (spelled == NULL)
        return false;
    size_t wild = strcspn(spelled, "*?[]");
    if (spelled[wild] != '\0' && memchr(spelled + 1, '/', wild - 1) == NULL &&
        wild > given_length(spelled, text, place)) {
        char *example = example_of(spelled);
        buf_printf(error,
                   "%s: entry \"%s\" has a wildcard in its first component, so it cannot be "
                   "enforced. List the top-level directories it should cover, one entry each, "
                   "as in \"%s\".",
                   key, text, example);
        free(example);
        refused = true;
    }
    free(spelled);
    return refused;
}

bool entry_refused(const struct path_entry *entry, const char *key, bool read,
                   const struct place *place, struct buf *error)
{
    if (entry->literal)
        return false;
    return ends_in_separator(entry->text, key, error) ||
           (read && starts_at_root(entry->text, key, place, error));
}
