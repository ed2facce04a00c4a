#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decider/remote.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Reads the word that s begins with into `out`, which has room for all of s and a NUL. Returns what
 * is behind it, or NULL with the reason in *why. */
static const char *read_word(const char *s, char *out, const char **why)
{
    char quote = 0;

    for (; *s != 0 && (quote != 0 || !is_blank(*s)); s++) {
        if (*s == quote) {
            quote = 0;
        } else if (quote == 0 && (*s == '\'' || *s == '"')) {
            quote = *s;
        } else if (*s == '\\' && quote != '\'') {
            if (s[1] == 0) {
                *why = "ends in a backslash";
                return NULL;
            }
            *out++ = *++s;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
    if (quote == 0)
        return s;
    *why = quote == '"' ? "has an open \"" : "has an open '";
    return NULL;
}

char **remote_split_command(const char *text, struct buf *error)
{
    /* A word takes a character and, but for the last, a blank. */
    char **words = mem_array(strlen(text) / 2 + 2, sizeof *words);
    char *word = mem_alloc(strlen(text) + 1);
    size_t count = 0;
    const char *why = NULL;

    while (why == NULL) {
        while (is_blank(*text))
            text++;
        if (*text == 0)
            break;
        text = read_word(text, word, &why);
        if (why == NULL)
            words[count++] = mem_dup(word);
    }
    free(word);
    if (why == NULL && count == 0)
        why = "is empty";
    if (why == NULL && words[0][0] == 0)
        why = "names no program";
    if (why == NULL)
        return words;
    buf_printf(error, "the decider's command %s", why);
    remote_free_words(words);
    return NULL;
}

void remote_free_words(char **words)
{
    if (words == NULL)
        return;
    for (char **w = words; *w != NULL; w++)
        free(*w);
    free(words);
}
